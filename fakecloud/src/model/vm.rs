//! One VM of the ledger, and its state.

use std::collections::BTreeMap;
use std::fmt;

pub use fakecloud_api::VmState;
use jiff::Timestamp;
use mcm_api::cloud::{Power, VmIdentity};
use mcm_api::{NodeName, ProviderId};
use serde::{Deserialize, Serialize};

use super::kubelet::{FaultKind, KubeletFaults, NodeCondition};
use super::spec::{ProviderSpec, Taint};

/// User data of the machine's class. It contains a bootstrap token, so it is never shown; only the files of the ledger
/// contain it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserData(String);

impl UserData {
    /// Wraps the bytes of a Secret; invalid UTF-8 is replaced.
    pub fn new(bytes: &[u8]) -> Self {
        Self(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The text, for the kubelet of the VM.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// The machine that a VM was created for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Also the name of the Node.
    pub name: String,
    /// May be empty.
    pub namespace: String,
    /// The Machine object's uid.
    pub uid: String,
    /// The machine class's name.
    pub class: String,
}

impl Owner {
    /// `NAMESPACE/NAME`, or `NAME` without a namespace.
    pub fn key(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

/// A VM of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vm {
    /// Its number in the ledger: 1, 2, 3, ...
    pub ordinal: u64,
    /// Unique in this cloud.
    pub id: String,
    /// `fakecloud:///ZONE/ID`.
    pub provider_id: String,
    /// The machine that it was created for.
    pub owner: Owner,
    /// The current state.
    pub state: VmState,
    /// The reason for the state.
    pub reason: String,
    /// Whether `InitializeMachine` is done or not required.
    pub initialized: bool,
    /// Its zone.
    pub zone: String,
    /// The zone's region.
    pub region: String,
    /// One of the configured machine types.
    pub machine_type: String,
    /// The image's name.
    pub image: String,
    /// The cloud's tags.
    pub tags: BTreeMap<String, String>,
    /// Name under which its kubelet registers, and host name.
    pub node_name: String,
    /// Labels with which the kubelet registers.
    pub node_labels: BTreeMap<String, String>,
    /// Taints with which the kubelet registers.
    pub node_taints: Vec<Taint>,
    /// The user data from which the kubelet boots.
    pub user_data: UserData,
    /// Changes with each boot; empty before the first.
    pub boot_id: String,
    /// Creation time.
    pub created: Timestamp,
    /// Time of the last state change.
    pub changed: Timestamp,
    /// Faults of its kubelet.
    pub kubelet: KubeletFaults,
    /// Conditions of its Node that replace those of a healthy kubelet; `None`: the condition is removed.
    pub conditions: BTreeMap<String, Option<NodeCondition>>,
    /// Whether its kubelet has registered the Node and no longer needs its bootstrap token.
    pub joined: bool,
    /// Start of its deletion: from then on no call finds it.
    pub removed: Option<Timestamp>,
    /// When the cloud preempts it.
    pub preempted: Option<Timestamp>,
    /// Whether its zone failed, so that it boots again when the zone recovers.
    pub(super) returns: bool,
    /// Whether its kernel panicked, so that nothing runs on it until the next boot.
    pub(super) panicked: bool,
    /// Time of the first boot.
    pub(super) first_boot: Option<Timestamp>,
    /// Time of its next transition.
    pub(super) deadline: Option<Timestamp>,
    /// Number of boots.
    pub(super) boots: u64,
    /// When faults of its kubelet end.
    pub(super) fault_ends: BTreeMap<FaultKind, Timestamp>,
}

impl Vm {
    /// The VM in a driver's reply.
    pub fn identity(&self) -> VmIdentity {
        VmIdentity {
            provider_id: ProviderId::new(self.provider_id.as_str()),
            node_name: NodeName::new(self.node_name.as_str()),
            addresses: Vec::new(),
            last_known_state: None,
            power: Some(match self.state {
                VmState::Stopped | VmState::Terminated => Power::Stopped,
                VmState::Pending | VmState::Running | VmState::Stopping => Power::Running,
            }),
        }
    }

    /// Whether a call at `then` would have found it.
    pub(super) fn was_live(&self, then: Timestamp) -> bool {
        self.created <= then && self.removed.is_none_or(|removed| removed > then)
    }

    /// The internal IPv4 address, derived from the ordinal so that it is unique.
    pub fn address(&self) -> String {
        let [_, high, middle, low] = (self.ordinal as u32).to_be_bytes();
        format!("10.{high}.{middle}.{low}")
    }

    /// The first field in which the VM differs from `spec`.
    pub(super) fn difference(&self, spec: &ProviderSpec) -> Option<String> {
        let fields = [
            ("zone", &self.zone, &spec.zone),
            ("machineType", &self.machine_type, &spec.machine_type),
            ("image", &self.image, &spec.image),
        ];
        fields
            .into_iter()
            .find(|(_, is, wanted)| is != wanted)
            .map(|(field, is, wanted)| format!("its {field} is {is:?}, and the request has {wanted:?}"))
    }
}
