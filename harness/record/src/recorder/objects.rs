//! Records writes and deletions of objects.

use judge::object::{is_deleting, label, owner, phase, text, version};
use mcm_api::keys;
use scenario::kinds::{self, Kind};
use serde_json::Value;

use super::Recorder;
use super::summary::summary;
use crate::diff;
use crate::draft::{Interest, ObjectKey};
use crate::model::{Micros, SpanClass, Verb};

impl Recorder {
    /// Records the new version of an object.
    pub(super) fn written(
        &mut self,
        at: Micros,
        kind: &'static Kind,
        object: &Value,
        before: Option<&Value>,
        lines: &[String],
    ) -> Option<u64> {
        let Some(diff) = diff::between(before, object) else {
            self.heartbeats += 1;
            return None;
        };
        let actor = self.actors.object(kind, object);
        let key = key_of(kind, object);
        let changes_state =
            before.is_none() || !lines.is_empty() || is_deleting(object) != before.is_some_and(is_deleting);
        let interest = match kind.key {
            "Machine" | "MachineSet" | "MachineDeployment" | "Node" if changes_state => Interest::State,
            "Machine" | "MachineSet" | "MachineDeployment" => Interest::Machine,
            "Node" => Interest::Node,
            _ => Interest::Object,
        };
        let summary = match lines {
            [] => summary(kind, &key.name, before, &diff.patch),
            lines => lines.join("; "),
        };
        let id = self.push(at, &actor, Verb::Write, summary, interest);
        let previous = match before {
            Some(_) => self.writes.get(&key).copied(),
            None => None,
        };
        let related = self.related(kind, object);
        if let Some(draft) = self.points.last_mut() {
            // The previous version was observed, but its event is not part of the record.
            draft.point.incomplete = before.is_some() && previous.is_none();
            draft.point.object = Some(shown(&key));
            draft.point.revision = version(object);
            draft.point.diff = Some(diff.patch);
            draft.point.cut = diff.cut;
            draft.previous = previous;
            draft.related = related;
            draft.key = Some(key.clone());
        }
        self.writes.insert(key, id);
        self.record_state(at, kind, object, &actor, id);
        Some(id)
    }

    /// Records that an object was removed.
    pub(super) fn deleted(&mut self, at: Micros, kind: &'static Kind, object: &Value, lines: &[String]) -> Option<u64> {
        if kind.key == "Lease" {
            return None;
        }
        let actor = self.actors.object(kind, object);
        let key = key_of(kind, object);
        let interest = match kind.key {
            "Machine" | "MachineSet" | "MachineDeployment" | "Node" => Interest::State,
            _ => Interest::Object,
        };
        let id = self.push(at, &actor, Verb::Delete, lines.join("; "), interest);
        let previous = self.writes.remove(&key);
        let related = self.related(kind, object);
        if let Some(draft) = self.points.last_mut() {
            draft.point.object = Some(shown(&key));
            draft.point.revision = version(object);
            draft.previous = previous;
            draft.related = related;
            draft.key = Some(key);
        }
        self.spans.end_all(&actor, at);
        Some(id)
    }

    /// Records a Kubernetes Event for the object that it is about.
    pub(super) fn event(&mut self, at: Micros, object: &Value, lines: &[String]) -> Option<u64> {
        let summary = lines.first()?.clone();
        let actor = self.actors.involved(
            text(object, "/involvedObject/kind"),
            text(object, "/involvedObject/namespace"),
            text(object, "/involvedObject/name"),
        );
        let id = self.push(at, &actor, Verb::Event, summary, Interest::Event);
        let involved = kinds::find(text(object, "/involvedObject/kind")).ok();
        let name = text(object, "/involvedObject/name").to_owned();
        if let (Some(draft), Ok(kind)) = (self.points.last_mut(), kinds::find("Event")) {
            draft.key = Some(key_of(kind, object));
            draft.point.revision = version(object);
            draft.related.extend(involved.map(|involved| (involved.kind, name)));
        }
        Some(id)
    }

    /// Records the states that an object shows.
    fn record_state(&mut self, at: Micros, kind: &Kind, object: &Value, actor: &str, id: u64) {
        let (class, state) = match kind.key {
            "Machine" => (SpanClass::Phase, phase(object)),
            "Pod" => (SpanClass::Phase, text(object, "/status/phase")),
            "Node" => (SpanClass::Node, readiness(object)),
            _ => return,
        };
        let state = if state.is_empty() { "new" } else { state };
        self.spans.begin(actor, class, state, at, Some(id));
        if kind.key == "Machine" {
            match drains(object) {
                true => self.spans.begin(actor, SpanClass::Drain, "drain", at, Some(id)),
                false => self.spans.end(actor, SpanClass::Drain, at),
            }
        }
    }

    /// The objects that an object belongs to or depends on, by kind and name.
    fn related(&self, kind: &Kind, object: &Value) -> Vec<(&'static str, String)> {
        let mut related = Vec::new();
        let mut add = |kind: &'static str, name: &str| {
            if !name.is_empty() {
                related.push((kind, name.to_owned()));
            }
        };
        for of in [
            "MachineSet",
            "MachineDeployment",
            "ReplicaSet",
            "Deployment",
            "StatefulSet",
            "DaemonSet",
        ] {
            add(of, owner(object, of).unwrap_or_default());
        }
        match kind.key {
            "Machine" => {
                add("Node", label(object, keys::NODE_LABEL));
                add("MachineClass", text(object, "/spec/class/name"));
            }
            "Node" => {
                let machine = self.actors.machine_name_of_node(text(object, "/metadata/name"));
                add("Machine", machine.map_or("", String::as_str));
            }
            "Pod" => add("Node", text(object, "/spec/nodeName")),
            _ => {}
        }
        related
    }
}

fn key_of(kind: &'static Kind, object: &Value) -> ObjectKey {
    ObjectKey {
        kind: kind.kind,
        plural: kind.plural,
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
    }
}

/// The object in messages: kind, namespace and name.
fn shown(key: &ObjectKey) -> String {
    match key.namespace.as_str() {
        "" => format!("{} {}", key.kind, key.name),
        namespace => format!("{} {namespace}/{}", key.kind, key.name),
    }
}

/// Whether the machine's node is being drained. The last operation of a deletion or an update in place then ends with this
/// phrase, as upstream; its text names what blocks the drain.
fn drains(machine: &Value) -> bool {
    text(machine, "/status/lastOperation/description").ends_with("Initiate node drain")
        || text(machine, "/status/preservation/stage") == "Draining"
}

/// Whether a Node is Ready, in a word.
fn readiness(node: &Value) -> &'static str {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    match ready.and_then(|condition| condition["status"].as_str()) {
        Some("True") => "Ready",
        Some("False") => "NotReady",
        Some(_) => "Unknown",
        None => "",
    }
}
