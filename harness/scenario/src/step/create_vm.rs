//! Creates a VM without a Machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CloudRequest, Request, StepDefinition, Targets};
use crate::names::Names;

/// A user creates a VM without a Machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateVm {
    /// Name of the VM; a Machine of that name may be created later.
    pub machine: String,
    /// Whether it has the tags of this cluster's VMs.
    pub tagged: bool,
}

impl StepDefinition for CreateVm {
    fn description(&self) -> String {
        format!(
            "create a VM named {} without a Machine, {} the tags of this cluster",
            self.machine,
            if self.tagged { "with" } else { "without" }
        )
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::CreateVm(self))
    }

    fn targets(&self) -> Targets {
        Targets::fault(&format!("VM named {}", self.machine))
    }

    fn add_names(&self, names: &mut Names) {
        names.add_manual_vm(&self.machine);
    }
}
