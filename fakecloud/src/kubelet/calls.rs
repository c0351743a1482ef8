//! The calls that kubelets make to the API server, as values: what is asked, on whose behalf, what came back.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Node;
use runtime::backoff::doubled;
use serde_json::Value;

use super::facts::{NodeFacts, PodKey};
use super::objects::Renewal;

/// One run of a kubelet: from a start of it or of its VM to its end. What comes back for a run that
/// is over is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    /// The VM's number in the ledger.
    pub(super) vm: u64,
    pub(super) number: u64,
}

/// An API call to make. Its outcome comes back by `Fleet::done`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// Read a Secret in kube-system.
    ReadSecret { name: String },
    /// Create the Node, or read the one that is there.
    Register { node: Box<Node> },
    /// Delete the Node of that uid.
    DeleteNode { name: String, uid: String },
    /// Renew the Lease, or create it.
    RenewLease(Box<Renewal>),
    /// Patch the Node's status.
    NodeStatus { name: String, patch: Value },
    /// Find the volumes behind the claims of a pod.
    ReadVolumes {
        pod: PodKey,
        number: u64,
        claims: Vec<String>,
    },
    /// Patch a pod's status.
    PodStatus { pod: PodKey, number: u64, patch: Value },
    /// Delete a pod of that uid without grace.
    EndPod { pod: PodKey, number: u64, uid: String },
    /// Delete a mirror pod of that uid, and create it anew.
    RenewMirror { pod: PodKey, number: u64, uid: String },
}

/// What a call brought.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The data of the Secret; `None`: there is none.
    Secret(Option<BTreeMap<String, ByteString>>),
    /// The Node as it is now.
    Node(Box<NodeFacts>),
    /// The names of the volumes that must be attached; `None`: not every claim is bound.
    Volumes(Option<Vec<String>>),
    /// A pod was written, and has that resource version.
    Written(u64),
    /// It is done.
    Done,
    /// The object is not there, or is another one.
    Gone,
    /// It did not work; it is tried again.
    Failed(String),
}

/// What the fleet wants from its surroundings.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    /// Make an API call for that run of a kubelet.
    Call(Run, Request),
    /// The VM's kubelet has registered its Node.
    Joined { vm: String },
    /// Something for the cloud's log.
    Report {
        vm: String,
        operation: &'static str,
        message: String,
    },
}

/// What becomes of a call that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// The API server is out of reach.
    Unreachable,
    /// The kubelet that wanted it is no more.
    Dropped,
}

/// How long to wait after so many failures in a row: a second, two, four, ..., at most `most`.
pub(super) fn backoff(failures: u32, most: Duration) -> Duration {
    doubled(Duration::from_secs(1), failures.saturating_sub(1), most)
}
