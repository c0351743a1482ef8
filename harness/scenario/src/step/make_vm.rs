//! Creates a VM by hand, without a Machine.

use serde::{Deserialize, Serialize};

use super::{CloudRequest, Request, StepDefinition, Targets};

/// Somebody makes a VM by hand, without a Machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MakeVm {
    /// Name of the VM; a Machine of that name may be created later.
    pub machine: String,
    /// Whether it has the tags of this cluster's VMs.
    pub tagged: bool,
}

impl StepDefinition for MakeVm {
    fn description(&self) -> String {
        format!(
            "make a VM named {} by hand, {} our tags",
            self.machine,
            if self.tagged { "with" } else { "without" }
        )
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::MakeVm(self))
    }

    fn targets(&self) -> Targets {
        Targets::fault(&format!("VM named {}", self.machine))
    }
}
