//! What survives or follows a preservation: a user's cordon, cluster-autoscaler's annotation, and another
//! failure.

use mcm_api::{Phase, keys};
use scenario::builder::{
    all, annotate, drain_timeout, field, kubelet, not, phase, pods, slack, stateful_set, storage_class, unchanged,
    workload,
};
use scenario::expect::PodState;
use scenario::step::KubeletAction;
use scenario::{Condition, Scenario, Step};
use serde_json::{Value, json};

use super::joining;
use super::preservation_steps::{annotation, failing, forgotten, kept, kept_running, pool, preserve, tainted};
use super::preservation_steps::{long, preserved};
use crate::regressions::worlds::{self, settled};

/// All scenarios about what survives or follows a preservation.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        leaves_a_cordon(),
        returns_an_annotation(),
        fails_again(),
        keeps_a_pod_that_must_not_run_twice(),
    ]
}

fn leaves_a_cordon() -> Scenario {
    let both = ["m-1", "m-2"];
    pool(
        "preserve_leaves_a_cordon",
        "A user's cordon and uncordon are respected before, during and after a preservation.",
        &both,
        2,
    )
    .step(cordon("m-1", true))
    .steps(both.map(|machine| kubelet(machine, KubeletAction::Stop)))
    .eventually(
        2 * failing() + slack(),
        all(both.map(|machine| phase(machine, Phase::FailedPreserved))),
    )
    .step(cordon("m-2", true))
    .steps(both.map(|machine| kubelet(machine, KubeletAction::Start)))
    .eventually(
        slack(),
        all(both.map(|machine| phase(machine, Phase::RunningPreserved))),
    )
    .always(slack(), all(both.map(cordoned)))
    .step(cordon("m-2", false))
    .steps(both.map(|machine| preserve("Node", machine, "false")))
    .eventually(slack(), all(both.map(forgotten)))
    .always(slack(), all([cordoned("m-1"), not(cordoned("m-2"))]))
    .step(cordon("m-2", true))
    .eventually(slack(), cordoned("m-2"))
    .always(slack(), all(both.map(cordoned)))
}

/// A user cordons or uncordons a node.
fn cordon(node: &str, closed: bool) -> Step {
    scenario::builder::patch_spec("Node", node, json!({ "unschedulable": closed }))
}

fn cordoned(node: &str) -> Condition {
    field("Node", node, "/spec/unschedulable", true)
}

fn returns_an_annotation() -> Scenario {
    let away = |value: &str| annotation("Node", "m-1", keys::SCALE_DOWN_DISABLED_ANNOTATION, value);
    Scenario::new(
        "preserve_returns_an_annotation",
        "A removable node is protected from cluster-autoscaler while its machine is preserved, and is removable \
         afterwards.",
    )
    .step(super::create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(annotate("Node", "m-1", keys::SCALE_DOWN_DISABLED_ANNOTATION, "false"))
    .step(preserve("Node", "m-1", "now"))
    .eventually(slack(), all([kept_running("m-1"), away("true")]))
    .step(preserve("Node", "m-1", "false"))
    .eventually(slack(), all([phase("m-1", Phase::Running), away("false")]))
    .always(
        slack(),
        all([
            away("false"),
            annotation("Node", "m-1", keys::SCALE_DOWN_DISABLED_BEFORE_ANNOTATION, Value::Null),
        ]),
    )
}

fn fails_again() -> Scenario {
    let runs = || {
        all([
            phase("md-a-1", Phase::RunningPreserved),
            not(tainted("md-a-1")),
            preserved(Value::Null),
        ])
    };
    let story = Scenario::new(
        "preserve_relapses",
        "A machine that a user preserves fails, recovers, and fails again: each time it is preserved and drained, and \
         its expiry is unchanged.",
    );
    settled(story, &[long(worlds::pool(2))])
        .step(preserve("Node", "md-a-1", "now"))
        .eventually(slack(), runs())
        .throughout(unchanged(
            "Machine",
            "md-a-1",
            "/status/currentStatus/preserveExpiryTime",
        ))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(failing() + slack(), all([kept("md-a-1"), preserved(1)]))
        .step(kubelet("md-a-1", KubeletAction::Start))
        .eventually(slack(), runs())
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(failing() + slack(), all([kept("md-a-1"), preserved(1)]))
        .always(slack(), kept("md-a-1"))
}

/// The kubelet of a preserved machine is cut off. Its VM keeps running, and with it the pod of a StatefulSet with a volume.
fn keeps_a_pod_that_must_not_run_twice() -> Scenario {
    let database = |state: PodState| pods("db").are(state);
    let story = Scenario::new(
        "preserve_keeps_a_unique_pod",
        "A preserved machine does not answer: its pod with a volume stays Terminating and no second one starts, until the \
         kubelet is back.",
    );
    settled(story, &[long(worlds::pool(2))])
        .step(storage_class())
        .step(stateful_set(workload("db").replicas(1).volume("1Gi")))
        .eventually(joining() + slack(), database(PodState::Ready).exactly(1))
        .step(preserve("Node", "md-a-1", "when-failed"))
        .step(preserve("Node", "md-a-2", "when-failed"))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .step(kubelet("md-a-2", KubeletAction::Stop))
        .eventually(
            2 * failing() + drain_timeout() + slack(),
            all([
                kept("md-a-1"),
                kept("md-a-2"),
                database(PodState::Terminating).exactly(1),
            ]),
        )
        .always(
            2 * slack(),
            all([pods("db").exactly(1), database(PodState::Terminating).exactly(1)]),
        )
        .step(kubelet("md-a-1", KubeletAction::Start))
        .step(kubelet("md-a-2", KubeletAction::Start))
        .eventually(
            joining() + 2 * slack(),
            all([
                phase("md-a-1", Phase::RunningPreserved),
                phase("md-a-2", Phase::RunningPreserved),
                database(PodState::Ready).exactly(1),
            ]),
        )
}
