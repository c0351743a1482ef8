//! Preservation in deployments: the maximum across sets, rollouts, zones, and cluster-autoscaler.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{
    all, any, event_count, fail_zone, field, health_timeout, kubelet, machine_gone, node_grace, not, observed, phase,
    restore_zone, scale_down_empty, seconds, slack, status_condition, vm_count,
};
use scenario::step::deferred_target::{DeferredTarget, UserAction};
use scenario::step::{KubeletAction, ZoneFailure};
use scenario::{DurationExpression, Step};
use serde_json::{Value, json};

use super::preservation_steps::{annotation, failing, forgotten, kept, preserve};
use super::preservation_steps::{long, preserved};
use super::{joining, nothing_left};
use crate::regressions::POOL;
use crate::regressions::worlds::{
    Pool, TIMES, at_size, autoscaler, class, merge, over_zones, pool, rolled, scale, settled, spec, status, to_class,
    updated,
};

/// All scenarios about deployments.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        over_two_sets(),
        not_during_a_rollout(),
        zones(),
        zone_outage(),
        autoscaler_cannot_remove_it(),
        autoscaler_selects_preserved(),
        scaled_down_in_order(),
        raised_while_full(),
        in_place(),
    ]
}

/// A machine fails and is replaced.
fn replacing() -> DurationExpression {
    failing() + 2 * joining()
}

