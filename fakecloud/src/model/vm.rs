//! One VM of the ledger: what it is, and in which state.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use mcm_api::cloud::VmIdentity;
use mcm_api::{NodeName, ProviderId};
use serde::{Deserialize, Serialize};

use super::kubelet::{FaultKind, KubeletFaults, NodeCondition};
use super::spec::{ProviderSpec, Taint};

/// The state of a VM: pending → running ⇄ stopped → stopping → terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum VmState {
    /// Made, and not booted yet.
    Pending,
    /// Booted.
    Running,
    /// Switched off, dead or pre-empted; it still exists.
    Stopped,
    /// Being deleted.
    Stopping,
    /// Deleted; kept for the record only.
    Terminated,
}

impl VmState {
    /// Whether the VM counts for "at most one live VM per machine".
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Running | Self::Stopped)
    }

    /// The state as people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Stopping => "stopping",
            Self::Terminated => "terminated",
        }
    }
}

impl fmt::Display for VmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// User data as the machine's class gave it. It holds a bootstrap token, so it is never shown; only the ledger's own
/// files have it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserData(String);

impl UserData {
    /// Wraps the bytes of a Secret; what is no UTF-8 is replaced.
    pub fn new(bytes: &[u8]) -> Self {
        Self(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The text, for the kubelet that boots from it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// Which machine a VM was made for.
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

/// A VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vm {
    /// Its number in the ledger: 1, 2, 3, ...
    pub ordinal: u64,
    /// Unique in this cloud.
    pub id: String,
    /// `fakecloud:///ZONE/ID`.
    pub provider_id: String,
    /// The machine it was made for.
    pub owner: Owner,
    /// The current state.
    pub state: VmState,
    /// Why it is in that state.
    pub reason: String,
    /// Whether `InitializeMachine` was done or is not needed.
    pub initialized: bool,
    /// Where it stands.
    pub zone: String,
    /// The zone's region.
    pub region: String,
    /// One of the configured machine types.
    pub machine_type: String,
    /// The image's name.
    pub image: String,
    /// The cloud's tags.
    pub tags: BTreeMap<String, String>,
    /// The name under which its kubelet registers, and its host name.
    pub node_name: String,
    /// Labels with which the kubelet registers.
    pub node_labels: BTreeMap<String, String>,
    /// Taints with which the kubelet registers.
    pub node_taints: Vec<Taint>,
    /// What the kubelet boots from.
    pub user_data: UserData,
    /// Another one after each boot; empty before the first.
    pub boot_id: String,
    /// When it was made.
    pub created: Timestamp,
    /// When its state changed last.
    pub changed: Timestamp,
    /// What is wrong with its kubelet.
    pub kubelet: KubeletFaults,
    /// Conditions that its Node is to show besides a healthy kubelet's; `None`: is not to show.
    pub conditions: BTreeMap<String, Option<NodeCondition>>,
    /// Its kubelet has registered the Node and needs no bootstrap token any more.
    pub joined: bool,
    /// When its deletion began: from then on no call finds it.
    pub removed: Option<Timestamp>,
    /// When the cloud takes it back.
    pub preempted: Option<Timestamp>,
    /// Its zone failed, and it boots again when that returns.
    pub(super) returns: bool,
    /// Its kernel panicked, and nothing on it runs until it boots again.
    pub(super) panicked: bool,
    /// When it booted for the first time.
    pub(super) first_boot: Option<Timestamp>,
    /// When the state changes by itself.
    pub(super) deadline: Option<Timestamp>,
    /// How often it booted.
    pub(super) boots: u64,
    /// When faults of its kubelet end by themselves.
    pub(super) fault_ends: BTreeMap<FaultKind, Timestamp>,
}

impl Vm {
    /// The VM as a driver call answers it.
    pub fn identity(&self) -> VmIdentity {
        VmIdentity {
            provider_id: ProviderId::new(self.provider_id.as_str()),
            node_name: NodeName::new(self.node_name.as_str()),
            addresses: Vec::new(),
            last_known_state: None,
        }
    }

    /// Whether a call at that time would have found it.
    pub(super) fn was_live(&self, then: Timestamp) -> bool {
        self.created <= then && self.removed.is_none_or(|removed| removed > then)
    }

    /// The internal IPv4 address; derived from the number, so that no two VMs share one.
    pub fn address(&self) -> String {
        let [_, high, middle, low] = (self.ordinal as u32).to_be_bytes();
        format!("10.{high}.{middle}.{low}")
    }

    /// The first field in which the VM differs from what `spec` asks for.
    pub(super) fn difference(&self, spec: &ProviderSpec) -> Option<String> {
        let fields = [
            ("zone", &self.zone, &spec.zone),
            ("machineType", &self.machine_type, &spec.machine_type),
            ("image", &self.image, &spec.image),
        ];
        fields
            .into_iter()
            .find(|(_, is, wanted)| is != wanted)
            .map(|(field, is, wanted)| format!("its {field} is {is:?}, and {wanted:?} was asked for"))
    }
}
