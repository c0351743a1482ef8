//! R15 `credentials-rotated`: deletions hung with old credentials after the right ones had been given.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{all, keep, long_retry, machine_gone, mcm, seconds, slack, vm_count, wait};
use harness::scenario::fixtures::{API_TOKEN, SECRET};
use harness::scenario::step::{Patch, ProcessAction, Step};
use serde_json::json;

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R15",
        name: "credentials-rotated",
        origin: "CAPO#1116, MCM#542, kubermatic#13670",
        group: Group::Ledger,
        confidence: Confidence::Symptom,
        cases: vec![Case {
            id: "R15",
            scenario: rotated(),
            mutant: true,
            breaks: &[EXPECTED, "I13"],
        }],
        open: "credentials of another, empty project",
    }
}

fn token(token: &str) -> Step {
    Step::Patch(Patch {
        kind: "Secret".to_owned(),
        name: SECRET.to_owned(),
        namespace: None,
        merge: json!({ "stringData": { "apiToken": token } }),
        status: false,
    })
}

/// A process starts with credentials that the cloud does not know, and they are corrected twenty minutes later.
fn rotated() -> Scenario {
    story(
        "r15-credentials-corrected",
        "A machine is deleted while the cloud refuses the credentials: once they are right again its VM goes.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(3))
    .eventually(joining(), all(["md-a-1", "md-a-2", "md-a-3"].map(well)))
    .step(token("expired"))
    .step(mcm(ProcessAction::Restart))
    .step(wait(seconds(30)))
    .step(keep(2))
    .step(wait(seconds(20 * 60)))
    .always(seconds(1), vm_count("md-a-3", 1))
    .step(token(API_TOKEN))
    .eventually(
        long_retry() + slack(),
        all([machine_gone("md-a-3"), vm_count("md-a-3", 0)]),
    )
}