fn over_two_sets() -> Scenario {
    let usual = long(Pool { maximum: 1, ..pool(3) });
    let newest = Pool {
        class: "class-b",
        ..usual.clone()
    };
    let act_on = |user_action: UserAction| {
        Step::Deferred(DeferredTarget {
            called: "the new one".to_owned(),
            among: format!("{}-*", newest.set()),
            nth: 0,
            user_action,
            may_miss: false,
        })
    };
    let story = Scenario::new(
        "preserve_over_two_sets",
        "The maximum is one and a machine of the old set is preserved: during a paused rollout a machine of the new \
         set fails, and is replaced.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[usual])
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(failing() + slack(), all([kept("md-a-1"), preserved(1)]))
        .step(to_class("class-b"))
        .eventually(joining(), updated(1))
        .step(spec(json!({ "paused": true })))
        .eventually(joining(), status(POOL, "readyReplicas", 3))
        .step(act_on(UserAction::Kubelet(KubeletAction::Stop)))
        .eventually(failing() + slack(), not(status(POOL, "readyReplicas", 3)))
        .eventually(
            replacing(),
            all([status(POOL, "readyReplicas", 3), preserved(1), kept("md-a-1")]),
        )
        .step(spec(json!({ "paused": false })))
        .eventually(
            4 * joining(),
            all([rolled(3), preserved(Value::Null), machine_gone("md-a-1")]),
        )
        .eventually(
            slack(),
            field("MachineDeployment", POOL, "/status/preservations", Value::Null),
        )
}

/// A user has to select the nodes of the rollout and selects none, so that it stalls.
fn not_during_a_rollout() -> Scenario {
    let usual = long(Pool { maximum: 3, ..pool(3) });
    let story = Scenario::new(
        "preserve_not_during_a_rollout",
        "During a rollout a failed machine is replaced, regardless of requests and of the maximum; an event and a condition \
         of the deployment say so.",
    )
    .step(class("class-b", "z1"));
    let suspended = || {
        status_condition(
            "MachineDeployment",
            POOL,
            "PreservationSuspended",
            &[("status", "True")],
        )
    };
    settled(story, &[usual])
        .step(preserve("Node", "md-a-2", "when-failed"))
        .step(spec(json!({
            "strategy": { "type": "InPlaceUpdate", "inPlaceUpdate": { "orchestrationType": "Manual" } },
            "template": { "spec": { "class": { "name": "class-b" } } },
        })))
        .eventually(slack(), all([observed("MachineDeployment", POOL), suspended()]))
        .step(kubelet("md-a-2", KubeletAction::Stop))
        .never(
            replacing(),
            any([phase("md-a-2", Phase::FailedPreserved), preserved(1)]),
        )
        .meanwhile()
        .eventually(
            failing() + slack(),
            all([
                event_count("Machine", "md-a-2", "PreservationRefused", 1),
                machine_gone("md-a-2"),
            ]),
        )
        .step(spec(
            json!({ "strategy": { "type": "RollingUpdate", "inPlaceUpdate": null } }),
        ))
        .eventually(replacing() + 4 * joining(), all([rolled(3), not(suspended())]))
}

fn zones() -> Scenario {
    let zones = over_zones(6, 2);
    let first = |pool: &Pool| format!("{}-1", pool.name);
    let of =
        |pool: &Pool, count: Value| field("MachineDeployment", pool.name, "/status/preservedFailedReplicas", count);
    let story = Scenario::new(
        "preserve_over_three_zones",
        "A pool over three zones may preserve two machines, and one fails in each zone: two are preserved, and the \
         third is replaced.",
    )
    .steps(
        zones
            .iter()
            .zip(["z1", "z2", "z3"])
            .map(|(pool, zone)| class(pool.class, zone)),
    );
    settled(story, &zones)
        .steps(zones.iter().map(|pool| kubelet(&first(pool), KubeletAction::Stop)))
        .eventually(
            replacing(),
            all([
                kept(&first(&zones[0])),
                kept(&first(&zones[1])),
                machine_gone(&first(&zones[2])),
                status(zones[2].name, "readyReplicas", 2),
            ]),
        )
        .always(
            slack(),
            all([
                of(&zones[0], 1.into()),
                of(&zones[1], 1.into()),
                of(&zones[2], Value::Null),
            ]),
        )
}

/// The machines have random names, so it is random which two are preserved.
fn zone_outage() -> Scenario {
    let ten = long(Pool { maximum: 2, ..pool(10) });
    Scenario::new(
        "preserve_in_a_zone_outage",
        "A zone with ten machines is down with a maximum of two: only two are preserved; after the outage they are \
         Running, and there are ten machines.",
    )
    .step(ten.deployment())
    .eventually(joining(), at_size(10))
    .step(fail_zone("z1", ZoneFailure::Compute))
    .never(failing() + 3 * slack(), any((3..=10).map(preserved)))
    .meanwhile()
    .eventually(failing() + slack(), preserved(2))
    .always(2 * slack(), preserved(2))
    .step(restore_zone("z1"))
    .eventually(
        node_grace() + health_timeout() + 4 * joining(),
        all([status(POOL, "readyReplicas", 10), preserved(Value::Null)]),
    )
}

fn autoscaler_cannot_remove_it() -> Scenario {
    let both_stay = || all([phase("md-a-1", Phase::RunningPreserved), kept("md-a-2")]);
    let reported = |times: usize| event_count("MachineDeployment", POOL, "PreservedMachineStays", times);
    let story = Scenario::new(
        "preserve_and_the_autoscaler",
        "cluster-autoscaler selects a preserved machine and a failed preserved one, and lowers the replicas: others \
         are deleted, and events report it.",
    );
    settled(story, &[long(Pool { maximum: 1, ..pool(4) })])
        .step(preserve("Node", "md-a-1", "now"))
        .step(kubelet("md-a-2", KubeletAction::Stop))
        .eventually(failing() + slack(), both_stay())
        .step(autoscaler("md-a-1", TIMES[0], 3))
        .eventually(
            2 * joining(),
            all([
                status(POOL, "replicas", 3),
                any([machine_gone("md-a-3"), machine_gone("md-a-4")]),
                both_stay(),
            ]),
        )
        .eventually(slack(), reported(1))
        .step(autoscaler("md-a-2", TIMES[1], 2))
        .eventually(
            2 * joining(),
            all([
                status(POOL, "replicas", 2),
                machine_gone("md-a-3"),
                machine_gone("md-a-4"),
                both_stay(),
            ]),
        )
        .eventually(slack(), reported(2))
        .always(slack(), both_stay())
        // Another machine was deleted for its replica: after its preservation it is an ordinary machine.
        .step(preserve("Node", "md-a-1", "false"))
        .eventually(slack(), phase("md-a-1", Phase::Running))
        .always(
            slack(),
            all([
                phase("md-a-1", Phase::Running),
                kept("md-a-2"),
                status(POOL, "replicas", 2),
            ]),
        )
}

/// Both nodes are empty for the same time. Of such nodes cluster-autoscaler removes the first by name.
fn autoscaler_selects_preserved() -> Scenario {
    let takes_one = || scale_down_empty(POOL, seconds(5), seconds(15));
    let scale_down_disabled = annotation("Node", "md-a-1", keys::SCALE_DOWN_DISABLED_ANNOTATION, "true");
    let story = Scenario::new(
        "preserve_an_empty_node",
        "cluster-autoscaler removes an empty node, and not the preserved one beside it; it removes that one after the \
         preservation ends.",
    );
    settled(story, &[long(pool(2))])
        .step(preserve("Node", "md-a-1", "now"))
        .eventually(
            slack(),
            all([phase("md-a-1", Phase::RunningPreserved), scale_down_disabled]),
        )
        .step(takes_one())
        .eventually(
            2 * joining(),
            all([
                nothing_left("md-a-2"),
                phase("md-a-1", Phase::RunningPreserved),
                at_size(1),
            ]),
        )
        .step(preserve("Node", "md-a-1", "false"))
        .eventually(slack(), forgotten("md-a-1"))
        .step(takes_one())
        .eventually(2 * joining(), nothing_left("md-a-1"))
}

/// The replicas are lowered step by step: first unpreserved machines are deleted, then the automatically
/// preserved one, and last the one preserved by request.
fn scaled_down_in_order() -> Scenario {
    let usual = long(Pool { maximum: 1, ..pool(4) });
    let story = Scenario::new(
        "preserve_scaled_down_in_order",
        "Replicas are lowered step by step: first unpreserved machines are deleted, then the automatically preserved \
         one, last the requested one.",
    );
    settled(story, &[usual])
        .step(kubelet("md-a-2", KubeletAction::Stop))
        .eventually(failing() + slack(), kept("md-a-2"))
        .step(preserve("Node", "md-a-1", "now"))
        .eventually(slack(), phase("md-a-1", Phase::RunningPreserved))
        .step(scale(2))
        .eventually(2 * slack() + joining(), all(["md-a-3", "md-a-4"].map(machine_gone)))
        .always(slack(), all([phase("md-a-1", Phase::RunningPreserved), kept("md-a-2")]))
        .step(scale(1))
        .eventually(2 * slack() + joining(), machine_gone("md-a-2"))
        .always(slack(), phase("md-a-1", Phase::RunningPreserved))
        .step(scale(0))
        .eventually(
            2 * slack() + joining(),
            all([machine_gone("md-a-1"), vm_count("md-a-1", 0)]),
        )
}

fn raised_while_full() -> Scenario {
    let usual = long(Pool { maximum: 1, ..pool(3) });
    let story = Scenario::new(
        "preserve_maximum_raised",
        "The maximum is reached and another failed machine is replaced; after the maximum is raised the next failed \
         machine is preserved.",
    );
    settled(story, &[usual])
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(failing() + slack(), kept("md-a-1"))
        .step(kubelet("md-a-2", KubeletAction::Stop))
        .eventually(
            replacing(),
            all([machine_gone("md-a-2"), status(POOL, "readyReplicas", 2)]),
        )
        .step(spec(json!({ "autoPreserveFailedMax": 2 })))
        .step(kubelet("md-a-3", KubeletAction::Stop))
        .eventually(failing() + slack(), all([kept("md-a-1"), kept("md-a-3"), preserved(2)]))
}

fn in_place() -> Scenario {
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto" },
    });
    let usual = long(Pool {
        strategy,
        maximum: 1,
        ..pool(3)
    });
    let expiry = |machine: &str| {
        field(
            "Machine",
            machine,
            "/status/currentStatus/preserveExpiryTime",
            Value::Null,
        )
    };
    let succeeded = json!({ "metadata": { "labels": {
        keys::UPDATE_RESULT_LABEL: keys::UPDATE_SUCCESSFUL
    } } });
    let mut story = settled(
        Scenario::new(
            "preserve_and_in_place",
            "Machines are updated in place: a running preserved one is updated and keeps its expiry; a failed \
             preserved one is replaced at the end.",
        )
        .step(class("class-b", "z1")),
        &[usual],
    )
    .step(preserve("Node", "md-a-2", "now"))
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(
        failing() + slack(),
        all([kept("md-a-1"), phase("md-a-2", Phase::RunningPreserved)]),
    )
    .step(to_class("class-b"));
    // In their deletion order: preserved machines last.
    for (name, done) in ["md-a-3", "md-a-2"].into_iter().zip(1..) {
        story = story
            .eventually(2 * slack(), phase(name, Phase::InPlaceUpdating))
            .step(merge("Node", name, succeeded.clone()))
            .eventually(2 * slack(), updated(done));
    }
    story
        .eventually(
            2 * joining(),
            all([
                machine_gone("md-a-1"),
                phase("md-a-2", Phase::RunningPreserved),
                not(expiry("md-a-2")),
                phase("md-a-3", Phase::Running),
            ]),
        )
        .eventually(2 * joining(), all([at_size(3), preserved(Value::Null)]))
}
