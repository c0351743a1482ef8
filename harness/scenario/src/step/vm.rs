//! Acts on the VM of a machine.

use serde::{Deserialize, Serialize};

use super::{CloudRequest, Request, StepDefinition, Targets, verb};

/// Does something to the VM of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmStep {
    /// Whose VM.
    pub machine: String,
    /// What.
    #[serde(rename = "do")]
    pub action: VmAction,
}

/// What can be done to a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VmAction {
    /// Its host dies: it is stopped at once and nobody is told.
    Kill,
    /// It is shut down.
    Stop,
    /// It is started again.
    Start,
    /// It is stopped and started.
    Reboot,
    /// Its progress is held where it is.
    Hold,
    /// One step of a held VM's progress.
    Step,
    /// A held VM goes on by itself.
    Release,
    /// It is deleted behind the back of whoever made it.
    Delete,
}

impl StepDefinition for VmStep {
    fn description(&self) -> String {
        format!("{} the VM of {}", verb(self.action), self.machine)
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::Vm(self.action))
    }

    fn targets(&self) -> Targets {
        Targets::object("VM", &self.machine)
            .with_fault(&format!("VM of {}", self.machine))
            .on_vm_of(&self.machine)
    }
}
