//! What the owner of an unhealthy machine does: preservation, rollouts, the permit, and the rights of the check.

use mcm_api::{Code, Phase, keys};
use scenario::builder::{
    all, annotate, any, boot_delay, delete, delete_machine, fail_calls, fault_hits, health_timeout, kubelet, lift,
    long_retry, machine_gone, mcm, not, patch_spec, phase, refused_to, seconds, slack, wait,
};
use scenario::step::{CloudCall, KubeletAction, ProcessAction};
use scenario::{HealthChecks, Scenario, StageKind};
use serde_json::json;
use stage::NAMESPACE;
use stage::deploy::HEALTH_CHECK_ACCOUNT;

use super::joining;
use crate::regressions::POOL;
use crate::regressions::external_remediation::full_disk;
use crate::regressions::health_check_steps::{
    CHECK, acting, check, checked, checked_pool, failed, healthy, machine_reason, recovered, requested,
};
use crate::regressions::worlds::{Pool, class, merge, pool, settled, status, to_class};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        one_at_a_time(),
        several_at_a_time(),
        preserved(),
        preserved_automatically(),
        own_role(),
        old_revision(),
        paused_rollout(),
        while_mcm_is_down(),
        withdrawn(),
        check_deleted(),
    ]
}

/// Two requests of one deployment: the permit lets one machine at a time become Failed.
fn one_at_a_time() -> Scenario {
    let story = Scenario::new(
        "health_check_one_at_a_time",
        "A check marks two machines of a deployment: they are replaced one after the other.",
    );
    checked(story, 4, full_disk(json!({ "maxUnhealthy": "50%" })))
        .throughout(not(all([
            phase("md-a-1", Phase::Terminating),
            phase("md-a-2", Phase::Terminating),
        ])))
        .step(annotate(
            "Machine",
            "md-a-1",
            keys::REMEDIATE_MACHINE_ANNOTATION,
            "true",
        ))
        .step(annotate(
            "Machine",
            "md-a-2",
            keys::REMEDIATE_MACHINE_ANNOTATION,
            "true",
        ))
        .eventually(
            2 * slack(),
            any(["md-a-1", "md-a-2"]
                .map(|machine| machine_reason(machine, keys::OWNER_REMEDIATED, "False", "RemediationDeferred"))),
        )
        .eventually(4 * joining(), all([machine_gone("md-a-1"), machine_gone("md-a-2")]))
        .eventually(joining() + slack(), recovered(4))
}

/// D5.
fn several_at_a_time() -> Scenario {
    let story = Scenario::new(
        "health_check_two_at_a_time",
        "A deployment permits two replacements at the same time: two marked machines are deleted together.",
    );
    let pools = [pool(4)];
    settled(story.health_checks(), &pools)
        .step(patch_spec(
            "MachineDeployment",
            POOL,
            json!({ "remediation": { "maxInFlight": "50%" } }),
        ))
        .step(check(json!({ "maxUnhealthy": "50%" })))
        .eventually(slack(), healthy(4, 4))
        .steps(["md-a-1", "md-a-2"].map(|machine| kubelet(machine, KubeletAction::Stop)))
        .eventually(
            acting(),
            all(["md-a-1", "md-a-2"].map(|machine| {
                any([
                    phase(machine, Phase::Failed),
                    phase(machine, Phase::Terminating),
                    machine_gone(machine),
                ])
            })),
        )
        .eventually(2 * joining(), all([machine_gone("md-a-1"), machine_gone("md-a-2")]))
        .eventually(joining() + slack(), recovered(4))
}

/// M11: a preserved machine counts, is marked, and is not deleted before its expiry.
fn preserved() -> Scenario {
    let story = Scenario::new(
        "health_check_preserved",
        "A machine that is to be preserved when it fails is marked by a check: it is kept until its expiry, and then replaced.",
    );
    marked_and_preserved(story, "2m0s")
        .eventually(seconds(120) + joining() + slack(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), recovered(2))
}

/// A check marks one of two machines, which is preserved for this time.
fn marked_and_preserved(story: Scenario, kept_for: &'static str) -> Scenario {
    let kept = Pool {
        kept_for: Some(kept_for),
        ..pool(2)
    };
    checked_pool(story, &kept, json!({}))
        .step(annotate("Machine", "md-a-1", keys::PRESERVE_ANNOTATION, "when-failed"))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(acting() + slack(), phase("md-a-1", Phase::FailedPreserved))
        .eventually(
            2 * slack(),
            all([
                failed("md-a-1"),
                machine_reason("md-a-1", keys::OWNER_REMEDIATED, "False", "RemediationDeferred"),
                healthy(2, 1),
            ]),
        )
}

/// M11: a machine that is preserved automatically takes its place.
fn preserved_automatically() -> Scenario {
    let story = Scenario::new(
        "health_check_preserved_automatically",
        "A deployment preserves one failed machine: the first that a check marks is kept, the second is replaced.",
    );
    let kept = Pool {
        kept_for: Some("24h0m0s"),
        maximum: 1,
        ..pool(3)
    };
    checked_pool(story, &kept, json!({}))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(acting() + slack(), phase("md-a-1", Phase::FailedPreserved))
        .step(kubelet("md-a-2", KubeletAction::Stop))
        .eventually(acting() + joining(), machine_gone("md-a-2"))
        .eventually(joining() + slack(), healthy(3, 2))
        .always(slack(), phase("md-a-1", Phase::FailedPreserved))
}

