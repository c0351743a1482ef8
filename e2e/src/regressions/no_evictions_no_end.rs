//! A02 `no-evictions-no-end`: a drain with zero eviction attempts never ended if pods had volumes; and a drain
//! at its timeout did not delete such pods.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use scenario::Scenario;
use scenario::builder::{
    all, attached_to, budget, event_count, keep, machine_gone, not, pods, seconds, slack, stateful_set, storage_class,
    workload,
};
use scenario::expect::PodState;
use serde_json::{Value, json};

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A02",
        name: "no-evictions-no-end",
        origin: "spec machine.md 12, no. 18",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "A02",
                scenario: no_evictions(),
                mutant: true,
                breaks: &["I13", "I16", EXPECTED],
            },
            Case {
                id: "A02/b",
                scenario: drain_timed_out(),
                mutant: true,
                breaks: &["I6", "I16", EXPECTED],
            },
        ],
        open: "",
    }
}

/// A pod with a volume on the first of two machines.
pub(super) fn with_volume(name: &str, about: &str, spec: Value) -> Scenario {
    story(name, about)
        .keeper(POOL, 0, spec)
        .step(storage_class())
        .step(keep(1))
        .step(stateful_set(workload("db").volume("1Gi")))
        .eventually(joining() + 2 * slack(), attached_to("data-db-0", "md-a-1"))
        .eventually(slack(), pods("db").on("md-a-1").are(PodState::Ready).exactly(1))
        .step(keep(2))
        .eventually(joining(), well("md-a-2"))
}

fn no_evictions() -> Scenario {
    with_volume(
        "a02-no-evictions",
        "A machine permits no evictions, and a pod on it has a volume: the pod is deleted, and the drain ends.",
        json!({ "maxEvictRetries": 0 }),
    )
    .step(super::delete("Machine", "md-a-1"))
    .eventually(seconds(600), pods("db").on("md-a-2").are(PodState::Ready).exactly(1))
    .meanwhile()
    .eventually(seconds(600), machine_gone("md-a-1"))
}

fn drain_timed_out() -> Scenario {
    with_volume(
        "a02-b-time-is-up",
        "A disruption budget protects a pod with a volume until the drain timeout: then its deletion is requested, \
         before its VM is deleted.",
        json!({ "drainTimeout": "30m0s" }),
    )
    .throughout(not(all([
        event_count("Machine", "md-a-1", "VMDeleted", 1),
        not(pods("db").on("md-a-1").are(PodState::Ready).exactly(0)),
    ])))
    .step(budget("db", 0))
    .step(super::delete("Machine", "md-a-1"))
    .always(
        seconds(29 * 60),
        pods("db").on("md-a-1").are(PodState::Ready).exactly(1),
    )
    .eventually(seconds(240), pods("db").on("md-a-2").are(PodState::Ready).exactly(1))
    .meanwhile()
    .eventually(seconds(600), machine_gone("md-a-1"))
}
