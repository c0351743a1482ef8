//! The link between a machine and its Node object.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use mcm_api::{Phase, keys};

use super::pass::Pass;
use super::{Action, EventType, MachinePatch, NodeView, Plan, Reason};
use crate::finalizer::has_finalizer;

/// A person who deletes a Node means the machine.
///
/// A Node that is merely not there deletes nothing: it may not have joined yet. It must be on its
/// way out, or have been seen both by this process and, with its conditions, by the machine.
pub(super) fn deleted(pass: &Pass) -> Option<Plan> {
    let name = pass.node_name()?;
    let gone = match &pass.view.node {
        NodeView::Present(node) => node.metadata.deletion_timestamp.is_some() && !is_not_managed(node),
        NodeView::Gone => {
            let joined = matches!(pass.phase(), Some(Phase::Running | Phase::Unknown));
            joined && !pass.machine().status.conditions.is_empty()
        }
        NodeView::Absent | NodeView::Unknown => false,
    };
    let reason = Reason::NodeDeleted(name.to_owned());
    let event = Action::RecordEvent {
        type_: EventType::Normal,
        reason: "NodeDeleted".to_owned(),
        message: reason.to_string(),
    };
    gone.then(|| {
        Plan::new(reason)
            .act(Action::DeleteMachine)
            .act(event)
            .after(pass.settings.retry.short)
    })
}

/// A label that names another machine's Node is mended, where a Node says that it is this machine's.
pub(super) fn mislabelled(pass: &Pass) -> Option<Plan> {
    let other = pass.view.node_of_other.clone()?;
    let node = pass.view.labelled_node.clone()?;
    let reason = Reason::Mislabelled {
        node: node.clone(),
        other,
    };
    let patch = MachinePatch {
        node: Some(node),
        ..MachinePatch::default()
    };
    Some(Plan::new(reason).act(Action::PatchMachine(patch)).after(Duration::ZERO))
}

/// `plan`, after the machine's Node carries its name and the finalizer.
pub(super) fn claimed(pass: &Pass, mut plan: Plan) -> Plan {
    let Some(node) = pass.view.node.present() else {
        return plan;
    };
    let labelled = node
        .metadata
        .labels
        .iter()
        .flatten()
        .any(|(key, value)| key == keys::MACHINE_NAME_LABEL && value == pass.name());
    if is_not_managed(node) || labelled && has_finalizer(&node.metadata, keys::NODE_FINALIZER) {
        return plan;
    }
    let name = node.metadata.name.clone().unwrap_or_default();
    if plan.status.is_none() && plan.actions.is_empty() {
        plan.reason = Reason::NodeUnclaimed(name.clone());
    }
    plan.actions.insert(0, Action::ClaimNode { node: name });
    plan
}

/// Whether a person keeps the Node from being treated as a machine's.
fn is_not_managed(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(keys::NOT_MANAGED_ANNOTATION))
}
