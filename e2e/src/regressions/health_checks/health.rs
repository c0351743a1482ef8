//! Which machines are unhealthy.

use harness::regression::{EXPECTED, Entry};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{
    all, annotate, apply, field, machine_gone, node_gone, not, phase, seconds, slack, vm_count, wait,
};
use serde_json::json;

use super::super::worlds::{case, pool, settled};
use super::super::{joining, story};
use super::{entry, fill, free, patient, without_validation};
use crate::regressions::external_remediation::full_disk;
use crate::regressions::health_check_steps::{
    CHECK, acting, check, check_condition, checked, checked_pool, failed, healthy, passed, recovered, requested,
};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        entry(
            "R89",
            "mhc-node-joins-late",
            "CAPI PR#11032",
            vec![case("R89", node_joins_late(), &["I16", EXPECTED])],
        ),
        entry(
            "R91",
            "mhc-first-match-hides-rest",
            "NHC 8e4b1384",
            vec![case("R91", first_match(), &["I25", EXPECTED])],
        ),
        entry(
            "R93",
            "mhc-kills-newborn",
            "NHC 4a9063c1; CAPI#3026",
            vec![
                case("R93", missing_condition(), &["I23", EXPECTED]),
                case("R93/b", booting(), &["I23", EXPECTED]),
            ],
        ),
        entry(
            "R104",
            "mhc-label-false-means-true",
            "NHC d4072c25, RHWA-941",
            vec![case("R104", annotation_false(), &["I25", EXPECTED])],
        ),
        entry(
            "R109",
            "mhc-short-timeout-becomes-zero",
            "CAPI ConvertToSeconds",
            vec![case("R109", short_timeout(), &[EXPECTED])],
        ),
    ]
}

/// The node has joined, and its conditions are not copied to the machine yet, because it waits for a component.
fn node_joins_late() -> Scenario {
    let story = story(
        "r89-node-joins-late",
        "A machine is remediated when its node has just joined: the Node is deleted with it.",
    );
    let class = apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": "class-c" },
        "provider": "fakecloud",
        "providerSpec": {
            "machineType": "small", "image": "linux-1", "zone": "z1",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
            "taints": [{ "key": keys::CRITICAL_COMPONENTS_TAINT, "effect": "NoSchedule" }],
        },
        "secretRef": { "name": "class-a-secret" },
    }));
    let set = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineSet",
        "metadata": { "name": "ms-a" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "name": "md-a" } },
            "template": {
                "metadata": { "labels": { "name": "md-a" } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-c" } },
            },
        },
    });
    let machine = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": "m-1", "labels": { "name": "md-a" } },
        "spec": { "class": { "kind": "MachineClass", "name": "class-c" } },
    });
    story
        .health_checks()
        .step(class)
        .step(apply(machine))
        .step(apply(set))
        .step(check(json!({ "nodeStartupTimeout": "1h" })))
        .eventually(
            joining(),
            field("Node", "m-1", "/metadata/finalizers/0", keys::NODE_FINALIZER),
        )
        .step(annotate("Machine", "m-1", keys::REMEDIATE_MACHINE_ANNOTATION, "true"))
        .eventually(2 * slack(), all([machine_gone("m-1"), vm_count("m-1", 0)]))
        .eventually(slack(), node_gone("m-1"))
}

fn first_match() -> Scenario {
    let story = story(
        "r91-first-match",
        "The timeout of one condition runs while that of another has ended: the machine is unhealthy.",
    );
    let rules = json!([
        { "type": "MemoryPressure", "status": "False", "timeout": "1000h" },
        { "type": "DiskPressure", "status": "True", "timeout": "2s" },
    ]);
    settled(story.health_checks(), &[patient(2)])
        .step(check(json!({ "unhealthyConditions": rules })))
        .eventually(slack(), healthy(2, 0))
        .step(fill("md-a-1"))
        .eventually(acting(), requested("md-a-1"))
        .eventually(2 * joining(), machine_gone("md-a-1"))
}

fn missing_condition() -> Scenario {
    let story = story(
        "r93-missing-condition",
        "Nodes do not have a condition that a check names: they are healthy.",
    );
    let rules = json!([{ "type": "KernelDeadlock", "status": "True", "timeout": "1m" }]);
    settled(story.health_checks(), &[pool(2)])
        .throughout(all(["md-a-1", "md-a-2"].map(|machine| not(failed(machine)))))
        .step(check(json!({ "unhealthyConditions": rules })))
        .eventually(slack(), healthy(2, 2))
        .step(wait(seconds(300)))
}

fn booting() -> Scenario {
    let story = story(
        "r93-b-booting",
        "Machines have the label of their node before it joins: they are not unhealthy because there is no Node.",
    );
    story
        .health_checks()
        .step(check(json!({})))
        .step(pool(2).machine("md-a-1", "class-a"))
        .step(pool(2).deployment())
        .throughout(not(failed("md-a-1")))
        .eventually(2 * joining(), all([passed("md-a-1"), recovered(2)]))
}

fn annotation_false() -> Scenario {
    let story = story(
        "r104-annotation-false",
        "A machine has the annotation that excludes it from remediation with the value false: it is remediated.",
    );
    checked_pool(story, &patient(2), full_disk(json!({})))
        .step(annotate(
            "Machine",
            "md-a-1",
            keys::SKIP_REMEDIATION_ANNOTATION,
            "false",
        ))
        .step(fill("md-a-1"))
        .eventually(acting(), requested("md-a-1"))
        .eventually(2 * joining(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), recovered(2))
}

fn short_timeout() -> Scenario {
    let story = story(
        "r109-short-timeout",
        "A check of an API server without validation has a timeout of half a second: it is refused, and does not mean at once.",
    );
    let rules = json!([{ "type": "DiskPressure", "status": "True", "timeout": "500ms" }]);
    without_validation(checked(story, 2, json!({})))
        .step(check(json!({ "unhealthyConditions": rules })))
        .eventually(2 * slack(), check_condition("Evaluated", "False", "InvalidSpec"))
        .step(fill("md-a-1"))
        .never(acting(), failed("md-a-1"))
        .step(free("md-a-1"))
        .eventually(
            slack(),
            all([phase("md-a-1", Phase::Running), phase("md-a-2", Phase::Running)]),
        )
        .always(seconds(1), scenario::builder::exists("MachineHealthCheck", CHECK))
}
