//! R28 `pdb-forever`: even a forced deletion never ended, because pods were still evicted; or a dead node could
//! not be drained, because its pods never terminate.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::keys;
use scenario::Scenario;
use scenario::builder::{drain_timeout, exists, keep, kubelet, machine_gone, seconds, wait};
use scenario::step::{KubeletAction, Step};
use serde_json::json;

use super::{merge, undrainable};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R28",
        name: "pdb-forever",
        origin: "MCM#415, CAPI#13508",
        group: Group::Drain,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R28",
                scenario: forced(),
                mutant: true,
                breaks: &[EXPECTED, "I13", "I16"],
            },
            Case {
                id: "R28/b",
                scenario: dead(),
                mutant: true,
                breaks: &[EXPECTED, "I13", "I16"],
            },
            Case {
                id: "R28/dies",
                scenario: dies(),
                mutant: false,
                breaks: &[],
            },
            Case {
                id: "R28/waits",
                scenario: waits(),
                mutant: false,
                breaks: &[],
            },
        ],
        open: "",
    }
}

/// A machine whose pod cannot be evicted, with steps before its deletion.
fn blocked(name: &str, about: &str, before: impl IntoIterator<Item = Step>) -> Scenario {
    undrainable(name, about).steps(before)
}

fn forced() -> Scenario {
    let label = json!({ "metadata": { "labels": { keys::FORCE_DELETION_LABEL: "True" } } });
    blocked(
        "r28-forced",
        "A deletion is forced although a disruption budget allows no eviction: it completes immediately.",
        [merge("Machine", "md-a-1", label), keep(0)],
    )
    .eventually(seconds(180), machine_gone("md-a-1"))
}

fn dead() -> Scenario {
    blocked(
        "r28-b-dead-node",
        "A machine is deleted whose node has been dead for five minutes: no disruption budget blocks it.",
        [kubelet("md-a-1", KubeletAction::Stop), wait(seconds(360)), keep(0)],
    )
    .eventually(seconds(480), machine_gone("md-a-1"))
}

fn dies() -> Scenario {
    blocked(
        "r28-dying-node",
        "A machine is deleted whose node has just died: the disruption budget blocks it until the node has been dead \
         for five minutes.",
        [kubelet("md-a-1", KubeletAction::Stop), wait(seconds(90)), keep(0)],
    )
    .always(seconds(180), exists("Machine", "md-a-1"))
    .eventually(seconds(240), machine_gone("md-a-1"))
}

fn waits() -> Scenario {
    blocked(
        "r28-waits",
        "A disruption budget allows no eviction: the deletion waits for the drain timeout, and no longer.",
        [],
    )
    .never(drain_timeout() - seconds(5), machine_gone("md-a-1"))
    .meanwhile()
    .step(keep(0))
    .eventually(drain_timeout() + seconds(300), machine_gone("md-a-1"))
}
