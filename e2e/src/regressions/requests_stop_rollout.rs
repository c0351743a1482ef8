//! A30 `requests-stop-rollout`: a rollout did not remove a machine of the old revision that could not be created, because a
//! new machine was requested; and that request waited for the old machine: at most one machine is replaced at a time.

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{delete_machine, fail_calls, fault_hits, machine_gone, slack};
use scenario::step::CloudCall;
use serde_json::json;

use super::external_remediation::full_disk;
use super::health_check_steps::{check, healthy, remediate_new};
use super::worlds::{Pool, case, class, pool, rolled, rolling, settled, to_class, updated};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A30",
        name: "requests-stop-rollout",
        origin: "found in a review",
        group: Group::HealthChecks,
        confidence: Confidence::Cause,
        cases: vec![case("A30", old_machine_is_not_created(), &[EXPECTED])],
        open: "",
    }
}

fn old_machine_is_not_created() -> Scenario {
    let story = story(
        "a30-old-machine-is-not-created",
        "In a rollout a health check requests the replacement of a new machine, and an old one cannot be created: the \
         rollout ends.",
    )
    .step(class("class-b", "z1"));
    let usual = Pool {
        strategy: rolling(0, 1),
        ..pool(3)
    };
    let replacements = format!("{}-*", usual.set());
    settled(story.health_checks(), &[usual])
        .step(check(full_disk(json!({}))))
        .eventually(slack(), healthy(3, 3))
        .step(fail_calls(
            "gone",
            CloudCall::CreateMachine,
            &replacements,
            Code::ResourceExhausted,
        ))
        .step(to_class("class-b"))
        .eventually(4 * slack(), machine_gone("md-a-1"))
        .eventually(slack(), updated(1))
        .step(remediate_new())
        .step(delete_machine("md-a-2"))
        .eventually(4 * slack(), fault_hits("gone", 1))
        .eventually(12 * joining(), rolled(3))
        .eventually(2 * slack(), healthy(3, 3))
}
