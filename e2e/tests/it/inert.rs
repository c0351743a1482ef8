//! I17 over pairs of runs: unpreserved machines are handled exactly, write by write and call by call, as with
//! preservation switched off.
//!
//! Two runs of one seed are identical until one of them creates a machine that the other does not: the names of
//! all later machines come from the same stream, and the boot time of a VM depends on its machine's name. So no
//! pair here preserves a machine that is replaced without preservation; a test of `mcm-core` covers a machine
//! that the full list refuses.

use std::collections::BTreeMap;
use std::time::Duration;

use harness::campaign::generate;
use harness::campaign::suite::{self, PRESERVATION};
use judge::invariants::inert::difference;
use scenario::builder::{apply, patch_spec, seconds, wait};
use scenario::job::Job;
use scenario::plan::Plan;
use scenario::result::{RunResult, Write};
use scenario::step::deferred_target::{DeferredTarget, Request, UserAction};
use scenario::step::{KubeletAction, VmAction};
use scenario::{PreservationDialect, Scenario, StageKind, Step, Timeouts, fixtures};
use serde_json::{Value, json};
use stage::NAMESPACE;

use crate::drydock::perform;

/// The number of generated worlds to compare.
const WORLDS: u64 = 10;
/// Every fourth seed is one of the smallest worlds.
const SMALLEST: u64 = 4;

/// The duration of a generated world's scenario, the timeout of its waits, and the time after it, in which
/// machines that failed last are replaced.
const STORY: Duration = Duration::from_mins(20);
const WAIT: Duration = Duration::from_mins(5);
const REST: Duration = Duration::from_mins(13);

/// Runs a plan with preservation switched off and on; the latter with this defect.
fn pair(plan: &Plan, mutant: Option<&str>) -> [RunResult; 2] {
    let folder = tempfile::tempdir().unwrap();
    let run = |dialect: PreservationDialect, mutant: Option<&str>| {
        let mut plan = plan.clone();
        plan.scenario.world.preservation = dialect;
        plan.mutant = mutant.map(str::to_owned);
        perform(&Job {
            writes: true,
            reports: folder.path().to_owned(),
            ..Job::of(plan, StageKind::Sim)
        })
    };
    std::thread::scope(|scope| {
        let off = scope.spawn(|| run(PreservationDialect::Off, None));
        let on = run(PreservationDialect::V2, mutant);
        [off.join().unwrap(), on]
    })
}

fn occurred(counts: &BTreeMap<String, u64>, what: &str) -> u64 {
    counts.get(what).copied().unwrap_or_default()
}

/// Whether a write sets a machine Running.
fn says_that_it_runs(write: &Write) -> bool {
    write.object.contains("machines/") && write.what.contains(r#""phase":"Running""#)
}

/// The world of a seed without preservation requests and with a maximum of zero.
fn without_requests(seed: u64) -> Plan {
    let plan = generate::plan(suite::find(PRESERVATION).unwrap(), seed, None);
    let mut plan = serde_json::to_value(plan).unwrap();
    let steps = plan["scenario"]["steps"].as_array_mut().unwrap();
    steps.retain(|step| !is_about_preservation(step) && step.get("expect").is_none());
    steps.iter_mut().for_each(strip);
    let mut plan: Plan = serde_json::from_value(plan).unwrap();
    shorten(&mut plan.scenario);
    plan
}

/// Whether a step requests or cancels a preservation, or edits its expiry.
fn is_about_preservation(step: &Value) -> bool {
    let user_action = step["deferred"]["do"].to_string();
    user_action.contains("preserve") || user_action.contains("expire")
}

/// Removes all fields and annotations of preservation.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|field, _| !field.to_lowercase().contains("preserve"));
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn shorten(scenario: &mut Scenario) {
    let mut left = STORY;
    let mut steps = Vec::new();
    for step in std::mem::take(&mut scenario.steps) {
        let Step::Wait(time) = &step else {
            steps.push(step);
            continue;
        };
        let time = time.0.value(&Timeouts::production()).min(WAIT);
        let Some(rest) = left.checked_sub(time) else {
            break;
        };
        left = rest;
        steps.push(wait(time));
    }
    steps.push(wait(REST));
    scenario.steps = steps;
}

#[test]
fn unpreserved_worlds_are_handled_as_without_preservation() {
    let (mut failed, mut rolled_out) = (0, 0);
    for seed in (1..=WORLDS).map(|number| SMALLEST * number) {
        let [off, on] = pair(&without_requests(seed), None);
        for run in [&off, &on] {
            assert!(run.passed(), "seed {seed}: {:?}", run.failure);
            assert_eq!(run.occurred.preservations, BTreeMap::new(), "seed {seed}");
            assert!(
                run.writes.iter().any(says_that_it_runs),
                "seed {seed}: the run records no request bodies"
            );
        }
        assert_eq!(difference(&off.writes, &on.writes, str::to_owned), None, "seed {seed}");
        failed += occurred(&on.occurred.transitions, "Unknown -> Failed");
        rolled_out += occurred(&on.occurred.reasons, "NewSet").saturating_sub(1);
    }
    // Otherwise the worlds are too quiet to be meaningful.
    assert!(failed > 0 && rolled_out > 0, "{failed} failed, {rolled_out} rolled out");
}

#[test]
fn a_write_to_unpreserved_machines_is_detected() {
    let [off, on] = pair(&without_requests(SMALLEST), Some("R78"));
    let found = difference(&off.writes, &on.writes, str::to_owned).unwrap();
    assert!(found.contains("machines/"), "{found}");
}

fn class(name: &str) -> Step {
    let mut class = fixtures::class(NAMESPACE);
    class["metadata"]["name"] = json!(name);
    apply(class)
}

fn deployment(name: &str, replicas: u32, maximum: u32) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineDeployment",
        "metadata": { "name": name },
        "spec": {
            "autoPreserveFailedMax": maximum,
            "replicas": replicas,
            "selector": { "matchLabels": { "name": name } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "template": {
                "metadata": { "labels": { "name": name } },
                "spec": { "class": { "kind": "MachineClass", "name": fixtures::CLASS } },
            },
        },
    }))
}

