use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use judge::object::version;
use scenario::kinds;
use serde_json::{Value, json};

use super::*;
use crate::{Recorder, StageEvent, StageEventKind, Window};
use scenario::builder::{annotate, vm, wait};
use scenario::cloud::{Call, CloudEvent, Vm, VmState};
use scenario::observation::{Observation, Request, Seen};
use scenario::step::VmAction;

const START: Timestamp = Timestamp::UNIX_EPOCH;

/// A recorder, and the trace of the same run.
struct Story {
    now: Timestamp,
    recorder: Recorder,
    trace: Vec<TraceEntry>,
    objects: BTreeMap<String, Value>,
}

impl Story {
    fn new() -> Self {
        Self {
            now: START,
            recorder: Recorder::new(START),
            trace: Vec::new(),
            objects: BTreeMap::new(),
        }
    }

    /// A process writes an object. The engine observes it.
    fn write(&mut self, process: &str, kind: &str, name: &str, revision: u64, object: Value) {
        self.send(process, kind, name, revision);
        self.observe(kind, name, revision, object);
    }

    /// A process sends a write.
    fn send(&mut self, process: &str, kind: &str, name: &str, revision: u64) {
        let plural = kinds::find(kind).unwrap().plural.to_owned();
        let is_known = self.objects.contains_key(&format!("{kind} {name}"));
        let write = TraceEvent::Write {
            plural,
            namespace: String::new(),
            name: if is_known { name.to_owned() } else { String::new() },
            revision,
        };
        self.entry(process, write);
    }

    /// A step begins.
    fn step(&mut self, number: usize, step: &scenario::Step) {
        self.recorder.step(self.now, number, step, "", None);
        self.recorder.place_step(self.trace.len() as u64);
    }

