//! A worker pool over three zones as Gardener writes it: the surge goes to the first zone, the others get neither surge nor
//! unavailable machines, and `minReadySeconds` is longer than Gardener waits.

use scenario::builder::{all, apply, event_count, field, observed, patch_spec, slack};
use scenario::{Condition, Scenario, Step};
use serde_json::json;

use super::joining;
use crate::regressions::worlds::class;

/// The deployment of each zone, and its surge.
const ZONES: [(&str, u32); 3] = [("pool-z1", 1), ("pool-z2", 0), ("pool-z3", 0)];

pub(super) fn scenario() -> Scenario {
    let all_rolled_out = |revision| all(ZONES.map(|(name, _)| rolled_out(name, revision)));
    Scenario::new(
        "gardener_zones",
        "A pool over three zones as Gardener writes it (maxSurge 1, 0 and 0, maxUnavailable 0, minReadySeconds 500) gets \
         its machines, counts them as available when they are Running, and rolls out a new class.",
    )
    .step(class("class-b", "z1"))
    .steps(ZONES.map(|(name, surge)| deployment(name, surge)))
    .eventually(2 * joining(), all_rolled_out("1"))
    .eventually(
        slack(),
        all(["pool-z2", "pool-z3"].map(|name| event_count("MachineDeployment", name, "MaxUnavailableIsOne", 1))),
    )
    .steps(ZONES.map(|(name, _)| {
        let template = json!({ "spec": { "class": { "name": "class-b" } } });
        patch_spec("MachineDeployment", name, json!({ "template": template }))
    }))
    .eventually(4 * joining(), all_rolled_out("2"))
}

fn deployment(name: &str, surge: u32) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineDeployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": 1,
            "minReadySeconds": 500,
            "selector": { "matchLabels": { "name": name } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": 0 } },
            "template": {
                "metadata": { "labels": { "name": name } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            },
        },
    }))
}

/// The deployment has one machine, which is available and of the newest template.
fn rolled_out(name: &str, revision: &str) -> Condition {
    let one = ["replicas", "updatedReplicas", "availableReplicas"]
        .map(|field_name| field("MachineDeployment", name, &format!("/status/{field_name}"), 1));
    let revision = field(
        "MachineDeployment",
        name,
        "/metadata/annotations/deployment.kubernetes.io~1revision",
        revision,
    );
    all(one.into_iter().chain([revision, observed("MachineDeployment", name)]))
}
