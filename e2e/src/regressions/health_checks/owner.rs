//! What owners do with unhealthy machines.

use harness::regression::{EXPECTED, Entry};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{
    all, annotate, boot_delay, budget, delete_machine, deployment, kubelet, machine_gone, not, patch_spec, phase, pods,
    seconds, slack, wait, workload,
};
use scenario::expect::PodState;
use scenario::step::deferred_target::{DeferredTarget, UserAction};
use scenario::step::{KubeletAction, Step};
use serde_json::json;

use super::super::worlds::{
    Pool, case, class, drains_end, drains_take_long, merge, rolling, settled, status, to_class, updated,
};
use super::super::{POOL, joining, story};
use super::{entry, fill, free, patient};
use crate::regressions::external_remediation::full_disk;
use crate::regressions::health_check_steps::{acting, check, checked_pool, healthy, not_ready, recovered, requested};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "R87",
            "mhc-marks-the-dying",
            "CAPI PR#11465",
            vec![case("R87", dying(), &["I23", EXPECTED])],
        ),
        entry(
            "R88",
            "mhc-unreachable-never-goes",
            "CAPI#10705, CAPI PR#10706",
            vec![case("R88", unreachable(), &[EXPECTED])],
        ),
        entry(
            "R100",
            "mhc-old-set-is-stuck",
            "CAPI#13800",
            vec![
                case("R100", old_set(), &[EXPECTED]),
                case("R100/in-place", updated_in_place(), &[EXPECTED]),
            ],
        ),
        entry(
            "R101",
            "mhc-acts-on-paused",
            "CAPI PR#3444, CAPI#4168",
            vec![case("R101", paused(), &["I23", EXPECTED])],
        ),
        entry(
            "R103",
            "mhc-retry-counts-the-wave",
            "CAPI#12553",
            vec![case("R103", wave(), &[EXPECTED])],
        ),
        entry(
            "R110",
            "mhc-fights-the-rollout",
            "CAPI PR#8464",
            vec![case("R110", rollout(), &[EXPECTED])],
        ),
    ]
}

fn dying() -> Scenario {
    let story = story(
        "r87-dying",
        "The disk of a machine that is being deleted is full: its replacement is not requested.",
    );
    checked_pool(story, &patient(2), full_disk(json!({})))
        .step(drains_take_long())
        .step(delete_machine("md-a-1"))
        .step(fill("md-a-1"))
        .never(seconds(300), requested("md-a-1"))
        .step(drains_end())
        .eventually(4 * joining() + seconds(600), recovered(2))
}

fn unreachable() -> Scenario {
    let story = story(
        "r88-unreachable",
        "The node of a machine has been dead for ten minutes, and budgets allow no eviction: it is replaced without a drain.",
    );
    settled(story.health_checks(), &[patient(2)])
        .step(deployment(workload("web").replicas(8)))
        .step(budget("web", 0))
        .eventually(joining(), pods("web").are(PodState::Ready).exactly(8))
        .step(check(json!({ "unhealthyConditions": not_ready("10m") })))
        .eventually(slack(), healthy(2, 2))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(seconds(600) + acting(), requested("md-a-1"))
        .eventually(seconds(900), machine_gone("md-a-1"))
}

fn old_set() -> Scenario {
    let story = story(
        "r100-old-set",
        "A machine of the old revision is unhealthy while the rollout is paused: it is replaced.",
    )
    .step(class("class-b", "z1"));
    settled(story.health_checks(), &[patient(2)])
        .step(check(full_disk(json!({}))))
        .eventually(slack(), healthy(2, 2))
        .step(merge("MachineDeployment", POOL, json!({ "spec": { "paused": true } })))
        .step(to_class("class-b"))
        .step(fill("md-a-1"))
        .eventually(acting() + 2 * slack(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), healthy(2, 2))
}

/// Only Running machines are updated in place: nothing else replaces the unhealthy one.
fn updated_in_place() -> Scenario {
    let story = story(
        "r100-in-place",
        "A machine of the old revision is unhealthy while another one is updated in place: it is replaced afterwards.",
    )
    .step(class("class-b", "z1"));
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto" },
    });
    let succeeded = json!({ "metadata": { "labels": { keys::UPDATE_RESULT_LABEL: keys::UPDATE_SUCCESSFUL } } });
    settled(story.health_checks(), &[Pool { strategy, ..patient(2) }])
        .step(check(full_disk(json!({}))))
        .eventually(slack(), healthy(2, 2))
        .step(to_class("class-b"))
        .eventually(2 * slack(), phase("md-a-1", Phase::InPlaceUpdating))
        .step(fill("md-a-2"))
        .eventually(acting(), requested("md-a-2"))
        .step(merge("Node", "md-a-1", succeeded))
        .eventually(2 * slack() + boot_delay(), machine_gone("md-a-2"))
        .eventually(joining() + slack(), all([updated(2), healthy(2, 2)]))
}

fn paused() -> Scenario {
    let story = story(
        "r101-paused",
        "A machine with the annotation that pauses it is unhealthy: it is not replaced.",
    );
    checked_pool(story, &patient(2), full_disk(json!({})))
        .step(annotate("Machine", "md-a-1", keys::PAUSED_ANNOTATION, "true"))
        .step(fill("md-a-1"))
        .never(seconds(600), requested("md-a-1"))
        .step(free("md-a-1"))
        .eventually(2 * slack(), phase("md-a-1", Phase::Running))
}

fn wave() -> Scenario {
    let story = story(
        "r103-wave",
        "Four of eight machines are unhealthy, and two may be replaced at the same time: they are replaced, two by two.",
    );
    let machines = ["md-a-1", "md-a-2", "md-a-3", "md-a-4"];
    settled(story.health_checks(), &[patient(8)])
        .step(patch_spec(
            "MachineDeployment",
            POOL,
            json!({ "remediation": { "maxInFlight": 2 } }),
        ))
        .step(check(full_disk(json!({ "maxUnhealthy": "50%" }))))
        .eventually(slack(), healthy(8, 8))
        .steps(machines.map(fill))
        .eventually(6 * joining(), all(machines.map(machine_gone)))
        .eventually(joining() + slack(), recovered(8))
}

/// The new machine is unhealthy, and the rollout waits until it is available.
fn rollout() -> Scenario {
    let story = story(
        "r110-rollout",
        "The first new machine of a rollout becomes unhealthy: it is replaced, and the rollout goes on.",
    )
    .step(class("class-b", "z1"));
    let slow = Pool {
        strategy: rolling(1, 0),
        ..patient(2)
    };
    let new = |user_action: UserAction| -> Step {
        DeferredTarget {
            called: "new".to_owned(),
            among: "md-a-*-*".to_owned(),
            nth: 0,
            user_action,
            may_miss: false,
        }
        .into()
    };
    settled(story.health_checks(), &[slow])
        .step(check(full_disk(json!({}))))
        .eventually(slack(), healthy(2, 2))
        .step(drains_take_long())
        .step(to_class("class-b"))
        .step(wait(boot_delay() + seconds(30)))
        .step(new(UserAction::Kubelet(KubeletAction::FillDisk)))
        .step(drains_end())
        .eventually(12 * joining(), all([status(POOL, "updatedReplicas", 2), recovered(2)]))
        .eventually(slack(), not(phase("md-a-1", Phase::Running)))
}