/// An action on one of a deployment's machines, which has this name from then on.
fn deferred(called: &str, of: &str, user_action: UserAction) -> Step {
    Step::Deferred(DeferredTarget {
        called: called.to_owned(),
        among: format!("{of}-*"),
        nth: 0,
        user_action,
        may_miss: false,
    })
}

/// A running machine is preserved by request all the time, while machines of another deployment fail, recover,
/// are rolled and scaled.
fn one_is_kept() -> Scenario {
    let now = Request {
        node: true,
        value: Some("now".to_owned()),
        ..Request::default()
    };
    let change = |spec: Value| patch_spec("MachineDeployment", "md-b", spec);
    let to_class_b = json!({ "template": { "spec": { "class": { "name": "class-b" } } } });
    Scenario::new("one_is_kept", "One machine is preserved, and others are not.")
        .steps([class("class-b"), deployment("md-a", 1, 1), deployment("md-b", 3, 0)])
        .step(wait(seconds(300)))
        .step(deferred("kept", "md-a", UserAction::Preserve(now)))
        .step(wait(seconds(60)))
        .step(deferred("lost", "md-b", UserAction::Kubelet(KubeletAction::Stop)))
        .step(wait(seconds(900)))
        .step(deferred("away", "md-b", UserAction::Kubelet(KubeletAction::FillDisk)))
        .step(wait(seconds(240)))
        .step(deferred("away", "md-b", UserAction::Kubelet(KubeletAction::FreeDisk)))
        .step(wait(seconds(120)))
        .step(change(json!({ "replicas": 4 })))
        .step(wait(seconds(300)))
        .step(change(to_class_b))
        .step(wait(seconds(60)))
        .step(deferred("struck", "md-b", UserAction::Vm(VmAction::Kill)))
        .step(wait(seconds(1200)))
        .step(change(json!({ "replicas": 2 })))
        .step(wait(seconds(300)))
}

/// The writes about the other deployment and its machines, and cluster-wide ones.
fn of_others(run: &RunResult) -> Vec<Write> {
    let about_kept = |write: &&Write| write.object.contains("md-a");
    run.writes.iter().filter(|write| !about_kept(write)).cloned().collect()
}

/// An Event about the preserved machine consumes a uid, so that all later ones differ; bootstrap token ids
/// derive from them, and so do digests.
fn without_uids(text: &str) -> String {
    let ends = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-';
    let hexadecimal = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let mut masked = String::new();
    for piece in text.split_inclusive(ends) {
        let word = piece.trim_end_matches(ends);
        masked += match word.len() {
            36 | 16 if hexadecimal(word) => "DRAWN",
            _ if word.starts_with("bootstrap-token-") => "bootstrap-token",
            _ => word,
        };
        masked += &piece[word.len()..];
    }
    masked
}

#[test]
fn while_one_machine_is_preserved_others_are_handled_as_without_preservation() {
    let plan = Plan::new(one_is_kept(), 7);
    let [off, on] = pair(&plan, None);
    for run in [&off, &on] {
        assert!(run.passed(), "{:?}", run.failure);
        for what in ["Unknown -> Failed", "Unknown -> Running", "Running -> Terminating"] {
            assert!(occurred(&run.occurred.transitions, what) > 0, "{what}");
        }
    }
    let kept = BTreeMap::from([("kept by node".to_owned(), 1)]);
    assert_eq!(
        (&off.occurred.preservations, &on.occurred.preservations),
        (&BTreeMap::new(), &kept)
    );
    assert!(off.writes != on.writes, "the machine is not preserved");
    assert_eq!(difference(&of_others(&off), &of_others(&on), without_uids), None);
}
