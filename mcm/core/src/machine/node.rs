//! The link between a machine and its Node object.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use mcm_api::{NodeName, Phase, keys};

use super::pass::Pass;
use super::{Action, MachinePatch, NodePatch, NodeView, Plan, Reason, View, node_template};
use crate::event::EventType;
use crate::finalizer::has_finalizer;

/// The Node's name; `None` only for an object that was never stored.
pub(super) fn name(node: &Node) -> Option<NodeName> {
    NodeName::new(node.metadata.name.as_deref()?)
}

/// A deletion of a Node deletes its machine.
///
/// A Node that does not exist is not enough: it may not have joined yet. Either it is being deleted, or this process
/// observed its deletion and the machine's status has its conditions.
pub(super) fn deleted(pass: &Pass) -> Option<Plan> {
    let name = pass.node_name()?;
    let node = pass.view.node.present().filter(|node| !is_not_managed(node));
    let requested = node.is_some_and(|node| node.metadata.deletion_timestamp.is_none() && requests_deletion(node));
    let gone = match &pass.view.node {
        NodeView::Present(node) => node.metadata.deletion_timestamp.is_some() && !is_not_managed(node),
        NodeView::Gone => {
            let joined = matches!(pass.phase(), Some(Phase::Running | Phase::Unknown));
            joined && pass.machine().status.node_conditions().next().is_some()
        }
        NodeView::Absent | NodeView::Unknown => false,
    };
    let reason = if requested {
        Reason::DeletionTriggered(name.to_string())
    } else {
        Reason::NodeDeleted(name.to_string())
    };
    let event = Action::RecordEvent {
        type_: EventType::Normal,
        reason: reason.name(),
        message: reason.to_string(),
    };
    (gone || requested).then(|| {
        Plan::new(reason)
            .act(Action::DeleteMachine)
            .act(event)
            .after(pass.settings.retry.short)
    })
}

/// Whether the Node runs on a VM other than the machine's: it is left over from a former VM of the same name, or
/// belongs to another machine.
pub(super) fn is_of_another_vm(view: &View) -> bool {
    let node = view
        .node
        .present()
        .and_then(|node| node.spec.as_ref()?.provider_id.as_deref());
    let own = view.machine.spec.provider_id.as_str();
    node.is_some_and(|node| !node.is_empty() && !own.is_empty() && node != own)
}

/// Removes our finalizer from a Node that is being deleted and belongs to a former VM: no other rule removes it, and
/// until then the kubelet of the machine's current VM cannot register.
pub(super) fn of_former_vm(view: &View) -> Option<Plan> {
    let node = view
        .node
        .present()
        .filter(|_| is_of_another_vm(view) && view.failure.is_none())?;
    let name = name(node)?;
    let labels = node.metadata.labels.as_ref();
    let ours = labels.and_then(|all| all.get(keys::MACHINE_NAME_LABEL)) == view.machine.metadata.name.as_ref();
    let blocked = node.metadata.deletion_timestamp.is_some() && has_finalizer(&node.metadata, keys::NODE_FINALIZER);
    (ours && blocked).then(|| {
        Plan::new(Reason::NodeOfFormerVm(name.to_string()))
            .act(Action::RemoveNodeFinalizer { node: name })
            .after(Duration::ZERO)
    })
}

/// Corrects a label `node` that names another machine's Node, if the label of a Node names this machine.
pub(super) fn mislabelled(pass: &Pass) -> Option<Plan> {
    let other = pass.view.node_of_other.clone()?;
    let node = pass.view.labelled_node.clone()?;
    let patch = MachinePatch::naming(node.clone());
    let reason = Reason::Mislabelled { node, other };
    Some(Plan::new(reason).act(Action::PatchMachine(patch)).after(Duration::ZERO))
}

/// Prepends to `plan` the write of the Node's machine label, finalizer and template fields. Capacity is in the Node's
/// status, so a separate write sets it first: the other write also replaces the annotation with the last applied
/// capacity. If `plan` patches the Node as well, it is decided again after the capacity write.
pub(super) fn claimed(pass: &Pass, mut plan: Plan) -> Plan {
    let Some(node) = pass.view.node.present().filter(|node| !is_not_managed(node)) else {
        return plan;
    };
    let Some(name) = name(node) else {
        return plan;
    };
    let mut patch = NodePatch {
        claim: !is_claimed(pass, node),
        ..NodePatch::default()
    };
    let invalid = node_template::add(pass, node, &mut patch);
    let capacity = node_template::capacity(pass, node);
    let node = name.clone();
    let sets_capacity = !capacity.is_empty();
    let action = if sets_capacity {
        let patches = |action: &Action| matches!(action, Action::PatchNode { .. });
        if plan.actions.iter().any(patches) {
            plan = Plan::new(plan.reason);
        }
        plan = plan.after(Duration::ZERO);
        Action::SetNodeCapacity { node, capacity }
    } else if !patch.is_empty() {
        Action::PatchNode { node, patch }
    } else {
        return plan;
    };
    if plan.status.is_none() && plan.actions.is_empty() {
        plan.reason = Reason::NodeUnclaimed(name.into());
    }
    plan.actions
        .splice(0..0, std::iter::once(action).chain(invalid.filter(|_| !sets_capacity)));
    plan
}

fn is_claimed(pass: &Pass, node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let name = labels.and_then(|all| all.get(keys::MACHINE_NAME_LABEL));
    name.map(String::as_str) == Some(pass.name()) && has_finalizer(&node.metadata, keys::NODE_FINALIZER)
}

/// Whether an annotation of the Node requests the deletion of its machine. Values other than `true` are ignored.
fn requests_deletion(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(keys::TRIGGER_DELETION_ANNOTATION));
    value.map(String::as_str) == Some("true")
}

/// Whether the annotation excludes the Node from management.
fn is_not_managed(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(keys::NOT_MANAGED_ANNOTATION))
}
