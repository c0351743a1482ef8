//! One seed gives one trace, another seed another trace; violations of determinism are detected.

use std::collections::{BTreeMap, BTreeSet};

use mcm_api::Phase;
use rstest::rstest;
use scenario::builder::{create_machine, creation_timeout, mcm, phase, seconds, wait};
use scenario::job::Job;
use scenario::result::RunResult;
use scenario::step::{Pause, Process, ProcessAction};
use scenario::{Scenario, StageKind, Step};
use serde_json::Value;

use crate::drydock::{perform, simulate};

fn lifecycle() -> Scenario {
    e2e::scenarios()
        .into_iter()
        .find(|scenario| scenario.name == "lifecycle")
        .unwrap()
}

#[rstest]
#[case::a_few(5)]
#[ignore = "long: twenty seeds"]
#[case::many(20)]
fn seeds_give_different_traces_and_each_gives_its_own_again(#[case] seeds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let hashes = || -> Vec<String> {
        let (_, runs) = simulate(folder.path(), &["lifecycle", "--seeds", &seeds.to_string()]);
        runs.iter()
            .map(|run| run["trace"]["hash"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = hashes();
    assert_eq!(first, hashes());
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), seeds);
}

#[test]
fn an_iteration_in_hash_order_is_detected() {
    let job = Job {
        hash_order: true,
        ..Job::new(lifecycle(), StageKind::Sim, 7)
    };
    let (first, second) = (perform(&job), perform(&job));
    let entries = |result: &RunResult| result.trace.as_ref().unwrap().entries;
    assert_eq!(entries(&first), entries(&second));
    assert_ne!(first.trace, second.trace);
}

/// The events and the result of a run, without Leases, the times of the last kubelet heartbeats, and the number
/// of writes.
fn story(result: RunResult) -> (Vec<String>, f64, BTreeMap<String, Value>, u64) {
    assert!(result.failure.is_none(), "{:?}", result.failure);
    let mut end = BTreeMap::new();
    for (key, object) in result.end.into_iter().filter(|(key, _)| !key.starts_with("Lease ")) {
        let mut object = serde_json::from_str(&object).unwrap_or(Value::String(object));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
            condition.remove("lastHeartbeatTime");
        }
        end.insert(key, object);
    }
    (
        result.narrative,
        result.stage_seconds,
        end,
        result.trace.unwrap().entries,
    )
}

/// mcm is unavailable in every possible way, at odd times, while it is needed: how soon it works again depends
/// on when it last renewed its Lease.
fn mcm_is_away() -> Scenario {
    let stand_still = |time| {
        Step::Pause(Pause {
            process: Process::Mcm,
            time: seconds(time),
        })
    };
    let away = [
        ("m-killed", mcm(ProcessAction::Restart)),
        ("m-stopped", mcm(ProcessAction::Kill)),
        ("m-shortly-paused", stand_still(8)),
        ("m-paused", stand_still(10)),
        ("m-long-paused", stand_still(100)),
    ];
    let mut scenario = Scenario::new("mcm_is_away", "mcm is unavailable, and works again.");
    for (name, step) in away {
        scenario = scenario.step(wait(seconds(601))).step(step).step(create_machine(name));
        if name == "m-stopped" {
            scenario = scenario.step(wait(seconds(301))).step(mcm(ProcessAction::Start));
        }
        scenario = scenario.eventually(creation_timeout(), phase(name, Phase::Running));
    }
    scenario
}

/// In virtual time healthy kubelets and a leading mcm do not renew their Leases, kubelets do not repeat their
/// Node status, watches do not restart, and mcm does not check whether API servers respond, unless something
/// depends on it.
#[rstest]
#[case::a_kubelet_pauses(named("kubelet_pause"))]
#[case::a_vm_dies(named("vm_dies"))]
#[case::a_node_is_unreachable(named("unreachable_node"))]
#[case::mcm_is_away(mcm_is_away())]
fn a_run_is_the_same_with_and_without_pulses(#[case] scenario: Scenario) {
    assert_same_run(scenario);
}

#[test]
#[ignore = "long: two hours and three days with every renewal"]
fn a_long_run_is_the_same_with_and_without_pulses() {
    assert_same_run(named("drain_timeout"));
    assert_same_run(named("preserve_recovers"));
}

fn named(name: &str) -> Scenario {
    let mut scenarios = e2e::scenarios().into_iter();
    scenarios.find(|scenario| scenario.name == name).unwrap()
}

fn assert_same_run(scenario: Scenario) {
    let job = Job {
        narrate: true,
        ..Job::new(scenario, StageKind::Sim, 7)
    };
    let every_renewal = Job {
        every_renewal: true,
        ..job.clone()
    };
    let (narrative, seconds, end, entries) = story(perform(&every_renewal));
    let (unheard, unheard_seconds, unheard_end, fewer) = story(perform(&job));
    for (line, unheard) in narrative.iter().zip(&unheard) {
        assert_eq!(line, unheard);
    }
    assert_eq!(narrative.len(), unheard.len());
    assert_eq!(seconds, unheard_seconds);
    assert!(
        end.keys().eq(unheard_end.keys()),
        "{:?} {:?}",
        end.keys(),
        unheard_end.keys()
    );
    for (key, object) in end {
        assert_eq!(object, unheard_end[&key], "{key}");
    }
    assert!(fewer < entries, "{fewer} of {entries} entries of the trace");
}
