//! Observed values of the cloud: VMs, answered driver calls, kubelets.

use serde::Serialize;

/// Something that happened in the cloud.
#[derive(Clone, Debug, PartialEq)]
pub enum CloudEvent {
    /// A VM as it is now.
    Vm(Vm),
    /// A driver call was answered.
    Call(Call),
    /// Something happened to a kubelet.
    Kubelet(Kubelet),
}

/// A VM as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Vm {
    /// The ledger's id.
    pub id: String,
    /// Name of the machine that it was made for.
    pub machine: String,
    /// Uid of that machine.
    pub machine_uid: String,
    /// The driver's id of it.
    pub provider_id: String,
    /// Name of the Node that it registers.
    pub node: String,
    /// Its state.
    pub state: VmState,
    /// The ledger's sequence number at which it was in this state.
    pub revision: u64,
}

/// pending → running ⇄ stopped → stopping → terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum VmState {
    /// It boots.
    Pending,
    /// It is up.
    Running,
    /// It is down and still exists.
    Stopped,
    /// It is being deleted.
    Stopping,
    /// It is gone.
    Terminated,
}

impl VmState {
    /// Whether a VM in this state counts as one that a machine has. A stopped one does.
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
    /// For instance `CreateMachine`.
    pub call: String,
    /// For which machine; empty for calls about none.
    pub machine: String,
    /// Name of the machine code.
    pub code: String,
    /// The fault rule that changed it.
    pub rule: Option<String>,
    /// Who called; empty where that is not known.
    pub client: String,
}

/// Something that happened to a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelet {
    /// Of which machine's VM.
    pub machine: String,
    /// In the ledger's word: `Started`, `Joined`, `Refused` and so on.
    pub what: String,
    /// For people.
    pub message: String,
}
