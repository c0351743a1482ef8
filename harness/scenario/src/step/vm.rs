//! Acts on the VM of a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CloudRequest, Request, StepDefinition, Targets, verb};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::{NameOf, Reference};

/// Acts on the VM of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmStep {
    /// Name of the machine.
    pub machine: String,
    /// The action.
    #[serde(rename = "do")]
    pub action: VmAction,
}

/// An action on a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum VmAction {
    /// Its host dies: it stops at once without a shutdown.
    Kill,
    /// It is shut down.
    Stop,
    /// It is started again.
    Start,
    /// It is stopped and started.
    Reboot,
    /// It stays in its current lifecycle state.
    Hold,
    /// One lifecycle step of a held VM.
    Step,
    /// A held VM continues by itself.
    Release,
    /// It is deleted by another cloud user.
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
        Targets::object(None, "VM", &self.machine)
            .with_fault(&format!("VM of {}", self.machine))
            .on_vm_of(&self.machine)
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("vm.machine", NameOf::Vm, &self.machine)])
    }
}
