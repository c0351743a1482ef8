//! R80 `auto-preserve-stalls-roll`: a failed machine of a rollout was preserved instead of replaced, so that
//! the rollout did not complete for days.

use harness::regression::{Confidence, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{fail_calls, fault_hits, field, lift, seconds, wait};
use scenario::step::CloudCall;
use serde_json::Value;

use super::worlds::{Pool, case, class, pool, rolled, settled, to_class};
use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R80",
        name: "auto-preserve-stalls-roll",
        origin: "MCM#1137",
        group: Group::Preservation,
        confidence: Confidence::Symptom,
        cases: vec![case("R80", never_joins(), &["I11", "I4"])],
        open: "marks that move with a machine to another set: the list is its deployment's",
    }
}

/// The first machine of the new class cannot be initialized, so that it never joins.
fn never_joins() -> Scenario {
    let story = story(
        "r80-never-joins",
        "The first machine of a rollout never joins, and the maximum is one: it is replaced, and the rollout \
         completes.",
    )
    .require_initialize()
    .step(class("class-b", "z1"));
    let kept_long = Pool {
        maximum: 1,
        kept_for: Some("72h0m0s"),
        ..pool(3)
    };
    settled(story, &[kept_long])
        .step(fail_calls("broken", CloudCall::InitializeMachine, "*", Code::Internal))
        .step(to_class("class-b"))
        .step(wait(seconds(20 * 60 + 30)))
        .step(lift("broken"))
        .eventually(seconds(70 * 60), rolled(3))
        .eventually(seconds(1), fault_hits("broken", 1))
        .eventually(
            seconds(1),
            field("MachineDeployment", POOL, "/status/preservations", Value::Null),
        )
}
