//! A user with permissions only on the Nodes of the target cluster replaces a machine by an annotation, deletes
//! one by deleting its Node, and cordons a third, which stays cordoned. The user cannot access Machines.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{
    all, annotate, apply, by, create_machine, creation_timeout, delete, field, health_timeout, phase, refused_to, slack,
};
use scenario::step::{Patch, Step};
use serde_json::json;

use super::{joining, nothing_left, only_in_a_cluster_of_its_own};

const CONSUMER: &str = "consumer";

pub(super) fn scenario() -> Scenario {
    let machines = ["m-1", "m-2", "m-3"];
    let trigger = |kind| annotate(kind, "m-1", keys::TRIGGER_DELETION_ANNOTATION, "true");
    let cordoned = || field("Node", "m-3", "/spec/unschedulable", true);
    let story = Scenario::new(
        "nodes_only",
        "A user with permissions only on nodes replaces a machine, deletes one and cordons a third.",
    )
    .steps(role_and_binding())
    .steps(machines.map(create_machine))
    .eventually(joining(), all(machines.map(|machine| phase(machine, Phase::Running))))
    .step(refused_to(CONSUMER, delete("Machine", "m-1")))
    .step(refused_to(CONSUMER, trigger("Machine")))
    .step(by(CONSUMER, trigger("Node")))
    .eventually(creation_timeout(), nothing_left("m-1"))
    .step(by(CONSUMER, delete("Node", "m-2")))
    .eventually(creation_timeout(), nothing_left("m-2"))
    .step(by(CONSUMER, cordon("m-3")))
    .eventually(slack(), cordoned())
    .always(health_timeout(), all([phase("m-3", Phase::Running), cordoned()]));
    only_in_a_cluster_of_its_own(story)
}

/// A role for nodes, with its binding.
fn role_and_binding() -> [Step; 2] {
    let group = "rbac.authorization.k8s.io";
    [
        apply(json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRole",
            "metadata": { "name": "nodes-only" },
            "rules": [{
                "apiGroups": [""],
                "resources": ["nodes"],
                "verbs": ["get", "list", "watch", "patch", "delete"],
            }],
        })),
        apply(json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": { "name": "nodes-only" },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "nodes-only" },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": CONSUMER }],
        })),
    ]
}

fn cordon(node: &str) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: "Node".to_owned(),
        name: node.to_owned(),
        namespace: None,
        merge: json!({ "spec": { "unschedulable": true } }),
        status: false,
    })
}
