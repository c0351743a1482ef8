//! I10: foreign intent survives. A node that is none of our cloud's is nobody's business here: neither mcm nor fakecloud
//! writes to it, but for the annotation by which mcm says so. A person's cordon, and that a node must not be scaled down, stay until a person takes them away or the
//! node's Machine goes. A person's request to preserve a Machine stays as it was written, until what its Node asks for takes
//! its place, or the preservation expires or ends with the removal of its expiry.
//!
//! Where the server tells who wrote what (`metadata.managedFields`), that decides of foreign nodes. Where it does not,
//! the node's spec and labels must stay as they were first seen, less the taints by which Kubernetes' own controllers
//! tell of its state, and so must whether our finalizer holds it.

use mcm_api::keys;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::interest::{Interest, ours};
use crate::object::{annotation, is_deleting, label, text};

/// By which a person asks for a Machine's preservation.
const PRESERVE: &str = "node.machine.sapcloud.io/preserve";
/// By which a person keeps cluster-autoscaler from a node.
const KEEP: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

#[derive(Debug)]
pub(super) struct ForeignIntent;

impl Check for ForeignIntent {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(machine) = context.applied("Machine") {
            return lost_request(context, machine);
        }
        let node = context.applied("Node")?;
        if ours(node) {
            lost_cordon(context, node).or_else(|| lost_intent(context, node))
        } else {
            written(context, node)
        }
    }
}

/// A person cordoned the node and has not taken that back.
fn lost_cordon(context: &CheckContext, node: &Value) -> Option<String> {
    let name = text(node, "/metadata/name");
    let was = context.before.is_some_and(is_cordoned) && context.rules.cordons.contains(name);
    (was && !is_cordoned(node) && !is_deleting(node))
        .then(|| format!("a person cordoned node {name}, and it is cordoned no longer"))
}

/// What a person wrote to the Machine stood there, and somebody else changed it.
fn lost_request(context: &CheckContext, machine: &Value) -> Option<String> {
    let (name, before) = (text(machine, "/metadata/name"), context.before?);
    let (was, is) = (annotation(before, PRESERVE)?, annotation(machine, PRESERVE));
    let asked = context.rules.requests.get(name)?.as_deref();
    let by_node = [before, machine]
        .iter()
        .any(|machine| annotation(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION).is_some());
    let over = |machine: &&Value| ["Expired", "ExpiryRemoved"].contains(&text(machine, "/status/preservation/reason"));
    let expired = [before, machine].iter().any(over);
    // Who lists anew may see it go together with the preservation that it asked for, and not why.
    let preserved = |machine: &Value| !text(machine, "/status/currentStatus/preserveExpiryTime").is_empty();
    let unseen = context.rules.calm_since.is_none() && preserved(before) && !preserved(machine);
    (asked == Some(was) && is != Some(was) && !by_node && !expired && !unseen)
        .then(|| format!("a person asked of machine {name} to be preserved: {was}, and somebody else made that {is:?}"))
}

fn is_cordoned(node: &Value) -> bool {
    node["spec"]["unschedulable"] == true
}

fn written(context: &CheckContext, node: &Value) -> Option<String> {
    let name = text(node, "/metadata/name");
    let first = context.world.foreign_nodes.get(name)?;
    let now = Interest::of(node);
    if let Some(manager) = now.writers.difference(&first.writers).next() {
        return Some(format!(
            "node {name}, which is not fakecloud's, was written by {manager}"
        ));
    }
    let told = !now.managed && !first.managed && now.fields != first.fields;
    told.then(|| {
        format!(
            "node {name}, which is not fakecloud's, had {}, and has {}",
            first.fields, now.fields
        )
    })
}

/// What a person asked of one of our nodes, and is there no longer.
fn lost_intent(context: &CheckContext, node: &Value) -> Option<String> {
    let name = text(node, "/metadata/name");
    let before = context.before.filter(|_| !context.rules.is_by_user("Node", name))?;
    let mut machines = context.world.of_kind("Machine");
    let machine = machines.find(|machine| label(machine, keys::NODE_LABEL) == name);
    if is_deleting(node) || machine.is_none_or(is_deleting) {
        return None;
    }
    // What was updated in place takes pods again.
    let updated = !label(before, keys::UPDATE_RESULT_LABEL).is_empty();
    if is_cordoned(before) && !is_cordoned(node) && !updated {
        return Some(format!("node {name} was cordoned, and is no longer"));
    }
    // With the controller's mark beside it the annotation is the controller's own.
    let of_a_rollout = annotation(before, keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION).is_some();
    let of_a_preservation = annotation(before, keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION);
    let by_us = of_a_rollout || of_a_preservation.is_some_and(|before| before != "true");
    let kept = |node: &Value| annotation(node, KEEP) == Some("true") && !by_us;
    (kept(before) && !kept(node)).then(|| format!("node {name} had the annotation {KEEP}, and has it no longer"))
}
