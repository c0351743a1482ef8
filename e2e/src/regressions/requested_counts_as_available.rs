//! A29 `requested-counts-as-available`: a rollout counted a machine as available although a health check had requested its
//! replacement, and deleted another one of the old revision at the same time: one too few was left.

use harness::regression::{Confidence, Entry, Group};
use scenario::builder::{all, mcm, slack, wait};
use scenario::step::ProcessAction;
use scenario::{HealthChecks, Scenario};
use serde_json::json;

use super::external_remediation::full_disk;
use super::health_check_steps::{acting, check, check_status, healthy, remediate_new};
use super::worlds::{Pool, case, class, merge, pool, rolled, rolling, settled, status, to_class, updated};
use super::{POOL, joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A29",
        name: "requested-counts-as-available",
        origin: "found by drydock chaos health-check",
        group: Group::HealthChecks,
        confidence: Confidence::Cause,
        cases: vec![case("A29", requested_in_a_rollout(), &["I7"])],
        open: "",
    }
}

/// mcm is down while the check requests the replacement, so that both decisions are due when it starts.
fn requested_in_a_rollout() -> Scenario {
    let story = story(
        "a29-requested-in-a-rollout",
        "A health check requests the replacement of a new machine in a rollout: no old machine is deleted beside it.",
    )
    .with_health_checks(HealthChecks::Separate)
    .step(class("class-b", "z1"));
    let pool = Pool {
        strategy: rolling(0, 1),
        patient: true,
        ..pool(4)
    };
    let paused = |paused: bool| merge("MachineDeployment", POOL, json!({ "spec": { "paused": paused } }));
    settled(story, &[pool])
        .step(check(full_disk(json!({}))))
        .eventually(2 * slack(), healthy(4, 4))
        .step(to_class("class-b"))
        .eventually(2 * joining(), updated(1))
        .step(paused(true))
        .eventually(
            2 * joining(),
            all([status(POOL, "availableReplicas", 4), healthy(4, 4)]),
        )
        .step(mcm(ProcessAction::Kill))
        .step(remediate_new())
        .eventually(acting(), check_status("currentHealthy", 3))
        .step(wait(2 * slack()))
        .step(paused(false))
        .step(mcm(ProcessAction::Start))
        .eventually(12 * joining(), all([rolled(4), healthy(4, 4)]))
}
