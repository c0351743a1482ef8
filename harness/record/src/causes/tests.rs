use judge::object::version;
use scenario::kinds;
use serde_json::{Value, json};

use super::*;
use crate::Recorder;
use scenario::cloud::{Call, CloudEvent, Vm, VmState};
use scenario::observation::{Observation, Seen};

const START: Timestamp = Timestamp::UNIX_EPOCH;

/// A recorder, and the trace of the same run.
struct Story {
    recorder: Recorder,
    trace: Vec<TraceEntry>,
    objects: BTreeMap<String, Value>,
}

impl Story {
    fn new() -> Self {
        Self {
            recorder: Recorder::new(START),
            trace: Vec::new(),
            objects: BTreeMap::new(),
        }
    }

    /// A process writes an object. The engine observes it.
    fn write(&mut self, process: &str, kind: &str, name: &str, revision: u64, mut object: Value) {
        let kind = kinds::find(kind).unwrap();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        assert_eq!(version(&object), Some(revision));
        let before = self.objects.insert(format!("{} {name}", kind.kind), object.clone());
        self.entry(
            process,
            TraceEvent::Write {
                plural: kind.plural.to_owned(),
                namespace: String::new(),
                name: if before.is_some() {
                    name.to_owned()
                } else {
                    String::new()
                },
                revision,
            },
        );
        let observation = Observation {
            at: START,
            what: Seen::Applied(kind, Box::new(object)),
        };
        let line = [format!("{} {name} at {revision}", kind.kind)];
        self.recorder.observe(&observation, before.as_ref(), &line);
    }

    fn deliver(&mut self, process: &str, kind: &str, name: &str, revision: u64) {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.entry(process, TraceEvent::Delivery { kind, name, revision });
    }

    /// A call of a process is answered.
    fn call(&mut self, process: &str, call: &str, machine: &str) {
        self.entry(process, TraceEvent::Answer { call: call.to_owned() });
        let event = CloudEvent::Call(Call {
            call: call.to_owned(),
            machine: machine.to_owned(),
            code: "OK".to_owned(),
            rule: None,
            client: format!("{process}_1"),
        });
        let observation = Observation {
            at: START,
            what: Seen::Cloud(event),
        };
        self.recorder
            .observe(&observation, None, &[format!("{call} for {machine}")]);
    }

    fn entry(&mut self, process: &str, event: TraceEvent) {
        let process = process.to_owned();
        self.trace.push(TraceEntry {
            number: self.trace.len() as u64,
            at: START,
            process,
            event,
        });
    }

    /// Each event with its process, and the event that led to it.
    fn explained(mut self) -> Vec<(String, String, String)> {
        self.recorder.add_causes(&self.trace, 0);
        let points = self.recorder.into_points();
        let text = |id: u64| {
            points
                .iter()
                .find(|draft| draft.id == id)
                .map(|draft| draft.point.summary.clone())
        };
        let explain = |draft: &Draft| {
            let cause = draft.cause.and_then(text).unwrap_or_default();
            (
                draft.point.summary.clone(),
                draft.point.by.clone().unwrap_or_default(),
                cause,
            )
        };
        points.iter().map(explain).collect()
    }
}

#[test]
fn a_write_leads_back_to_what_its_process_had_received() {
    let mut story = Story::new();
    let mut machine = json!({ "metadata": { "labels": { "node": "n-1" } } });
    story.write("user", "Machine", "m-1", 1, machine.clone());
    story.deliver("mcm", "Machine", "m-1", 1);
    story.call("mcm", "CreateMachine", "m-1");
    machine["spec"] = json!({ "providerID": "x" });
    story.write("mcm", "Machine", "m-1", 2, machine.clone());
    story.write("kubelets", "Node", "n-1", 3, json!({}));
    story.deliver("mcm", "Machine", "m-1", 2);
    story.deliver("mcm", "Node", "n-1", 3);
    machine["status"] = json!({ "currentStatus": { "phase": "Running" } });
    story.write("mcm", "Machine", "m-1", 4, machine);
    let text = |summary: &str, by: &str, cause: &str| (summary.to_owned(), format!("process/{by}"), cause.to_owned());
    assert_eq!(
        story.explained(),
        [
            text("Machine m-1 at 1", "user", ""),
            text("CreateMachine for m-1", "mcm", "Machine m-1 at 1"),
            text("Machine m-1 at 2", "mcm", "CreateMachine for m-1"),
            text("Node n-1 at 3", "kubelets", ""),
            text("Machine m-1 at 4", "mcm", "Node n-1 at 3"),
        ]
    );
}

#[test]
fn a_vm_leads_back_to_the_call_that_changed_it() {
    let mut story = Story::new();
    story.call("mcm", "GetMachineStatus", "m-1");
    let vm = CloudEvent::Vm(Vm {
        id: "vm-1".to_owned(),
        machine: "m-1".to_owned(),
        machine_uid: String::new(),
        provider_id: String::new(),
        node: String::new(),
        state: VmState::Pending,
        revision: 1,
    });
    let observation = Observation {
        at: START,
        what: Seen::Cloud(vm),
    };
    story.recorder.observe(&observation, None, &["VM vm-1".to_owned()]);
    story.call("mcm", "CreateMachine", "m-1");
    let (summary, _, cause) = story.explained().remove(1);
    assert_eq!((summary.as_str(), cause.as_str()), ("VM vm-1", "CreateMachine for m-1"));
}

#[test]
fn what_another_process_received_is_no_cause() {
    let mut story = Story::new();
    story.write("user", "Node", "n-1", 1, json!({}));
    story.deliver("mcm-0", "Node", "n-1", 1);
    story.write("mcm-1", "Node", "n-1", 2, json!({ "spec": { "unschedulable": true } }));
    let last = story.explained().pop().unwrap();
    assert_eq!(
        last,
        ("Node n-1 at 2".to_owned(), "process/mcm-1".to_owned(), String::new())
    );
}

#[test]
fn a_write_that_the_trace_does_not_contain_has_no_process() {
    let mut story = Story::new();
    story.write("user", "Node", "n-1", 1, json!({}));
    story.trace.clear();
    let only = story.explained().pop().unwrap();
    assert_eq!(only, ("Node n-1 at 1".to_owned(), String::new(), String::new()));
}
