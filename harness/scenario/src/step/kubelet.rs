//! Acts on the kubelet of a machine's VM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CloudRequest, KubeletAction, Request, StepDefinition, Targets};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::{NameOf, Reference};

/// Acts on a kubelet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletStep {
    /// Name of the machine.
    pub machine: String,
    /// The action.
    #[serde(rename = "do")]
    pub action: KubeletAction,
}

impl StepDefinition for KubeletStep {
    fn description(&self) -> String {
        self.action.on(&self.machine)
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::Kubelet(self.action))
    }

    fn targets(&self) -> Targets {
        Targets::fault(&KubeletAction::target(&self.machine)).on_vm_of(&self.machine)
    }

    fn validate(&self) -> Result<(), Problem> {
        match self.action.problem() {
            Some(problem) => Err(("kubelet.do".to_owned(), problem.to_owned())),
            None => Ok(()),
        }
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("kubelet.machine", NameOf::Vm, &self.machine)])
    }
}
