//! I10: foreign intent survives. Neither mcm nor fakecloud writes to a node that does not belong to the simulated
//! cloud, except for the annotation with which mcm marks such a node. A user's cordon and scale-down-disabled
//! annotation stay until a user removes them or the node's Machine is deleted. A user's request to preserve a Machine
//! stays unchanged until a request of its Node replaces it, or the preservation expires or ends because its expiry is
//! removed.
//!
//! If the API server records who wrote what (`metadata.managedFields`), these writers decide for foreign nodes.
//! Otherwise spec and labels of the node must stay as they were first observed, except for the taints that Kubernetes
//! controllers maintain, and so must mcm's finalizer.

use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::interest::{Interest, ours};
use crate::object::{annotation, is_deleting, label, text};
use crate::writes::writer;

/// The annotation with which a user requests the preservation of a Machine.
const PRESERVE: &str = "node.machine.sapcloud.io/preserve";
/// The annotation with which a user disables the scale-down of a node.
const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

#[derive(Debug)]
pub(super) struct ForeignIntent;

impl Check for ForeignIntent {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(machine) = context.applied("Machine") {
            return lost_request(context, machine);
        }
        let node = context.applied("Node")?;
        if ours(node) {
            lost_cordon(context, node).or_else(|| lost_intent(context, node))
        } else {
            foreign_write(context, node)
        }
    }
}

/// A user's cordon is gone, and the user did not remove it.
fn lost_cordon(context: &CheckContext, node: &Value) -> Option<String> {
    let name = text(node, "/metadata/name");
    let was = context.before.is_some_and(is_cordoned) && context.rules.cordons.contains(name);
    (was && !is_cordoned(node) && !is_deleting(node))
        .then(|| format!("a user cordoned node {name}, and it is not cordoned any more"))
}

/// The Machine had a user's preservation request, and another writer changed it.
fn lost_request(context: &CheckContext, machine: &Value) -> Option<String> {
    let (name, before) = (text(machine, "/metadata/name"), context.before?);
    let (was, is) = (annotation(before, PRESERVE)?, annotation(machine, PRESERVE));
    let requested = context.rules.requests.get(name)?.as_deref();
    let by_node = [before, machine]
        .iter()
        .any(|machine| annotation(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION).is_some());
    let over = |machine: &&Value| ["Expired", "ExpiryRemoved"].contains(&text(machine, "/status/preservation/reason"));
    let expired = [before, machine].iter().any(over);
    // A relist may deliver the end of a request together with the end of its preservation, without the reason.
    let preserved = |machine: &Value| !text(machine, "/status/currentStatus/preserveExpiryTime").is_empty();
    let unseen = context.rules.undisturbed_since.is_none() && preserved(before) && !preserved(machine);
    (requested == Some(was) && is != Some(was) && !by_node && !expired && !unseen).then(|| {
        let by = writer(before, machine).unwrap_or("another writer");
        let change = match is {
            None => "removed the request".to_owned(),
            Some(is) => format!("changed the request to {is}"),
        };
        format!("a user requested the preservation of machine {name} ({was}), and {by} {change}")
    })
}

fn is_cordoned(node: &Value) -> bool {
    node["spec"]["unschedulable"] == true
}

fn foreign_write(context: &CheckContext, node: &Value) -> Option<String> {
    let name = text(node, "/metadata/name");
    let first = context.world.foreign_nodes.get(name)?;
    let now = Interest::of(node);
    if let Some(manager) = now.writers.difference(&first.writers).next() {
        return Some(format!("foreign node {name} was written by {manager}"));
    }
    let changed = !now.managed && !first.managed && now.fields != first.fields;
    changed.then(|| {
        format!(
            "foreign node {name} was changed from {} to {}",
            first.fields, now.fields
        )
    })
}

/// A user's intent that a node of the simulated cloud has lost.
fn lost_intent(context: &CheckContext, node: &Value) -> Option<String> {
    let name = text(node, "/metadata/name");
    let before = context.before.filter(|_| !context.rules.is_by_user("Node", name))?;
    let mut machines = context.world.of_kind("Machine");
    let machine = machines.find(|machine| label(machine, keys::NODE_LABEL) == name);
    if is_deleting(node) || machine.is_none_or(is_deleting) {
        return None;
    }
    // A node that was updated in place becomes schedulable again.
    let updated = !label(before, keys::UPDATE_RESULT_LABEL).is_empty();
    if is_cordoned(before) && !is_cordoned(node) && !updated {
        return Some(format!("node {name} was cordoned and is not any more"));
    }
    // With the controller's own marker the annotation belongs to the controller.
    let of_a_rollout = annotation(before, keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION).is_some();
    let of_a_preservation = annotation(before, keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION);
    let by_us = of_a_rollout || of_a_preservation.is_some_and(|before| before != "true");
    let kept = |node: &Value| annotation(node, SCALE_DOWN_DISABLED) == Some("true") && !by_us;
    (kept(before) && !kept(node))
        .then(|| format!("node {name} had the annotation {SCALE_DOWN_DISABLED} and has lost it"))
}
