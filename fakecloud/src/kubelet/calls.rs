//! API calls of kubelets as values: request, kubelet, outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Node;
use runtime::backoff::doubled;
use serde_json::Value;

use super::facts::{NodeFacts, PodKey};
use super::objects::Renewal;

/// One run of a kubelet, from a start of the kubelet or its VM to its end. Outcomes for a finished run are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    /// The VM's ordinal in the ledger.
    pub(super) vm: u64,
    pub(super) number: u64,
}

/// An API call to make. `Fleet::done` gets its outcome.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// Read a Secret in kube-system.
    ReadSecret { name: String },
    /// Create the Node, or read the existing one.
    Register { node: Box<Node> },
    /// Delete the Node with this uid.
    DeleteNode { name: String, uid: String },
    /// Renew the Lease, or create it.
    RenewLease(Box<Renewal>),
    /// Patch the Node's status.
    NodeStatus { name: String, patch: Value },
    /// Read the volumes of a pod's claims.
    ReadVolumes {
        pod: PodKey,
        number: u64,
        claims: Vec<String>,
    },
    /// Patch a pod's status.
    PodStatus { pod: PodKey, number: u64, patch: Value },
    /// Delete a pod with this uid without a grace period.
    EndPod { pod: PodKey, number: u64, uid: String },
    /// Delete a mirror pod with this uid, and create it again.
    RenewMirror { pod: PodKey, number: u64, uid: String },
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The data of the Secret; `None`: it does not exist.
    Secret(Option<BTreeMap<String, ByteString>>),
    /// The current Node.
    Node(Box<NodeFacts>),
    /// The names of the volumes that must be attached; `None`: a claim is not bound.
    Volumes(Option<Vec<String>>),
    /// A pod was written and has this resourceVersion.
    Written(u64),
    /// The call succeeded.
    Done,
    /// The object does not exist, or is another one of that name.
    Gone,
    /// The call failed and is retried.
    Failed(String),
}

/// What the fleet requests from the loop.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    /// Make an API call for a run of a kubelet.
    Call(Run, Request),
    /// The VM's kubelet has registered its Node.
    Joined { vm: String },
    /// Write a record to the cloud's log.
    Report {
        vm: String,
        operation: &'static str,
        message: String,
    },
}

/// What to do with a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// The API server is unreachable.
    Unreachable,
    /// The kubelet that requested it no longer runs.
    Dropped,
}

/// Pause after a number of consecutive failures: 1 s, 2 s, 4 s, ..., at most `limit`.
pub(super) fn backoff(failures: u32, limit: Duration) -> Duration {
    doubled(Duration::from_secs(1), failures.saturating_sub(1), limit)
}
