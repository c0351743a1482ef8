//! What an observation changes, in words.

use scenario::cloud::CloudEvent;
use scenario::observation::{Observation, Quiet, Request, Seen};
use serde_json::Value;

use super::workloads::condition;
use super::world::{WorldState, key};
use crate::object::text;
use crate::writes;

/// Describes what an observation changes, given the world before it; empty for heartbeats and similar writes.
pub fn of_observation(observation: &Observation, before: &WorldState) -> Vec<String> {
    match &observation.what {
        Seen::Applied(kind, object) => {
            let key = key(kind, object);
            let old = before.objects.get(&key);
            match kind.key {
                "Machine" => machine(&key.2, old, object),
                "Node" => node(&key.2, old, object),
                "Event" => event(old, object),
                "Lease" => Vec::new(),
                "Pod" => pod(&key.2, old, object),
                "VolumeAttachment" => attachment(&key.2, old, object),
                "PersistentVolume" | "PersistentVolumeClaim" | "Namespace" => describe_field(
                    &format!("{} {}", kind.kind.to_lowercase(), key.2),
                    old,
                    object,
                    "/status/phase",
                ),
                of @ ("MachineSet" | "MachineDeployment") => {
                    let mut lines = describe_existence(&format!("{of} {}", key.2), old, object);
                    lines.extend(writes::describe(&format!("{of} {}", key.2), old, object));
                    lines
                }
                kind => describe_existence(&format!("{kind} {}", key.2), old, object),
            }
        }
        Seen::Deleted(kind, _) if kind.key == "Event" => Vec::new(),
        Seen::Deleted(kind, object) => vec![format!(
            "{} {} is removed",
            kind.kind.to_lowercase(),
            text(object, "/metadata/name")
        )],
        Seen::Cloud(CloudEvent::Vm(vm)) => match before.vms.get(&vm.id).map(|old| old.state) {
            Some(old) if old == vm.state => Vec::new(),
            Some(old) => vec![format!("VM {} of {} {old} -> {}", vm.id, vm.machine, vm.state)],
            None => vec![format!("VM {} of {} is {}", vm.id, vm.machine, vm.state)],
        },
        Seen::Cloud(CloudEvent::Call(call)) => {
            let rule = call
                .rule
                .as_ref()
                .map(|rule| format!(" by fault {rule}"))
                .unwrap_or_default();
            let machine = match call.machine.as_str() {
                "" => String::new(),
                machine => format!(" for {machine}"),
            };
            vec![format!("cloud {}{machine}: {}{rule}", call.call, call.code)]
        }
        Seen::Cloud(CloudEvent::Kubelet(kubelet)) => vec![format!(
            "kubelet of {} {}{}{}",
            kubelet.machine,
            kubelet.what,
            if kubelet.message.is_empty() { "" } else { ": " },
            kubelet.message
        )],
        Seen::Request(request) => refused(request).into_iter().collect(),
        Seen::Quiet(quiet) => vec![
            match quiet {
                Quiet::Began => "all faults are removed: the world may settle",
                Quiet::Silent { .. } => "the time to settle is over: no object may be written any more",
                Quiet::Over => "no object was written any more: the end",
            }
            .to_owned(),
        ],
        Seen::Note(note) => vec![note.clone()],
    }
}

fn describe_existence(what: &str, old: Option<&Value>, object: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if old.is_none() {
        lines.push(format!("{what} exists"));
    }
    let deleted = |object: &Value| !text(object, "/metadata/deletionTimestamp").is_empty();
    if deleted(object) && !old.is_some_and(deleted) {
        lines.push(format!("{what} is being deleted"));
    }
    lines
}

fn describe_field(what: &str, old: Option<&Value>, object: &Value, pointer: &str) -> Vec<String> {
    let mut lines = describe_existence(what, old, object);
    let now = text(object, pointer);
    let was = old.map(|old| text(old, pointer)).unwrap_or_default();
    let name = pointer.rsplit('/').next().unwrap_or_default();
    if now != was {
        lines.push(match was {
            "" => format!("{what} {name} {now}"),
            _ => format!("{what} {name} {was} -> {now}"),
        });
    }
    lines
}

