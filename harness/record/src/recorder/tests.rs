use std::time::Duration;

use scenario::builder::{create_machine, lift, wait};
use scenario::cloud::{Call, Kubelet, Vm, VmState};
use scenario::job::Job;
use scenario::kinds;
use scenario::result::{FailureResult, RunResult};
use scenario::signature::Cause;
use scenario::step::{KubeletAction, KubeletFaultKind};
use scenario::{Scenario, StageKind};
use serde_json::json;

use super::*;
use crate::model::{CheckState, RunRecord, SpanClass};
use crate::{Program, SpanClass as Class};

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn applied(kind: &str, object: Value) -> Seen {
    Seen::Applied(kinds::find(kind).unwrap(), Box::new(object))
}

fn machine(phase: &str, version: u64) -> Value {
    json!({
        "metadata": {
            "name": "m-1", "namespace": "n", "resourceVersion": version.to_string(),
            "ownerReferences": [{ "kind": "MachineSet", "name": "set", "controller": true }],
        },
        "status": { "currentStatus": { "phase": phase } },
    })
}

fn vm(state: VmState) -> Seen {
    Seen::Cloud(CloudEvent::Vm(Vm {
        id: "vm-1".to_owned(),
        machine: "m-1".to_owned(),
        machine_uid: String::new(),
        provider_id: "fakecloud:///z1/vm-1".to_owned(),
        node: "n-1".to_owned(),
        state,
        revision: 1,
    }))
}

fn observe(recorder: &mut Recorder, seconds: i64, what: Seen, before: Option<&Value>, lines: &[&str]) {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    recorder.observe(&Observation { at: at(seconds), what }, before, &lines);
}

fn finish(recorder: Recorder, failure: Option<FailureResult>) -> RunRecord {
    let job = Job::new(Scenario::new("story", "A story."), StageKind::Sim, 7);
    let mut result = RunResult::broken(&job, String::new());
    result.failure = failure;
    let program = Program {
        version: "0".to_owned(),
        commit: None,
    };
    recorder.finish(&job, &result, String::new(), program)
}

fn spans(record: &RunRecord, class: SpanClass) -> Vec<(&str, u64, Option<u64>)> {
    let seconds = |at: Micros| at.0 / 1_000_000;
    let of_class = record.spans.iter().filter(|span| span.class == class);
    of_class
        .map(|span| (span.label.as_str(), seconds(span.from), span.to.map(seconds)))
        .collect()
}

#[test]
fn a_machine_and_its_vm_and_node_are_actors_with_states() {
    let mut recorder = Recorder::new(START);
    let (pending, running) = (machine("Pending", 1), machine("Running", 2));
    observe(
        &mut recorder,
        1,
        applied("Machine", pending.clone()),
        None,
        &["machine m-1 exists"],
    );
    observe(
        &mut recorder,
        2,
        vm(VmState::Pending),
        None,
        &["VM vm-1 of m-1 is pending"],
    );
    observe(
        &mut recorder,
        3,
        vm(VmState::Running),
        None,
        &["VM vm-1 of m-1 pending -> running"],
    );
    observe(
        &mut recorder,
        4,
        applied("Machine", running.clone()),
        Some(&pending),
        &["Pending -> Running"],
    );
    let deleted = Seen::Deleted(kinds::find("Machine").unwrap(), Box::new(running));
    observe(&mut recorder, 9, deleted, None, &["machine m-1 is removed"]);
    let record = finish(recorder, None);
    let actor = |id: &str| record.actors.iter().find(|actor| actor.id == id).unwrap();
    assert_eq!(actor("machine/m-1").parent.as_deref(), Some("set/set"));
    assert_eq!(actor("vm/vm-1").parent.as_deref(), Some("machine/m-1"));
    assert_eq!(actor("node/n-1").parent.as_deref(), Some("machine/m-1"));
    assert_eq!(actor("machine/m-1").zone.as_deref(), Some("zone/z1"));
    assert_eq!(
        spans(&record, Class::Phase),
        [("Pending", 1, Some(4)), ("Running", 4, Some(9))]
    );
    assert_eq!(
        spans(&record, Class::Vm),
        [("pending", 2, Some(3)), ("running", 3, None)]
    );
    let changed = &record.points[3];
    assert_eq!(
        changed.diff,
        Some(json!({ "status": { "currentStatus": { "phase": "Running" } } }))
    );
    assert_eq!(
        (changed.previous, changed.object.as_deref()),
        (Some(1), Some("Machine n/m-1"))
    );
    let live = record
        .counters
        .iter()
        .find(|counter| counter.name == "VMs, also stopped ones")
        .unwrap();
    assert_eq!(live.steps.last().unwrap().value, 1);
}

