//! A node is selected for an in-place update: it is drained, its agent gets the signal to start, and the
//! agent's result determines the machine's phase.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{all, at_any_time, create_machine, deployment, field, history, phase, pods, slack, workload};
use scenario::expect::PodState;
use scenario::step::{Patch, Step};
use serde_json::{Value, json};

use super::joining;

pub(super) fn scenario() -> Scenario {
    Scenario::new(
        "in_place",
        "A node is selected for an in-place update: it is drained first, and its machine is Running again after its \
         agent reports success.",
    )
    .step(create_machine("m-1"))
    .step(deployment(workload("web").replicas(2)))
    .eventually(
        joining() + slack(),
        all([
            phase("m-1", Phase::Running),
            pods("web").on("m-1").are(PodState::Ready).exactly(2),
        ]),
    )
    .step(label(json!({ keys::CANDIDATE_FOR_UPDATE_LABEL: "true" })))
    .step(label(json!({ keys::SELECTED_FOR_UPDATE_LABEL: "true" })))
    .eventually(
        2 * slack(),
        all([
            phase("m-1", Phase::InPlaceUpdating),
            pods("web").on("m-1").exactly(0),
            field("Node", "m-1", "/spec/unschedulable", true),
        ]),
    )
    .step(label(json!({ keys::UPDATE_RESULT_LABEL: "successful" })))
    .eventually(
        slack(),
        history(
            "m-1",
            [
                Phase::Pending,
                Phase::Running,
                Phase::InPlaceUpdating,
                Phase::InPlaceUpdateSuccessful,
                Phase::Running,
            ]
            .map(at_any_time),
        ),
    )
}

fn label(labels: Value) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: "Node".to_owned(),
        name: "m-1".to_owned(),
        namespace: None,
        merge: json!({ "metadata": { "labels": labels } }),
        status: false,
    })
}
