//! Nodes of other clouds, one without a provider ID and one of another provider: mcm never changes them during
//! the life of a machine beside them (invariant `foreign-nodes`).

use mcm_api::Phase;
use scenario::builder::{
    all, apply, create_machine, creation_timeout, delete_machine, exists, field, mcm, node_grace, phase, slack, vm,
};
use scenario::step::{ProcessAction, VmAction};
use scenario::{Scenario, StageKind};
use serde_json::{Value, json};

use super::{joining, nothing_left};

const OF_NOBODY: &str = "of-nobody";
const OF_ANOTHER: &str = "of-another-cloud";

fn node(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "foreign": "yes" } }, "spec": spec })
}

pub(super) fn scenario() -> Scenario {
    let untouched = || {
        all([
            field("Node", OF_NOBODY, "/metadata/labels", json!({ "foreign": "yes" })),
            field("Node", OF_ANOTHER, "/spec/providerID", "kind://docker/other/worker"),
            exists("Node", OF_NOBODY),
            exists("Node", OF_ANOTHER),
        ])
    };
    Scenario::new(
        "foreign_nodes",
        "Nodes without a provider ID or of another provider stay unchanged while a machine is created and deleted.",
    )
    .only_on(
        [StageKind::Sim, StageKind::Embedded, StageKind::Envtest],
        "an existing cluster has foreign nodes of its own, which the invariant foreign-nodes checks",
    )
    .step(apply(node(OF_NOBODY, &json!({}))))
    .step(apply(node(
        OF_ANOTHER,
        &json!({ "providerID": "kind://docker/other/worker" }),
    )))
    .eventually(slack(), untouched())
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(mcm(ProcessAction::Restart))
    .step(vm("m-1", VmAction::Kill))
    // mcm also has to start and to fill its caches meanwhile.
    .eventually(node_grace() + 3 * slack(), phase("m-1", Phase::Unknown))
    .step(delete_machine("m-1"))
    .eventually(creation_timeout(), nothing_left("m-1"))
    .always(slack(), untouched())
}