/// A deletion waits for pods, then deletes the VM; before it, the failed machine drained for its preservation.
#[test]
fn the_drains_of_a_machine_are_states() {
    let mut recorder = Recorder::new(START);
    let step = |version, stage: &str, description: &str| {
        let mut machine = machine("Failed", version);
        machine["status"]["preservation"] = json!({ "stage": stage });
        machine["status"]["lastOperation"] = json!({ "description": description });
        machine
    };
    let steps = [
        step(1, "", "Machine n-1 is unhealthy"),
        step(2, "Draining", "Machine n-1 is preserved"),
        step(3, "Preserved", "Machine n-1 is preserved"),
        step(4, "Preserved", "VM found. Initiate node drain"),
        step(5, "Preserved", "Drain waits for 1 pod: web-0. Initiate node drain"),
        step(6, "Preserved", "Drain successful. Initiate VM deletion"),
    ];
    let mut before = None;
    for (seconds, machine) in (1..).zip(&steps) {
        observe(
            &mut recorder,
            seconds,
            applied("Machine", machine.clone()),
            before,
            &["a change"],
        );
        before = Some(machine);
    }
    let record = finish(recorder, None);
    assert_eq!(
        spans(&record, Class::Drain),
        [("drain", 2, Some(3)), ("drain", 4, Some(6))]
    );
    let draining = record.counters.iter().find(|counter| counter.name == "draining nodes");
    let values: Vec<u64> = draining.unwrap().steps.iter().map(|step| step.value).collect();
    assert_eq!(values, [1, 0, 1, 0]);
}

#[test]
fn open_watches_are_recorded_when_their_number_changes() {
    let mut recorder = Recorder::new(START);
    for (seconds, open) in [(1, 4), (2, 4), (3, 0), (3, 1), (5, 6)] {
        recorder.open_watches(at(seconds), open);
    }
    let record = finish(recorder, None);
    let watches = record.counters.iter().find(|counter| counter.chart == "open watches");
    let steps: Vec<(u64, u64)> = watches
        .unwrap()
        .steps
        .iter()
        .map(|step| (step.at.0 / 1_000_000, step.value))
        .collect();
    assert_eq!(steps, [(1, 4), (3, 1), (5, 6)]);
}

#[test]
fn writes_that_change_nothing_are_counted_and_not_recorded() {
    let mut recorder = Recorder::new(START);
    let first = machine("Running", 1);
    observe(&mut recorder, 1, applied("Machine", first.clone()), None, &[]);
    observe(
        &mut recorder,
        2,
        applied("Machine", machine("Running", 2)),
        Some(&first),
        &[],
    );
    let record = finish(recorder, None);
    assert_eq!(record.points.len(), 2, "the write and the verdict");
    let dropped: Vec<_> = record
        .dropped
        .iter()
        .map(|one| (one.what.as_str(), one.count))
        .collect();
    assert_eq!(dropped, [("writes that change nothing but heartbeats", 1)]);
}

#[test]
fn a_fault_lasts_until_it_is_lifted_or_has_no_hits_left() {
    let mut recorder = Recorder::new(START);
    let once = scenario::builder::fail_call(
        "once",
        scenario::step::CloudCall::CreateMachine,
        "m",
        1,
        mcm_api::Code::Internal,
    );
    let mut always = once.clone();
    if let scenario::Step::Inject(step) = &mut always {
        step.rule.name = "always".to_owned();
        step.rule.matches.times = None;
    }
    recorder.step(at(1), 1, &once, "", None);
    recorder.step(at(2), 2, &always, "", None);
    let call = CloudEvent::Call(Call {
        call: "CreateMachine".to_owned(),
        machine: "m".to_owned(),
        code: "Internal".to_owned(),
        rule: Some("once".to_owned()),
        client: "mcm_1".to_owned(),
        delay: Duration::from_millis(3),
    });
    observe(
        &mut recorder,
        3,
        Seen::Cloud(call),
        None,
        &["cloud CreateMachine for m: Internal by fault once"],
    );
    recorder.step(at(5), 3, &lift("always"), "", None);
    let record = finish(recorder, None);
    assert_eq!(
        spans(&record, Class::Fault),
        [("once", 1, Some(3)), ("always", 2, Some(5))]
    );
    let call = record.points.iter().find(|point| point.verb == Verb::Call).unwrap();
    assert_eq!(
        (
            call.fault.as_deref(),
            call.code.as_deref(),
            call.by.as_deref(),
            call.delay,
            call.step
        ),
        (
            Some("once"),
            Some("Internal"),
            Some("process/mcm"),
            Some(Micros(3_000)),
            Some(2)
        )
    );
}

