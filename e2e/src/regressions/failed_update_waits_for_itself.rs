//! A12 `failed-update-waits-for-itself`: a machine whose in-place update had failed counted itself among the
//! machines being replaced, and was never replaced.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{all, health_timeout, keep, kubelet, machine_gone, phase, slack};
use scenario::step::{KubeletAction, Step};
use serde_json::json;

use super::{POOL, joining, merge, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A12",
        name: "failed-update-waits-for-itself",
        origin: "spec machine.md 12, no. 10",
        group: Group::Timeouts,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "A12",
            scenario: fails(),
            mutant: true,
            breaks: &["I13", EXPECTED],
        }],
        open: "",
    }
}

fn fails() -> Scenario {
    let label = |key: &str, value: &str| -> Step {
        merge("Node", "md-a-1", json!({ "metadata": { "labels": { key: value } } }))
    };
    story(
        "a12-failed-update",
        "An in-place update fails, and then the node dies: the machine fails in time, and is replaced.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .eventually(joining(), well("md-a-1"))
    .step(label(keys::CANDIDATE_FOR_UPDATE_LABEL, "true"))
    .step(label(keys::SELECTED_FOR_UPDATE_LABEL, "true"))
    .eventually(2 * slack(), phase("md-a-1", Phase::InPlaceUpdating))
    .step(label(keys::UPDATE_RESULT_LABEL, "failed"))
    .eventually(slack(), phase("md-a-1", Phase::InPlaceUpdateFailed))
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(health_timeout() + slack(), machine_gone("md-a-1"))
    .eventually(joining(), all([well("md-a-2")]))
}
