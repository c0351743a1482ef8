//! Observed cloud events: VMs, answered driver calls, kubelets.

use serde::Serialize;

/// An event of the cloud.
#[derive(Clone, Debug, PartialEq)]
pub enum CloudEvent {
    /// A new state of a VM.
    Vm(Vm),
    /// A driver call was answered.
    Call(Call),
    /// An event of a kubelet.
    Kubelet(Kubelet),
}

/// A VM in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Vm {
    /// The ledger's id.
    pub id: String,
    /// Name of the machine that it was created for.
    pub machine: String,
    /// Uid of that machine.
    pub machine_uid: String,
    /// The provider ID.
    pub provider_id: String,
    /// Name of the Node that it registers.
    pub node: String,
    /// Its state.
    pub state: VmState,
    /// The ledger's sequence number at which it was in this state.
    pub revision: u64,
}

/// State of a VM: pending → running ⇄ stopped → stopping → terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum VmState {
    /// It is booting.
    Pending,
    /// It is up.
    Running,
    /// It is shut down and still exists.
    Stopped,
    /// It is being deleted.
    Stopping,
    /// It no longer exists.
    Terminated,
}

impl VmState {
    /// Whether a VM in this state counts as a machine's VM. A stopped one does.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Running | Self::Stopped)
    }
}

impl std::fmt::Display for VmState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Stopping => "stopping",
            Self::Terminated => "terminated",
        })
    }
}

/// An answered driver call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// For example `CreateMachine`.
    pub call: String,
    /// Name of the machine; empty: the call is not about a machine.
    pub machine: String,
    /// Name of the machine code.
    pub code: String,
    /// The fault rule that changed it.
    pub rule: Option<String>,
    /// Name of the caller; empty: unknown.
    pub client: String,
}

/// An event of a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelet {
    /// Name of the machine.
    pub machine: String,
    /// The ledger's name of the event: `Started`, `Joined`, `Refused` and so on.
    pub what: String,
    /// A message for people.
    pub message: String,
}
