//! The narrative: what happened, in words, with the time since the start.

use std::time::Duration;

use jiff::Timestamp;
use scenario::cloud::CloudEvent;
use scenario::observation::{Observation, Quiet, Seen};
use serde_json::Value;

use super::evaluate::{between, short};
use super::workloads::condition;
use super::world::{WorldState, key};
use crate::object::text;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Since the start of the scenario.
    pub after: Duration,
    /// What happened.
    pub what: String,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "+{:<11} {}", short(self.after), self.what)
    }
}

/// All lines of a run.
#[derive(Clone, Debug)]
pub struct Narrative {
    started: Timestamp,
    lines: Vec<Line>,
}

impl Narrative {
    /// Empty, counting from `started`.
    pub fn new(started: Timestamp) -> Self {
        Self {
            started,
            lines: Vec::new(),
        }
    }

    /// Adds a line.
    pub fn say(&mut self, at: Timestamp, what: impl Into<String>) {
        self.lines.push(Line {
            after: between(self.started, at),
            what: what.into(),
        });
    }

    /// Adds a line that was not told when it happened, behind those of its time; what was before the start has none.
    pub fn insert(&mut self, at: Timestamp, what: String) {
        if at < self.started {
            return;
        }
        let after = between(self.started, at);
        let position = self.lines.partition_point(|line| line.after <= after);
        self.lines.insert(position, Line { after, what });
    }

    /// Adds what an observation changes in the world as it was before it.
    pub fn tell(&mut self, observation: &Observation, before: &WorldState) {
        for what in words(observation, before) {
            self.say(observation.at, what);
        }
    }

    /// All lines so far.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }
}

/// What an observation changes, in words; nothing for heartbeats and the like.
fn words(observation: &Observation, before: &WorldState) -> Vec<String> {
    match &observation.what {
        Seen::Applied(kind, object) => {
            let key = key(kind, object);
            let old = before.objects.get(&key);
            match kind.kind {
                "Machine" => machine(&key.2, old, object),
                "Node" => node(&key.2, old, object),
                "Event" => event(old, object),
                "Lease" => Vec::new(),
                "Pod" => pod(&key.2, old, object),
                "VolumeAttachment" => attachment(&key.2, old, object),
                "PersistentVolume" | "PersistentVolumeClaim" | "Namespace" => changed(
                    &format!("{} {}", kind.kind.to_lowercase(), key.2),
                    old,
                    object,
                    "/status/phase",
                ),
                kind => appeared(&format!("{kind} {}", key.2), old, object),
            }
        }
        Seen::Deleted(kind, _) if kind.kind == "Event" => Vec::new(),
        Seen::Deleted(kind, object) => vec![format!(
            "{} {} is gone",
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
        Seen::Request(_) => Vec::new(),
        Seen::Quiet(quiet) => vec![
            match quiet {
                Quiet::Began => "the quiet end begins: all faults are lifted",
                Quiet::Silent { .. } => "from here on nothing is to be written",
                Quiet::Over => "the quiet end is over",
            }
            .to_owned(),
        ],
        Seen::Note(note) => vec![note.clone()],
    }
}

fn appeared(what: &str, old: Option<&Value>, object: &Value) -> Vec<String> {
    let mut words = Vec::new();
    if old.is_none() {
        words.push(format!("{what} is there"));
    }
    let deleted = |object: &Value| !text(object, "/metadata/deletionTimestamp").is_empty();
    if deleted(object) && !old.is_some_and(deleted) {
        words.push(format!("{what} is to be deleted"));
    }
    words
}

fn changed(what: &str, old: Option<&Value>, object: &Value, pointer: &str) -> Vec<String> {
    let mut words = appeared(what, old, object);
    let now = text(object, pointer);
    let was = old.map(|old| text(old, pointer)).unwrap_or_default();
    let name = pointer.rsplit('/').next().unwrap_or_default();
    if now != was {
        words.push(match was {
            "" => format!("{what} {name} {now}"),
            _ => format!("{what} {name} {was} -> {now}"),
        });
    }
    words
}

fn machine(name: &str, old: Option<&Value>, object: &Value) -> Vec<String> {
    let what = format!("machine {name}");
    let mut words = changed(&what, old, object, "/status/currentStatus/phase");
    for (pointer, label) in [
        ("/spec/providerID", "provider id"),
        ("/status/lastOperation/description", "says"),
    ] {
        let now = text(object, pointer);
        if !now.is_empty() && old.is_none_or(|old| text(old, pointer) != now) {
            words.push(format!("{what} {label}: {now}"));
        }
    }
    words
}

fn node(name: &str, old: Option<&Value>, object: &Value) -> Vec<String> {
    let what = format!("node {name}");
    let mut words = appeared(&what, old, object);
    let now = ready(object);
    let was = old.map(ready).unwrap_or_default();
    if now != was && !now.is_empty() {
        words.push(match was {
            "" => format!("{what} Ready {now}"),
            _ => format!("{what} Ready {was} -> {now}"),
        });
    }
    words
}

fn pod(name: &str, old: Option<&Value>, object: &Value) -> Vec<String> {
    let what = format!("pod {name}");
    let mut words = changed(&what, old, object, "/status/phase");
    let node = |pod: &Value| text(pod, "/spec/nodeName").to_owned();
    if !node(object).is_empty() && old.map(node).unwrap_or_default().is_empty() {
        words.push(format!("{what} is bound to node {}", node(object)));
    }
    let was = old.map(ready).unwrap_or_default();
    if ready(object) == "True" && was != "True" {
        words.push(format!("{what} is ready"));
    } else if ready(object) == "False" && was == "True" {
        words.push(format!("{what} is no longer ready"));
    }
    words
}

fn attachment(name: &str, old: Option<&Value>, object: &Value) -> Vec<String> {
    let volume = text(object, "/spec/source/persistentVolumeName");
    let what = format!(
        "attachment {name} of {volume} to node {}",
        text(object, "/spec/nodeName")
    );
    let mut words = appeared(&what, old, object);
    let attached = |object: &Value| object["status"]["attached"] == true;
    match (old.is_some_and(attached), attached(object)) {
        (false, true) => words.push(format!("{what}: attached")),
        (true, false) => words.push(format!("{what}: detached")),
        _ => {}
    }
    words
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
