//! Defects that replace rules of preservation.

use mcm_api::{Phase, keys};

use super::{DRAINED, Facts, Origin, PreservationProgress, Request};
use crate::machine::node::name;
use crate::machine::pass::Pass;
use crate::machine::{Action, MachinePatch, NodePatch, Plan, Reason};

/// Whether the Node's condition reports a completed drain, also of an earlier preservation.
pub(super) fn was_drained(pass: &Pass) -> bool {
    let status = pass.view.node.present().and_then(|node| node.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        let message = condition.message.as_deref().unwrap_or_default();
        condition.type_ == keys::PRESERVED_CONDITION && message.starts_with(DRAINED)
    })
}

/// Wrong actions for every machine, preserved or not.
pub(super) fn of_every_machine(pass: &Pass) -> Option<Plan> {
    let running = pass.phase() == Some(&Phase::Running);
    let node = pass.view.node.present().filter(|_| running)?;
    let reason = || Reason::Preservation("the machine is not preserved".to_owned());
    let cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    if defect!(RunningNodesUncordonedEveryPass) && cordoned {
        let patch = NodePatch {
            unschedulable: Some(false),
            ..NodePatch::default()
        };
        let node = name(node)?;
        return Some(Plan::new(reason()).act(Action::PatchNode { node, patch }));
    }
    let free = pass.machine().status.preservation.is_none();
    (defect!(PreservationRewritesAnnotations) && free).then(|| {
        let annotations = [(keys::PRESERVE_ANNOTATION.to_owned(), None)].into();
        let patch = MachinePatch {
            annotations,
            ..MachinePatch::default()
        };
        Plan::new(reason()).act(Action::PatchMachine(patch))
    })
}

impl Facts {
    /// The facts without the Node's request.
    pub(super) fn without_node_request(&self) -> Self {
        let mut facts = self.clone();
        if facts.resolved.origin == Origin::Node && facts.now.progress == PreservationProgress::Free {
            facts.resolved.request = Request::None;
            facts.now.request = Request::None;
        }
        facts
    }
}
