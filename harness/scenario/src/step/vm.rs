//! Acts on the VM of a machine.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CloudRequest, Request, StepDefinition, Targets, verb};
use crate::Problem;
use crate::duration::DurationExpression;
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
    /// Of `preempt`: the time between the condition of the Node and the stop; default: two minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<DurationExpression>,
}

/// The notice that clouds usually give before they preempt a VM.
const USUAL_NOTICE: Duration = Duration::from_mins(2);

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
    /// The cloud preempts it: its Node has the condition `TerminationScheduled`, and it stops after the notice.
    Preempt,
    /// Its kernel panics: the cloud shows it as running, but nothing on it runs until the next boot.
    Panic,
}

impl VmStep {
    /// An action on the VM of a machine, with the usual notice.
    pub fn new(machine: &str, action: VmAction) -> Self {
        Self {
            machine: machine.to_owned(),
            action,
            notice: None,
        }
    }

    /// The time between the condition of the Node and the stop, of `preempt`.
    pub fn notice(&self) -> DurationExpression {
        self.notice.clone().unwrap_or_else(|| USUAL_NOTICE.into())
    }
}

impl StepDefinition for VmStep {
    fn description(&self) -> String {
        format!("{} the VM of {}", verb(self.action), self.machine)
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::Vm(self))
    }

    fn targets(&self) -> Targets {
        Targets::object(None, "VM", &self.machine)
            .with_fault(&format!("VM of {}", self.machine))
            .on_vm_of(&self.machine)
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::name("vm.machine", NameOf::Vm, &self.machine)])
    }

    fn validate(&self) -> Result<(), Problem> {
        match (&self.notice, self.action) {
            (None, _) | (_, VmAction::Preempt) => Ok(()),
            (Some(_), _) => {
                let message = "only `do: preempt` has a notice: leave it out".to_owned();
                Err(("vm.notice".to_owned(), message))
            }
        }
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        let notice = self.notice.iter();
        notice.map(|notice| ("vm.notice".to_owned(), notice)).collect()
    }
}