    /// The engine observes a version of an object.
    fn observe(&mut self, kind: &str, name: &str, revision: u64, mut object: Value) {
        let kind = kinds::find(kind).unwrap();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        assert_eq!(version(&object), Some(revision));
        let before = self.objects.insert(format!("{} {name}", kind.kind), object.clone());
        let observation = Observation {
            at: self.now,
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
        self.sent(process, call, machine, Duration::ZERO);
    }

    /// A call of a process, whose answer the cloud delays.
    fn sent(&mut self, process: &str, call: &str, machine: &str, delay: Duration) {
        let event = CloudEvent::Call(Call {
            call: call.to_owned(),
            machine: machine.to_owned(),
            code: "OK".to_owned(),
            rule: None,
            client: format!("{process}_1"),
            delay,
        });
        let observation = Observation {
            at: self.now,
            what: Seen::Cloud(event),
        };
        self.recorder
            .observe(&observation, None, &[format!("{call} for {machine}")]);
    }

    /// A process starts.
    fn start(&mut self, process: &str) {
        let event = StageEvent {
            number: Some(self.trace.len() as u64),
            at: self.now,
            what: StageEventKind::Process {
                name: process.to_owned(),
                text: "starts".to_owned(),
                runs: true,
            },
        };
        self.recorder.add_stage_events(vec![event], self.now);
        self.entry(process, TraceEvent::Started);
    }

    /// The API server refuses a patch of a machine by mcm.
    fn refuse(&mut self, machine: &str, rule: &str) {
        let refused = TraceEvent::Refused {
            plural: "machines".to_owned(),
            namespace: String::new(),
            name: machine.to_owned(),
            rule: Some(rule.to_owned()),
        };
        self.entry("mcm", refused);
        let request = Request {
            verb: "patch".to_owned(),
            resource: "machines/status".to_owned(),
            namespace: String::new(),
            name: machine.to_owned(),
            code: 500,
        };
        let observation = Observation {
            at: self.now,
            what: Seen::Request(request),
        };
        self.recorder
            .observe(&observation, None, &[format!("patch of {machine} fails")]);
    }

    fn entry(&mut self, process: &str, event: TraceEvent) {
        let process = process.to_owned();
        self.trace.push(TraceEntry {
            number: self.trace.len() as u64,
            at: self.now,
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
            let cause = draft.cause.and_then(|(_, id)| text(id)).unwrap_or_default();
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
fn a_process_ends_and_starts_by_faults_or_by_itself() {
    let event = |seconds: i64, what: StageEventKind| StageEvent {
        number: None,
        at: START + SignedDuration::from_secs(seconds),
        what,
    };
    let process = |seconds: i64, name: &str, text: &str| {
        let (name, text) = (name.to_owned(), text.to_owned());
        event(
            seconds,
            StageEventKind::Process {
                name,
                text,
                runs: false,
            },
        )
    };
    let fault = |seconds: i64, name: &str, window: Window| {
        let (name, text) = (name.to_owned(), format!("{name} now"));
        event(
            seconds,
            StageEventKind::Fault {
                name,
                text,
                window,
                rule: None,
            },
        )
    };
    let mut story = Story::new();
    let events = vec![
        process(0, "mcm-0", "started (1)"),
        fault(1, "crash of mcm-1", Window::Moment),
        fault(2, "crash of mcm-0", Window::Moment),
        process(2, "mcm-0", "crashed"),
        process(5, "mcm-0", "started (2)"),
        fault(7, "mcm is down", Window::Begins),
        process(7, "mcm-0", "killed"),
    ];
    story
        .recorder
        .add_stage_events(events, START + SignedDuration::from_secs(9));
    let explained = story.explained();
    let causes: Vec<&str> = explained
        .iter()
        .filter(|(summary, ..)| summary.starts_with("mcm-0"))
        .map(|(_, _, cause)| cause.as_str())
        .collect();
    assert_eq!(causes, ["", "crash of mcm-0 now", "mcm-0 crashed", "mcm is down now"]);
}

#[test]
fn a_process_that_starts_has_received_what_it_lists() {
    let mut story = Story::new();
    story.write("user", "Machine", "m-1", 1, json!({}));
    story.deliver("mcm", "Machine", "m-1", 1);
    story.write(
        "user",
        "Machine",
        "m-1",
        2,
        json!({ "metadata": { "labels": { "a": "b" } } }),
    );
    story.entry("mcm", TraceEvent::Started);
    let plural = "machines".to_owned();
    story.entry("mcm", TraceEvent::List { plural, revision: 2 });
    story.write("mcm", "Machine", "m-1", 3, json!({ "spec": { "providerID": "vm-1" } }));
    story.recorder.add_causes(&story.trace, 0);
    let points = story.recorder.into_points();
    assert_eq!(points[2].cause, Some((Link::Own, points[1].id)));
    assert_eq!(points[2].seen, Vec::<u64>::new());
}

#[test]
fn what_a_process_does_about_its_first_list_leads_back_to_its_start() {
    let mut story = Story::new();
    story.write("user", "Machine", "m-1", 1, json!({}));
    let list = |revision| TraceEvent::List {
        plural: "machines".to_owned(),
        revision,
    };
    let label = |value: &str| json!({ "metadata": { "labels": { "a": value } } });
    story.start("mcm");
    story.entry("mcm", list(1));
    story.write("mcm", "Machine", "m-1", 2, label("after its start"));
    story.write("user", "Machine", "m-1", 3, label("by a user"));
    story.entry("mcm", list(3));
    story.write("mcm", "Machine", "m-1", 4, label("after a later list"));
    story.write("mcm", "ConfigMap", "first", 5, json!({}));
    story.recorder.add_causes(&story.trace, 0);
    let points = story.recorder.into_points();
    let of = |summary: &str| points.iter().find(|draft| draft.point.summary == summary).unwrap();
    let start = of("mcm starts").id;
    assert_eq!(of("Machine m-1 at 2").seen, [start]);
    assert_eq!(of("Machine m-1 at 4").seen, Vec::<u64>::new());
    let alone = of("ConfigMap first at 5");
    assert_eq!((alone.cause, alone.seen.len()), (Some((Link::Before, start)), 0));
}

#[test]
fn a_refused_request_belongs_to_its_object_and_has_its_rule_and_what_came_before() {
    let mut story = Story::new();
    story.write("user", "Machine", "m-1", 1, json!({}));
    story.deliver("mcm", "Machine", "m-1", 1);
    story.call("mcm", "CreateMachine", "m-1");
    story.refuse("m-1", "no-writes");
    story.recorder.add_causes(&story.trace, 0);
    let points = story.recorder.into_points();
    let [write, call, refused] = points.as_slice() else {
        panic!("{points:?}")
    };
    assert_eq!(refused.point.actor, "machine/m-1");
    assert_eq!(refused.point.by.as_deref(), Some("process/mcm"));
    assert_eq!(refused.point.fault.as_deref(), Some("no-writes"));
    assert_eq!(refused.cause, Some((Link::Before, call.id)));
    assert_eq!(refused.previous, Some(write.id), "what it would have changed");
}

#[test]
fn a_process_has_received_nothing_before_it_starts() {
    let mut story = Story::new();
    story.write("user", "Machine", "m-1", 1, json!({}));
    story.deliver("mcm", "Machine", "m-1", 1);
    story.write(
        "user",
        "Machine",
        "m-1",
        2,
        json!({ "metadata": { "labels": { "a": "b" } } }),
    );
    story.entry("mcm", TraceEvent::Started);
    story.write("mcm", "Machine", "m-1", 3, json!({ "spec": { "providerID": "vm-1" } }));
    let (_, _, cause) = story.explained().remove(2);
    assert_eq!(cause, "Machine m-1 at 2", "the previous change of the object itself");
}

#[test]
fn a_call_that_is_answered_late_was_sent_before_and_received_afterwards() {
    let mut story = Story::new();
    story.write("user", "Machine", "m-1", 1, json!({}));
    story.deliver("mcm", "Machine", "m-1", 1);
    story.sent("mcm", "CreateMachine", "m-1", Duration::from_secs(5));
    story.sent("mcm", "CreateMachine", "m-2", Duration::from_secs(60));
    story.now = START + Duration::from_secs(2);
    story.write(
        "user",
        "Machine",
        "m-1",
        2,
        json!({ "metadata": { "labels": { "a": "b" } } }),
    );
    story.deliver("mcm", "Machine", "m-1", 2);
    story.now = START + Duration::from_secs(5);
    let call = "CreateMachine".to_owned();
    story.entry("mcm", TraceEvent::Answer { call });
    story.write("mcm", "Machine", "m-1", 3, json!({ "spec": { "providerID": "vm-1" } }));
    let explained = story.explained();
    let causes: Vec<(&str, &str)> = explained
        .iter()
        .map(|(summary, _, cause)| (summary.as_str(), cause.as_str()))
        .collect();
    assert_eq!(
        causes[1..],
        [
            ("CreateMachine for m-1", "Machine m-1 at 1"),
            ("CreateMachine for m-2", ""),
            ("Machine m-1 at 2", "Machine m-1 at 1"),
            ("Machine m-1 at 3", "CreateMachine for m-1"),
        ]
    );
}

#[test]
fn what_another_process_received_is_only_the_history_of_the_object() {
    let mut story = Story::new();
    story.write("user", "Node", "n-1", 1, json!({}));
    story.deliver("mcm-0", "Node", "n-1", 1);
    story.write("mcm-1", "Node", "n-1", 2, json!({ "spec": { "unschedulable": true } }));
    story.recorder.add_causes(&story.trace, 0);
    let points = story.recorder.into_points();
    assert_eq!(points[1].point.by.as_deref(), Some("process/mcm-1"));
    assert_eq!(
        (points[1].cause, points[1].seen.len()),
        (Some((Link::Own, points[0].id)), 0)
    );
}

#[test]
fn a_request_of_the_harness_belongs_to_the_step_that_sent_it() {
    let mut story = Story::new();
    story.step(1, &annotate("Machine", "m-1", "key", "value"));
    story.send("drydock", "Machine", "m-1", 1);
    story.step(2, &wait(std::time::Duration::from_secs(1)));
    story.observe("Machine", "m-1", 1, json!({}));
    story.recorder.add_causes(&story.trace, 0);
    let points = story.recorder.into_points();
    let written = points.last().unwrap();
    assert_eq!((written.point.verb, written.point.step), (Verb::Write, Some(1)));
    assert_eq!(written.cause, Some((Link::Caused, points[0].id)));
    let order = |index: usize| points[index].order;
    assert!(
        order(0) < order(2) && order(2) < order(1),
        "the step, its write, the next step"
    );
}

#[test]
fn what_a_sibling_changes_in_the_status_of_their_set_is_no_reason() {
    let mut story = Story::new();
    let owned =
        json!({ "metadata": { "ownerReferences": [{ "kind": "MachineSet", "name": "set", "controller": true }] } });
    let with = |field: &str, value: Value| {
        let mut machine = owned.clone();
        machine[field] = value;
        machine
    };
    story.write("mcm", "MachineSet", "set", 1, json!({ "spec": { "replicas": 1 } }));
    story.write("mcm", "Machine", "m-1", 2, owned.clone());
    story.deliver("mcm", "Machine", "m-1", 2);
    story.write(
        "mcm",
        "MachineSet",
        "set",
        3,
        json!({ "spec": { "replicas": 1 }, "status": { "replicas": 1 } }),
    );
    story.deliver("mcm", "MachineSet", "set", 3);
    story.write(
        "mcm",
        "Machine",
        "m-1",
        4,
        with("status", json!({ "phase": "Unknown" })),
    );
    story.write(
        "user",
        "MachineSet",
        "set",
        5,
        json!({ "spec": { "replicas": 0 }, "status": { "replicas": 1 } }),
    );
    story.deliver("mcm", "MachineSet", "set", 5);
    story.write(
        "mcm",
        "Machine",
        "m-1",
        6,
        with("status", json!({ "phase": "Terminating" })),
    );
    story.recorder.add_causes(&story.trace, 0);
    let points = story.recorder.into_points();
    let of = |revision: u64| {
        points
            .iter()
            .find(|draft| draft.point.revision == Some(revision))
            .unwrap()
    };
    assert_eq!(
        (of(4).cause, of(4).seen.as_slice()),
        (Some((Link::Own, of(2).id)), [of(3).id].as_slice())
    );
    assert_eq!(of(6).cause, Some((Link::Before, of(5).id)), "an order of the set");
}

#[test]
fn a_vm_that_a_step_stops_and_its_kubelet_lead_back_to_the_step() {
    let mut story = Story::new();
    let seen = |state| {
        CloudEvent::Vm(Vm {
            id: "vm-1".to_owned(),
            machine: "m-1".to_owned(),
            machine_uid: String::new(),
            provider_id: "fakecloud:///z1/vm-1".to_owned(),
            node: "m-1".to_owned(),
            state,
            revision: 1,
        })
    };
    let observe = |story: &mut Story, event, line: &str| {
        let observation = Observation {
            at: START,
            what: Seen::Cloud(event),
        };
        story.recorder.observe(&observation, None, &[line.to_owned()]);
    };
    observe(&mut story, seen(VmState::Running), "VM runs");
    story.step(1, &vm("m-1", VmAction::Stop));
    observe(&mut story, seen(VmState::Stopped), "VM stops");
    let found = story.explained();
    assert_eq!(found[1].2, "", "a step");
    assert_eq!(found[2].2, found[1].0, "the fault is caused by the step");
    assert_eq!(
        (found[3].0.as_str(), found[3].2.as_str()),
        ("VM stops", "step 1: stop the VM of m-1")
    );
}

#[test]
fn a_kubernetes_event_leads_back_to_what_its_process_did_before() {
    let mut story = Story::new();
    story.write("mcm", "Machine", "m-1", 1, json!({}));
    story.write("mcm", "Machine", "m-2", 2, json!({}));
    let about = json!({ "involvedObject": { "kind": "Machine", "name": "m-1" } });
    story.write("mcm", "Event", "e", 3, about);
    let (_, by, cause) = story.explained().pop().unwrap();
    assert_eq!((by.as_str(), cause.as_str()), ("process/mcm", "Machine m-1 at 1"));
}

#[test]
fn a_write_that_the_trace_does_not_contain_has_no_process() {
    let mut story = Story::new();
    story.write("user", "Node", "n-1", 1, json!({}));
    story.trace.clear();
    let only = story.explained().pop().unwrap();
    assert_eq!(only, ("Node n-1 at 1".to_owned(), String::new(), String::new()));
}
