//! One seed, one trace; another seed, another trace; and what would break that is noticed.

use std::collections::{BTreeMap, BTreeSet};

use harness::runner::{Job, RunResult};
use harness::{Scenario, StageKind};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::drydock::simulate;

fn lifecycle() -> Scenario {
    e2e::scenarios()
        .into_iter()
        .find(|scenario| scenario.name == "lifecycle")
        .unwrap()
}

/// One job in a process of its own.
fn perform(job: &Job) -> RunResult {
    let mut child = Command::new(env!("CARGO_BIN_EXE_drydock"))
        .arg("perform")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&serde_json::to_vec(job).unwrap())
        .unwrap();
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn twenty_seeds_give_twenty_traces_and_each_gives_its_own_again() {
    let folder = tempfile::tempdir().unwrap();
    let hashes = || -> Vec<String> {
        let (_, runs) = simulate(folder.path(), &["lifecycle", "--seeds", "20"]);
        runs.iter()
            .map(|run| run["trace"]["hash"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = hashes();
    assert_eq!(first, hashes());
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 20);
}

#[test]
fn an_iteration_in_hash_order_is_noticed() {
    let job = Job {
        hash_order: true,
        ..Job::new(lifecycle(), StageKind::Sim, 7)
    };
    let (first, second) = (perform(&job), perform(&job));
    let entries = |result: &RunResult| result.trace.as_ref().unwrap().entries;
    assert_eq!(entries(&first), entries(&second));
    assert_ne!(first.trace, second.trace);
}

/// What happened in a run and how it ended, without the Leases and how often anything was written.
fn story(result: RunResult) -> (Vec<String>, f64, BTreeMap<String, Value>, u64) {
    assert!(result.failure.is_none(), "{:?}", result.failure);
    let mut end = BTreeMap::new();
    for (key, object) in result.end.into_iter().filter(|(key, _)| !key.starts_with("Lease ")) {
        let mut object = serde_json::from_str(&object).unwrap_or(Value::String(object));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
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

/// A kubelet in good health does not renew its Lease in virtual time unless somebody would miss it.
#[test]
fn a_run_goes_the_same_way_whether_every_lease_is_renewed_or_not() {
    let names = ["kubelet_pause", "vm_dies", "unreachable_node", "preserve_recovers"];
    let mut saved = 0;
    for scenario in e2e::scenarios() {
        if !names.contains(&scenario.name.as_str()) {
            continue;
        }
        let name = scenario.name.clone();
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
        assert_eq!(narrative, unheard, "{name}");
        assert_eq!((seconds, end), (unheard_seconds, unheard_end), "{name}");
        saved += entries - fewer;
    }
    assert!(saved > 100, "only {saved} entries of the traces are saved");
}
