//! Acts on the kubelet of a machine's VM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CloudRequest, Request, StepDefinition, Targets, verb};
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

/// An action on a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KubeletAction {
    /// It stops; the VM continues to run.
    Stop,
    /// It starts again.
    Start,
    /// The network cuts it off from the API server; the containers and the VM continue to run.
    Partition,
    /// The network connects it again.
    Reconnect,
    /// Its disk is full: the node has DiskPressure and is otherwise healthy.
    FillDisk,
    /// The disk has space again.
    FreeDisk,
}

impl StepDefinition for KubeletStep {
    fn description(&self) -> String {
        format!("{} the kubelet of {}", verb(self.action), self.machine)
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::Kubelet(self.action))
    }

    fn targets(&self) -> Targets {
        Targets::fault(&format!("kubelet of {}", self.machine)).on_vm_of(&self.machine)
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("kubelet.machine", NameOf::Vm, &self.machine)])
    }
}
