//! Acts on a machine whose name is not known beforehand, because a set generates it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kubelet::KubeletAction;
use super::vm::VmAction;
use super::{Request as StepRequest, StepDefinition};
use crate::duration::DurationExpression;

/// Something happens to a machine that is chosen when its turn comes. Where there is none, or it is gone, nothing does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeferredTarget {
    /// What it is called in the scenario: the first step with that name chooses it, and those that follow mean the same.
    pub called: String,
    /// Machines whose names match (`*` and `?`), as far as they stay and are not called otherwise yet.
    pub among: String,
    /// Which of them, in the order of their names, counted from 0 and round again.
    #[serde(default)]
    pub nth: u64,
    /// What happens.
    #[serde(rename = "do")]
    pub user_action: UserAction,
}

impl StepDefinition for DeferredTarget {
    fn description(&self) -> String {
        self.to_string()
    }

    fn request(&self) -> StepRequest<'_> {
        StepRequest::Resolve(self)
    }
}

/// What happens to a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum UserAction {
    /// A person asks for its preservation, or takes that back.
    Preserve(Request),
    /// An operator says when its preservation ends, from now; if it is preserved.
    Expire(DurationExpression),
    /// An operator says that its preservation ended so long ago; if it is preserved.
    ExpireAgo(DurationExpression),
    /// An operator removes the end of its preservation, which ends it; if it is preserved.
    RemoveExpiry,
    /// An operator says for how long it is kept from its next preservation on.
    PreserveTimeout(DurationExpression),
    /// cluster-autoscaler names it on its deployment, and lowers the number there by one; if it has a deployment.
    ScaleDown,
    /// A person cordons its node.
    Cordon,
    /// A person lets its node take pods again.
    Uncordon,
    /// A person wants it to go before others: it gets priority 1.
    Prefer,
    /// Something happens to its kubelet.
    Kubelet(KubeletAction),
    /// Something happens to its VM.
    Vm(VmAction),
    /// A person deletes it.
    Delete,
    /// A person deletes its node.
    DeleteNode,
}

/// A value of the annotation on preservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// Whether it is written to the Node, and not to the Machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node: bool,
    /// Whether it is written in the word of the proposal's first version, `preserve-when-failed`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_version: bool,
    /// The value; absent: the annotation is removed, in either word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl fmt::Display for DeferredTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = &self.called;
        match &self.user_action {
            UserAction::Preserve(request) => {
                let kind = if request.node { "the node of" } else { "the machine" };
                match &request.value {
                    Some(value) if request.first_version => {
                        write!(f, "ask to preserve {kind} {who} when failed: {value}")
                    }
                    Some(value) => write!(f, "ask to preserve {kind} {who}: {value}"),
                    None => write!(f, "remove the request to preserve {kind} {who}"),
                }
            }
            UserAction::Expire(time) => write!(f, "let the preservation of {who} end in {time}"),
            UserAction::ExpireAgo(time) => write!(f, "let the preservation of {who} have ended {time} ago"),
            UserAction::RemoveExpiry => write!(f, "remove the end of the preservation of {who}"),
            UserAction::PreserveTimeout(time) => write!(f, "keep {who} for {time} from its next preservation on"),
            UserAction::ScaleDown => write!(f, "let cluster-autoscaler remove {who}"),
            UserAction::Cordon => write!(f, "cordon the node of {who}"),
            UserAction::Uncordon => write!(f, "uncordon the node of {who}"),
            UserAction::Prefer => write!(f, "let the machine {who} go first"),
            UserAction::Kubelet(action) => write!(f, "{} the kubelet of {who}", format!("{action:?}").to_lowercase()),
            UserAction::Vm(action) => write!(f, "{} the VM of {who}", format!("{action:?}").to_lowercase()),
            UserAction::Delete => write!(f, "delete the machine {who}"),
            UserAction::DeleteNode => write!(f, "delete the node of {who}"),
        }
    }
}