#[test]
fn a_violation_is_marked_at_the_observation_that_shows_it() {
    let mut recorder = Recorder::new(START);
    observe(
        &mut recorder,
        1,
        vm(VmState::Running),
        None,
        &["VM vm-1 of m-1 is running"],
    );
    let evaluated = judge::invariants::Invariants::new(judge::invariants::JudgingRules::new(
        scenario::Timeouts::production(),
        START,
    ));
    recorder.invariants(evaluated.evaluations());
    recorder.violated("I1", true);
    let rule = judge::invariants::ALL[0].statement;
    let reason = format!("invariant I1 is broken ({rule}): two VMs");
    let failure = FailureResult::new(Cause::Invariant("I1".to_owned()), 1.0, reason);
    let record = finish(recorder, Some(failure));
    let verdict = &record.meta.verdict;
    assert_eq!(verdict.sentence, "Invariant I1 was broken at +1.000s: two VMs");
    assert_eq!(verdict.point, Some(1));
    assert_eq!(record.points[0].violates, Some(0));
    let check = &record.checks[0];
    assert_eq!(
        (check.state, check.violated, check.observed.as_str()),
        (CheckState::Violated, Some(1), "two VMs")
    );
    assert!(record.checks[1..].iter().all(|check| check.state == CheckState::Held));
}

