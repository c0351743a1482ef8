//! What planted defects do in the place of preservation.

use mcm_api::{Phase, keys};

use super::{DRAINED, Facts, Origin, Request, Track};
use crate::machine::node::name;
use crate::machine::pass::Pass;
use crate::machine::{Action, MachinePatch, NodePatch, Plan, Reason};

/// Whether the Node's condition says that its pods left, at whatever time.
pub(super) fn was_drained(pass: &Pass) -> bool {
    let status = pass.view.node.present().and_then(|node| node.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        let said = condition.message.as_deref().unwrap_or_default();
        condition.type_ == keys::PRESERVED_CONDITION && said.starts_with(DRAINED)
    })
}

/// What is done for every machine, whether or not anybody preserves it.
pub(super) fn of_every_machine(pass: &Pass) -> Option<Plan> {
    let running = pass.phase() == Some(&Phase::Running);
    let node = pass.view.node.present().filter(|_| running)?;
    let reason = || Reason::Preservation("a defect is planted".to_owned());
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
    /// The same without what the Node asks for.
    pub(super) fn deaf_to_the_node(&self) -> Self {
        let mut deaf = self.clone();
        if deaf.resolved.origin == Origin::Node && deaf.now.track == Track::Free {
            deaf.resolved.request = Request::None;
            deaf.now.request = Request::None;
        }
        deaf
    }
}
