//! Observed cloud events: VMs, answered driver calls, kubelets.

use std::time::Duration;

pub use fakecloud_api::VmState;
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
    /// How long the cloud delays its answer.
    pub delay: Duration,
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