#[test]
fn processes_have_states_from_the_stage_and_the_lease() {
    let mut recorder = Recorder::new(at(10));
    let lease = |holder: &str| applied("Lease", json!({ "spec": { "holderIdentity": holder } }));
    observe(&mut recorder, 11, lease("mcm-0_1"), None, &[]);
    observe(&mut recorder, 12, lease("mcm-0_1"), None, &[]);
    observe(&mut recorder, 20, lease("mcm-1_1"), None, &[]);
    let process = |seconds: i64, text: &str, runs| StageEvent {
        number: None,
        at: at(seconds),
        what: StageEventKind::Process {
            name: "mcm-0".to_owned(),
            text: text.to_owned(),
            runs,
        },
    };
    recorder.add_stage_events(
        vec![process(5, "started (1)", true), process(15, "crashed", false)],
        at(20),
    );
    let record = finish(recorder, None);
    assert_eq!(
        spans(&record, Class::Leader),
        [("leader", 1, Some(5)), ("leader", 10, None)],
        "the Lease names a process that is down"
    );
    assert_eq!(
        spans(&record, Class::Process),
        [("running", 0, Some(5)), ("down", 5, None)]
    );
    let times: Vec<u64> = record.points.iter().map(|point| point.at.0).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn windows_of_the_stage_end_with_their_last_effect_the_quiet_end_or_the_run() {
    let mut recorder = Recorder::new(at(10));
    observe(&mut recorder, 40, Seen::Quiet(Quiet::Began), None, &["quiet"]);
    let fault = |seconds: i64, name: &str, window, rule| StageEvent {
        number: None,
        at: at(seconds),
        what: StageEventKind::Fault {
            name: name.to_owned(),
            text: name.to_owned(),
            window,
            rule,
        },
    };
    let kubelet = |seconds: i64, action: KubeletAction| StageEvent {
        number: None,
        at: at(seconds),
        what: StageEventKind::Kubelet {
            kubelet: "kubelet of m-1".to_owned(),
            action,
            text: String::new(),
        },
    };
    let endless = Some(Limit { at_most: None });
    let twice = Some(Limit { at_most: Some(2) });
    let events = vec![
        fault(5, "rule", Window::Begins, endless),
        fault(12, "twice", Window::Begins, twice),
        fault(13, "twice", Window::Hit, None),
        fault(14, "twice", Window::Hit, None),
        fault(15, "lag", Window::Begins, None),
        fault(20, "lag", Window::Ends, None),
        kubelet(21, KubeletAction::Stop),
        kubelet(25, KubeletAction::Partition),
        kubelet(27, KubeletAction::End(KubeletFaultKind::Outage)),
        fault(30, "stop", Window::Begins, None),
        fault(45, "after the quiet end", Window::Begins, endless),
        fault(60, "after the run", Window::Begins, None),
        fault(60, "stop", Window::Ends, None),
    ];
    recorder.add_stage_events(events, at(50));
    let record = finish(recorder, None);
    assert_eq!(
        spans(&record, Class::Fault),
        [
            ("rule", 0, Some(30)),
            ("twice", 2, Some(4)),
            ("lag", 5, Some(10)),
            ("stop of the kubelet of m-1", 11, Some(15)),
            ("partition of the kubelet of m-1", 15, Some(17)),
            ("stop", 20, None)
        ]
    );
}

#[test]
fn of_too_many_events_the_least_interesting_are_dropped_and_counted() {
    let mut recorder = Recorder::new(START);
    recorder.step(at(0), 1, &wait(Duration::from_secs(1)), "", None);
    recorder.step(at(0), 2, &create_machine("m-1"), "", None);
    let mut before: Option<Value> = None;
    let pod = |number: usize| json!({ "metadata": { "name": "p", "namespace": "n", "annotations": { "n": number } } });
    for number in 0..2 * MOST_POINTS + 100 {
        let kubelet = CloudEvent::Kubelet(Kubelet {
            machine: "m-1".to_owned(),
            what: "Started".to_owned(),
            message: String::new(),
        });
        match number % 2 {
            0 => observe(
                &mut recorder,
                1,
                Seen::Cloud(kubelet),
                None,
                &["kubelet of m-1 Started"],
            ),
            _ => {
                observe(&mut recorder, 1, applied("Pod", pod(number)), before.as_ref(), &[]);
                before = Some(pod(number));
            }
        }
    }
    let record = finish(recorder, None);
    assert_eq!(record.points.len(), MOST_POINTS);
    let count = |verb: Verb| record.points.iter().filter(|point| point.verb == verb).count();
    assert_eq!((count(Verb::Step), count(Verb::Verdict)), (2, 1));
    assert!(count(Verb::Write) < count(Verb::Kubelet));
    let dropped: u64 = record.dropped.iter().map(|one| one.count).sum();
    assert_eq!(dropped as usize, 2 * MOST_POINTS + 100 + 3 - MOST_POINTS);
    let numbers: Vec<u32> = record.points.iter().map(|point| point.number).collect();
    assert_eq!(numbers, (1..=MOST_POINTS as u32).collect::<Vec<_>>());
    let text = serde_json::to_vec(&record).unwrap();
    assert!(crate::read(&text).is_ok(), "{:?}", crate::read(&text).err());
}

#[test]
fn an_object_is_incomplete_after_a_dropped_write() {
    let mut recorder = Recorder::new(START);
    let (first, second, third) = (machine("Pending", 1), machine("Running", 2), machine("Failed", 3));
    observe(&mut recorder, 1, applied("Machine", first.clone()), None, &["exists"]);
    observe(
        &mut recorder,
        2,
        applied("Machine", second.clone()),
        Some(&first),
        &["runs"],
    );
    observe(&mut recorder, 3, applied("Machine", third), Some(&second), &["fails"]);
    recorder.points.remove(1);
    let record = finish(recorder, None);
    let incomplete: Vec<bool> = record.points.iter().map(|point| point.incomplete).collect();
    assert_eq!(incomplete, [false, true, false], "the verdict is no write");
}

#[test]
fn of_several_missed_expectations_the_first_one_is_the_violated_check() {
    let mut recorder = Recorder::new(START);
    let expectation = scenario::Expectation {
        that: scenario::builder::exists("Machine", "m-1"),
        holds: scenario::Temporal::Throughout,
        meanwhile: true,
        may_miss: false,
    };
    observe(
        &mut recorder,
        1,
        vm(VmState::Running),
        None,
        &["VM vm-1 of m-1 is running"],
    );
    for step in [1, 2] {
        recorder.expect(at(1), step, &expectation);
    }
    for step in [1, 2] {
        recorder.missed(at(1), step, 3, "no machine", Vec::new());
    }
    let failure = FailureResult {
        step: 1,
        ..FailureResult::new(Cause::Expectation, 1.0, "expected a machine; but no machine".to_owned())
    };
    let record = finish(recorder, Some(failure));
    let shown_by = record.meta.verdict.point.unwrap();
    let point = &record.points[shown_by as usize - 1];
    assert_eq!(
        (point.summary.as_str(), point.cause),
        ("step 1: missed (no machine)", Some(1))
    );
    assert_eq!(record.checks[point.violates.unwrap()].name, "step 1");
    assert_eq!(record.points.last().unwrap().cause, Some(shown_by), "the verdict");
}

#[test]
fn a_failure_without_an_observation_leads_to_the_events_of_what_it_names() {
    let mut recorder = Recorder::new(START);
    observe(
        &mut recorder,
        1,
        vm(VmState::Pending),
        None,
        &["VM vm-1 of m-1 is pending"],
    );
    let lied = CloudEvent::Call(Call {
        call: "DeleteMachine".to_owned(),
        machine: "m-1".to_owned(),
        code: "OK".to_owned(),
        rule: Some("lie".to_owned()),
        client: String::new(),
        delay: Duration::ZERO,
    });
    recorder.fault(Micros(1_000_000), "lie", "inject fault lie".to_owned(), Window::Begins);
    observe(
        &mut recorder,
        2,
        Seen::Cloud(lied),
        None,
        &["cloud DeleteMachine for m-1: OK by fault lie"],
    );
    let silent = Seen::Quiet(Quiet::Silent { tokens: 0, parts: 0 });
    observe(&mut recorder, 9, silent, None, &["the quiet period begins"]);
    recorder.violated("I2", true);
    let reason = "these VMs have no Machine: VM vm-1 of machine m-1 is running".to_owned();
    let failure = FailureResult {
        invariant: Some("I2".to_owned()),
        ..FailureResult::new(Cause::Invariant("I2".to_owned()), 9.0, reason)
    };
    let record = finish(recorder, Some(failure));
    let shown = &record.points[record.meta.verdict.point.unwrap() as usize - 1];
    assert_eq!(
        (shown.verb, shown.link),
        (Verb::Verdict, Some(crate::Link::Named)),
        "not the note"
    );
    let linked = shown.cause.into_iter().chain(shown.seen.iter().copied());
    let linked: Vec<&str> = linked
        .map(|number| record.points[number as usize - 1].summary.as_str())
        .collect();
    assert_eq!(
        linked,
        [
            "cloud DeleteMachine for m-1: OK by fault lie",
            "inject fault lie",
            "VM vm-1 of m-1 is pending"
        ]
    );
}

#[test]
fn a_missed_expectation_has_its_unmet_parts_and_a_short_verdict() {
    let mut recorder = Recorder::new(START);
    let expectation = scenario::Expectation {
        that: scenario::builder::exists("Machine", "m-1"),
        holds: scenario::Temporal::Eventually(scenario::builder::seconds(1)),
        meanwhile: false,
        may_miss: false,
    };
    observe(
        &mut recorder,
        1,
        applied("Machine", machine("Pending", 1)),
        None,
        &["machine m-1 exists"],
    );
    recorder.expect(at(1), 1, &expectation);
    recorder.forget_observation();
    let part = |wanted: &str| crate::Unmet {
        wanted: wanted.to_owned(),
        found: "Pending".to_owned(),
    };
    let parts = vec![part("machine m-1 is Running"), part("machine m-1 has 1 VM(s)")];
    recorder.missed(at(2), 1, 3, "machine m-1 is Pending", parts);
    let failure = FailureResult {
        step: 1,
        expectation: true,
        ..FailureResult::new(
            Cause::Expectation,
            2.0,
            "expected eventually, within 1s: a and b; but no".to_owned(),
        )
    };
    let record = finish(recorder, Some(failure));
    assert_eq!(
        record.meta.verdict.sentence,
        "Step 1 failed at +2.000s (eventually, within 1s): 2 conditions do not hold"
    );
    assert_eq!(record.checks[0].unmet.len(), 2);
    let shown = &record.points[record.meta.verdict.point.unwrap() as usize - 1];
    assert_eq!((shown.cause, shown.link), (Some(1), Some(crate::Link::Named)));
}
