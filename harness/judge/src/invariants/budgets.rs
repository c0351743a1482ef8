//! I6: until a Machine's deletionTimestamp plus its drain timeout, the pods on its Node leave only through eviction,
//! and its VM is not deleted while an evictable pod runs.
//!
//! Exceptions: the label `force-deletion`; a Machine that sets its own limit of eviction retries; a Node that has been
//! NotReady, or whose file system has been read-only, for more than five minutes; a Node that is not cordoned because
//! it registered after the drain, as long as mcm may not have observed it; a preserved failed Machine whose drain is over
//! and whose Node is not Ready.

use std::time::Duration;

use jiff::Timestamp;
use mcm_api::keys;
use scenario::observation::Seen;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, is_deleting, is_forced, is_ready, label, name, phase, text, time, timeout_of};

/// A node that has been unhealthy for this long no longer terminates pods.
const DEAD_AFTER: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) struct Budgets;

impl Check for Budgets {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Seen::Request(request) = &context.observation.what {
            let deletes = request.verb == "delete" && request.resource == "pods";
            let pod = context.world.object("Pod", &request.name).filter(|_| deletes)?;
            // A successor pod has the same name, and the watch may deliver it before the request.
            let created = time(pod, "/metadata/creationTimestamp");
            if created.is_some_and(|created| after(created, Duration::from_secs(1)) >= context.at()) {
                return None;
            }
            let machine = machine_on(context, text(pod, "/spec/nodeName"))?;
            // The machine's own limit of evictions may be reached, or be zero.
            let limited = machine.pointer("/spec/maxEvictRetries").is_some();
            return (!limited && !may_force(context, machine) && !is_silent(context, machine)).then(|| {
                format!(
                    "pod {} on the node of machine {} was deleted instead of evicted before the drain timeout",
                    request.name,
                    name(machine)
                )
            });
        }
        let call = context
            .call()
            .filter(|call| call.call == "DeleteMachine" && call.code == "OK")?;
        let machine = context.world.object("Machine", &call.machine)?;
        if !is_deleting(machine) || may_force(context, machine) {
            return None;
        }
        let node = label(machine, keys::NODE_LABEL);
        let left: Vec<&str> = context
            .world
            .of_kind("Pod")
            .filter(|pod| !node.is_empty() && text(pod, "/spec/nodeName") == node && is_evictable(pod))
            .map(name)
            .collect();
        (!left.is_empty()).then(|| {
            format!(
                "the VM of machine {} was deleted before the drain timeout while evictable pods run on it: {}",
                call.machine,
                left.join(", ")
            )
        })
    }
}

fn machine_on<'a>(context: &CheckContext<'a>, node: &str) -> Option<&'a Value> {
    context
        .world
        .of_kind("Machine")
        .find(|machine| !node.is_empty() && label(machine, keys::NODE_LABEL) == node)
}

/// Whether the machine's pods may be deleted without eviction.
fn may_force(context: &CheckContext, machine: &Value) -> bool {
    let forced = is_forced(machine);
    let limit = timeout_of(machine, "drainTimeout", context.rules.timeouts.drain);
    let over = |deleted: Timestamp| after(deleted, limit) <= after(context.at(), Duration::from_secs(1));
    let timed_out = time(machine, "/metadata/deletionTimestamp").is_some_and(over);
    let node = context.world.object("Node", label(machine, keys::NODE_LABEL));
    let observed = node.unwrap_or(machine).pointer("/status/conditions");
    let conditions = observed.and_then(Value::as_array);
    let dead = conditions.into_iter().flatten().any(|condition| {
        let bad = match text(condition, "/type") {
            "Ready" => text(condition, "/status") != "True",
            "ReadonlyFilesystem" => text(condition, "/status") != "False",
            _ => false,
        };
        let since = time(condition, "/lastTransitionTime");
        bad && since.is_some_and(|since| after(since, DEAD_AFTER) <= context.at())
    });
    let cordoned = |node: &Value| node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    let unseen = context.rules.undisturbed_since.is_none() && !node.is_some_and(cordoned);
    forced || timed_out || dead || unseen || node.is_none()
}

/// Whether the machine failed and is preserved, its drain is over, and its Node is not Ready. Its pods may leave when its VM
/// is known to be stopped, which I20 and I21 judge.
fn is_silent(context: &CheckContext, machine: &Value) -> bool {
    let kept = text(machine, "/status/preservation/stage") == "Preserved" && phase(machine).starts_with("Failed");
    let node = context.world.object("Node", label(machine, keys::NODE_LABEL));
    kept && node.is_some_and(|node| !is_ready(node))
}

/// Whether the pod runs and can be evicted.
fn is_evictable(pod: &Value) -> bool {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let daemon = owners
        .into_iter()
        .flatten()
        .any(|owner| owner["kind"] == "DaemonSet" && owner["controller"] == true);
    let mirror = pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string();
    text(pod, "/status/phase") == "Running" && !daemon && !mirror && !is_deleting(pod)
}