/// M13.
fn own_role() -> Scenario {
    let story = Scenario::new(
        "health_check_own_role",
        "Health checks run in a separate process: the API server refuses it to delete a machine, and an unhealthy one is replaced.",
    )
    .with_health_checks(HealthChecks::Separate);
    // Only the check finds the machine unhealthy.
    let patient = Pool {
        patient: true,
        ..pool(2)
    };
    settled(story, &[patient])
        .step(check(full_disk(json!({}))))
        .eventually(2 * slack(), healthy(2, 2))
        .step(refused_to(&health_check_account(), delete_machine("md-a-1")))
        .step(kubelet("md-a-1", KubeletAction::FillDisk))
        .eventually(acting(), any([requested("md-a-1"), machine_gone("md-a-1")]))
        .step(refused_to(&health_check_account(), delete_machine("md-a-2")))
        .eventually(acting() + joining(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), recovered(2))
}

/// The account of the separate process.
fn health_check_account() -> String {
    format!("system:serviceaccount:{NAMESPACE}:{HEALTH_CHECK_ACCOUNT}")
}

/// M14.
fn old_revision() -> Scenario {
    let story = Scenario::new(
        "health_check_old_revision",
        "A machine of the old revision is marked during a rollout: it is left to the rollout, which replaces it.",
    )
    .step(class("class-b", "z1"));
    settled(story.health_checks(), &[pool(2)])
        .step(check(full_disk(json!({}))))
        .eventually(slack(), healthy(2, 2))
        .step(fail_calls(
            "full",
            CloudCall::CreateMachine,
            "md-a-*-*",
            Code::ResourceExhausted,
        ))
        .step(to_class("class-b"))
        .eventually(slack(), fault_hits("full", 1))
        .step(annotate(
            "Machine",
            "md-a-1",
            keys::REMEDIATE_MACHINE_ANNOTATION,
            "true",
        ))
        .eventually(
            2 * slack(),
            machine_reason("md-a-1", keys::OWNER_REMEDIATED, "False", "CannotBeRemediated"),
        )
        .always(slack(), phase("md-a-1", Phase::Running))
        .step(lift("full"))
        .eventually(
            long_retry() + 4 * joining(),
            all([machine_gone("md-a-1"), machine_gone("md-a-2")]),
        )
        .eventually(
            joining() + slack(),
            all([status(POOL, "updatedReplicas", 2), recovered(2)]),
        )
}

/// D11: a paused rollout does not come to the machine.
fn paused_rollout() -> Scenario {
    let story = Scenario::new(
        "health_check_paused_rollout",
        "A machine of the old revision is marked while the rollout is paused: it is replaced.",
    )
    .step(class("class-b", "z1"));
    settled(story.health_checks(), &[pool(2)])
        .step(check(full_disk(json!({}))))
        .eventually(slack(), healthy(2, 2))
        .step(merge("MachineDeployment", POOL, json!({ "spec": { "paused": true } })))
        .step(to_class("class-b"))
        .step(annotate(
            "Machine",
            "md-a-1",
            keys::REMEDIATE_MACHINE_ANNOTATION,
            "true",
        ))
        .eventually(2 * slack() + boot_delay(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), healthy(2, 2))
}

/// M15: as after a watchdog has scaled mcm down, nothing is marked while it does not run.
fn while_mcm_is_down() -> Scenario {
    let story = Scenario::new(
        "health_check_while_mcm_is_down",
        "mcm does not run while nodes are unhealthy, as in a meltdown: no machine is marked, and healthy ones stay afterwards.",
    );
    checked(story, 3, json!({ "maxUnhealthy": "40%" }))
        .step(mcm(ProcessAction::Kill))
        .steps(["md-a-1", "md-a-2"].map(|machine| kubelet(machine, KubeletAction::Partition)))
        .never(acting() + health_timeout(), any(["md-a-1", "md-a-2"].map(failed)))
        .steps(["md-a-1", "md-a-2"].map(|machine| kubelet(machine, KubeletAction::Reconnect)))
        .step(wait(slack()))
        .step(mcm(ProcessAction::Start))
        .eventually(6 * slack(), recovered(3))
        .always(
            slack(),
            all(["md-a-1", "md-a-2", "md-a-3"].map(|machine| phase(machine, Phase::Running))),
        )
}

/// A deleted check could not report that the machine recovers, which would be replaced at its expiry.
fn check_deleted() -> Scenario {
    let story = Scenario::new(
        "health_check_deleted",
        "A check is deleted while a machine that it marked is preserved: the request ends, and the machine is kept.",
    );
    marked_and_preserved(story, "24h0m0s")
        .step(delete("MachineHealthCheck", CHECK))
        .eventually(slack(), not(any([failed("md-a-1"), requested("md-a-1")])))
        .always(slack(), phase("md-a-1", Phase::FailedPreserved))
}

/// A machine recovers while it waits for its turn: its request is withdrawn.
fn withdrawn() -> Scenario {
    let story = Scenario::new(
        "health_check_withdrawn",
        "A marked machine that waits for its turn recovers: the request is withdrawn, and the machine stays.",
    )
    .only_on([StageKind::Sim], "the other machine must take long to be replaced");
    settled(story.health_checks(), &[pool(4)])
        .step(check(json!({ "maxUnhealthy": "50%" })))
        .eventually(slack(), healthy(4, 4))
        .steps(["md-a-1", "md-a-2"].map(|machine| kubelet(machine, KubeletAction::Partition)))
        .eventually(acting(), all(["md-a-1", "md-a-2"].map(requested)))
        .step(kubelet("md-a-2", KubeletAction::Reconnect))
        .eventually(2 * joining(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), recovered(4))
        .always(
            slack(),
            all([phase("md-a-2", Phase::Running), not(requested("md-a-2"))]),
        )
}