fn machine(name: &str, old: Option<&Value>, object: &Value) -> Vec<String> {
    let what = format!("machine {name}");
    let mut lines = describe_field(&what, old, object, "/status/currentStatus/phase");
    for (pointer, label) in [
        ("/spec/providerID", "provider ID"),
        ("/status/lastOperation/description", "last operation"),
        ("/status/preservation/stage", "stage of preservation"),
        ("/status/currentStatus/preserveExpiryTime", "preserved until"),
    ] {
        let now = text(object, pointer);
        if !now.is_empty() && old.is_none_or(|old| text(old, pointer) != now) {
            lines.push(format!("{what} {label}: {now}"));
        }
    }
    lines.extend(writes::describe(&what, old, object));
    lines
}

/// A request of the controller that was refused or failed. That an object does not exist is an answer.
fn refused(request: &Request) -> Option<String> {
    let is_answer = request.code < 400 || request.code == 404 && request.verb == "get";
    let Request {
        verb,
        resource,
        name,
        code,
        ..
    } = request;
    (!is_answer).then(|| format!("request of mcm: {verb} {resource} {name}: {code}"))
}

fn node(name: &str, old: Option<&Value>, object: &Value) -> Vec<String> {
    let what = format!("node {name}");
    let mut lines = describe_existence(&what, old, object);
    let now = ready(object);
    let was = old.map(ready).unwrap_or_default();
    if now != was && !now.is_empty() {
        lines.push(match was {
            "" => format!("{what} Ready {now}"),
            _ => format!("{what} Ready {was} -> {now}"),
        });
    }
    lines.extend(writes::describe(&what, old, object));
    lines
}

fn pod(name: &str, old: Option<&Value>, object: &Value) -> Vec<String> {
    let what = format!("pod {name}");
    let mut lines = describe_field(&what, old, object, "/status/phase");
    let node = |pod: &Value| text(pod, "/spec/nodeName").to_owned();
    if !node(object).is_empty() && old.map(node).unwrap_or_default().is_empty() {
        lines.push(format!("{what} is bound to node {}", node(object)));
    }
    let was = old.map(ready).unwrap_or_default();
    if ready(object) == "True" && was != "True" {
        lines.push(format!("{what} is ready"));
    } else if ready(object) == "False" && was == "True" {
        lines.push(format!("{what} is no longer ready"));
    }
    lines
}

fn attachment(name: &str, old: Option<&Value>, object: &Value) -> Vec<String> {
    let volume = text(object, "/spec/source/persistentVolumeName");
    let what = format!(
        "attachment {name} of {volume} to node {}",
        text(object, "/spec/nodeName")
    );
    let mut lines = describe_existence(&what, old, object);
    let attached = |object: &Value| object["status"]["attached"] == true;
    match (old.is_some_and(attached), attached(object)) {
        (false, true) => lines.push(format!("{what}: attached")),
        (true, false) => lines.push(format!("{what}: detached")),
        _ => {}
    }
    lines
}

/// The status of an object's condition Ready.
fn ready(object: &Value) -> &str {
    condition(object, "Ready")
        .map(|condition| text(condition, "/status"))
        .unwrap_or_default()
}

fn event(old: Option<&Value>, object: &Value) -> Vec<String> {
    let count = |object: &Value| object["count"].as_i64().unwrap_or(1);
    if old.is_some_and(|old| count(old) == count(object)) {
        return Vec::new();
    }
    vec![format!(
        "event {} on {} {}: {}",
        text(object, "/reason"),
        text(object, "/involvedObject/kind").to_lowercase(),
        text(object, "/involvedObject/name"),
        text(object, "/message")
    )]
}
