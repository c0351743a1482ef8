//! Acts on a machine whose name is not known in advance, because a set generates it.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kubelet_action::KubeletAction;
use super::vm::VmAction;
use super::{Request as StepRequest, StepDefinition, annotate};
use crate::Problem;
use crate::duration::DurationExpression;
use crate::kinds::Kinds;
use crate::names::{MACHINE, Reference};

/// An action on a machine that is chosen when the step runs. Without a matching machine, or if it no longer exists,
/// nothing happens, and the run fails at its end unless the step may miss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeferredTarget {
    /// Name of the target in the scenario: the first step with the name chooses the machine, and later steps act on the
    /// same one.
    pub called: String,
    /// Name pattern (`*` and `?`) of the candidates: machines that are not being deleted and are not another target.
    pub among: String,
    /// Index of the candidate in the order of names, modulo their number.
    #[serde(default)]
    pub nth: u64,
    /// The action.
    #[serde(rename = "do")]
    pub user_action: UserAction,
    /// Whether no machine may match, or the action may be refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
}

impl StepDefinition for DeferredTarget {
    fn description(&self) -> String {
        self.to_string()
    }

    fn request(&self) -> StepRequest<'_> {
        StepRequest::Resolve(self)
    }

    fn validate(&self) -> Result<(), Problem> {
        match &self.user_action {
            UserAction::Kubelet(action) => match action.problem() {
                Some(problem) => Err(("deferred.do.kubelet".to_owned(), problem.to_owned())),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::glob("deferred.among", MACHINE, &self.among)])
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        match &self.user_action {
            UserAction::PreserveTimeout(time) => vec![("deferred.do.preserveTimeout".to_owned(), time)],
            _ => Vec::new(),
        }
    }

    fn may_miss(&self) -> Option<bool> {
        Some(self.may_miss)
    }

    fn let_miss(&mut self) {
        self.may_miss = true;
    }
}

/// An action on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum UserAction {
    /// A user requests its preservation, or removes the request.
    Preserve(Request),
    /// An operator sets its preservation expiry to this time from now, if it is preserved.
    Expire(DurationExpression),
    /// An operator sets its preservation expiry to this time ago, if it is preserved.
    ExpireAgo(DurationExpression),
    /// An operator removes its preservation expiry, which ends the preservation, if it is preserved.
    RemoveExpiry,
    /// An operator sets the duration of its next preservation.
    PreserveTimeout(DurationExpression),
    /// cluster-autoscaler lists it on its deployment and lowers the replicas by one, if it has a deployment.
    ScaleDown,
    /// A user cordons its node.
    Cordon,
    /// A user uncordons its node.
    Uncordon,
    /// A user prefers it for removal by setting priority 1.
    Prefer,
    /// An action on its kubelet.
    Kubelet(KubeletAction),
    /// An action on its VM.
    Vm(VmAction),
    /// A user sets annotations of it; null removes one.
    Annotate(BTreeMap<String, Option<String>>),
    /// A user deletes it.
    Delete,
    /// A user deletes its node.
    DeleteNode,
}

/// A value of the preservation annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// Whether the annotation is on the Node instead of the Machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node: bool,
    /// Whether it uses the annotation of the proposal's first version, `preserve-when-failed`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_version: bool,
    /// The value; absent: both annotations are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl fmt::Display for DeferredTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.called;
        match &self.user_action {
            UserAction::Preserve(request) => {
                let kind = if request.node { "the node of" } else { "the machine" };
                match &request.value {
                    Some(value) if request.first_version => {
                        write!(f, "request preservation of {kind} {name} when failed: {value}")
                    }
                    Some(value) => write!(f, "request preservation of {kind} {name}: {value}"),
                    None => write!(f, "remove the preservation request of {kind} {name}"),
                }
            }
            UserAction::Expire(time) => write!(f, "set the preservation expiry of {name} to {time} from now"),
            UserAction::ExpireAgo(time) => write!(f, "set the preservation expiry of {name} to {time} ago"),
            UserAction::RemoveExpiry => write!(f, "remove the preservation expiry of {name}"),
            UserAction::PreserveTimeout(time) => {
                write!(f, "set the duration of the next preservation of {name} to {time}")
            }
            UserAction::ScaleDown => write!(f, "let cluster-autoscaler remove {name}"),
            UserAction::Cordon => write!(f, "cordon the node of {name}"),
            UserAction::Uncordon => write!(f, "uncordon the node of {name}"),
            UserAction::Prefer => write!(f, "prefer the machine {name} for removal"),
            UserAction::Kubelet(action) => f.write_str(&action.on(name)),
            UserAction::Vm(action) => write!(f, "{} the VM of {name}", format!("{action:?}").to_lowercase()),
            UserAction::Annotate(annotations) => {
                write!(f, "annotate the machine {name}: {}", annotate::texts(annotations))
            }
            UserAction::Delete => write!(f, "delete the machine {name}"),
            UserAction::DeleteNode => write!(f, "delete the node of {name}"),
        }
    }
}
