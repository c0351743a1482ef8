//! One seed, one trace; another seed, another trace; and what would break that is noticed.

use std::collections::BTreeSet;

use harness::runner::{Job, RunResult};
use harness::{Scenario, StageKind};
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
