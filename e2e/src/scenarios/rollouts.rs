//! MachineDeployments and MachineSets: sizes and rollouts.

use scenario::Scenario;
use scenario::builder::{
    all, any, apply, boot_delay, budget, delete, deployment as workload_of, exists, field, medium_retry, not, observed,
    pods, slack, workload,
};
use scenario::expect::PodState;
use scenario::step::Patch;
use scenario::{Condition, DurationExpression, Step};
use serde_json::{Value, json};

use crate::regressions::worlds::{drain_lasts, drains_end, drains_take_long};

/// The deployment of all these scenarios.
const NAME: &str = "md-a";

/// All scenarios about rollouts.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        roll_out(),
        under_a_budget(),
        recreate(),
        roll_back(),
        scaled_during_rollout(),
        pause(),
        set_without_deployment(),
        cascade(),
        half_frozen(),
        deployment_lifecycle(),
    ]
}

fn deployment(replicas: u32, strategy: Value) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineDeployment",
        "metadata": { "name": NAME },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "name": NAME } },
            "strategy": strategy,
            "template": {
                "metadata": { "labels": { "name": NAME } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            },
        },
    }))
}

/// Another class of the same cloud, with the same Secret.
fn class_b() -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": "class-b" },
        "provider": "fakecloud",
        "providerSpec": {
            "machineType": "small", "image": "linux-1", "zone": "z1",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
        },
        "secretRef": { "name": "class-a-secret" },
    }))
}

fn rolling(surge: u32, unavailable: u32) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } })
}

fn patch(kind: &str, name: &str, merge: Value) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
        merge,
        status: false,
    })
}

fn spec(change: Value) -> Step {
    patch("MachineDeployment", NAME, json!({ "spec": change }))
}

fn to_class(class: &str) -> Step {
    spec(json!({ "template": { "spec": { "class": { "name": class } } } }))
}

fn scale(replicas: u32) -> Step {
    spec(json!({ "replicas": replicas }))
}

/// Exactly this number of machines, all of the newest template, available, and of this revision; the status
/// matches the newest spec.
fn rolled_out(replicas: u32, revision: &str) -> Condition {
    let revision = field(
        "MachineDeployment",
        NAME,
        "/metadata/annotations/deployment.kubernetes.io~1revision",
        revision,
    );
    let numbers = ["replicas", "updatedReplicas", "availableReplicas", "readyReplicas"]
        .map(|name| field("MachineDeployment", NAME, &format!("/status/{name}"), replicas));
    all(numbers.into_iter().chain([
        revision,
        observed("MachineDeployment", NAME),
        field("MachineDeployment", NAME, "/spec/replicas", replicas),
    ]))
}

/// How long this number of batches may take: each machine is created and joins, and another one is deleted.
fn batches(count: u32) -> DurationExpression {
    count * (boot_delay() + slack())
}

fn roll_out() -> Scenario {
    Scenario::new(
        "roll_out",
        "Ten machines are replaced by machines of another class, with a surge of three.",
    )
    .step(class_b())
    .step(deployment(10, rolling(3, 0)))
    .eventually(batches(2), rolled_out(10, "1"))
    .step(to_class("class-b"))
    .eventually(batches(8), rolled_out(10, "2"))
}

/// The machines run pods, and the rollout waits for their disruption budget.
fn under_a_budget() -> Scenario {
    let ready = || pods("web").are(PodState::Ready);
    Scenario::new(
        "roll_out_under_a_budget",
        "Ten machines with ten pods are replaced by machines of another class: at most two pods are unavailable.",
    )
    .step(class_b())
    .step(deployment(10, rolling(3, 0)))
    .eventually(batches(2), rolled_out(10, "1"))
    .step(workload_of(workload("web").replicas(10)))
    .step(budget("web", 2))
    .eventually(2 * slack(), ready().exactly(10))
    .throughout(ready().at_least(8))
    .step(to_class("class-b"))
    .eventually(batches(16), all([rolled_out(10, "2"), ready().exactly(10)]))
}

fn recreate() -> Scenario {
    let number = |name: &str, is: u32| field("MachineDeployment", NAME, &format!("/status/{name}"), is);
    let pairs = (1..=3).flat_map(|new| (new + 1..=6).map(move |all| (new, all)));
    let both = any(pairs.map(|(new, count)| all([number("updatedReplicas", new), number("replicas", count)])));
    Scenario::new(
        "recreate",
        "All old machines are deleted before the first new one is created.",
    )
    .step(class_b())
    .step(deployment(3, json!({ "type": "Recreate" })))
    .eventually(batches(2), rolled_out(3, "1"))
    .step(to_class("class-b"))
    .eventually(
        slack(),
        field("MachineDeployment", NAME, "/status/updatedReplicas", Value::Null),
    )
    .never(batches(4), both)
    .meanwhile()
    .eventually(batches(4), rolled_out(3, "2"))
}

fn roll_back() -> Scenario {
    Scenario::new(
        "roll_back",
        "A rollout is rolled back halfway: the old set is the newest again.",
    )
    .step(class_b())
    // With none unavailable, a second new machine needs the first one to be available: halfway is the same in
    // every run.
    .step(deployment(4, rolling(1, 0)))
    .eventually(batches(2), rolled_out(4, "1"))
    .step(to_class("class-b"))
    .eventually(slack(), field("MachineDeployment", NAME, "/status/updatedReplicas", 1))
    .step(spec(json!({ "rollbackTo": { "revision": 0 } })))
    .eventually(batches(6), rolled_out(4, "3"))
    .eventually(
        slack(),
        field("MachineDeployment", NAME, "/spec/template/spec/class/name", "class-a"),
    )
}

fn scaled_during_rollout() -> Scenario {
    Scenario::new(
        "scale_in_the_midst",
        "A rollout is scaled up and down halfway, and completes all the same.",
    )
    .step(class_b())
    .step(deployment(4, rolling(1, 0)))
    .eventually(batches(2), rolled_out(4, "1"))
    .step(to_class("class-b"))
    .eventually(slack(), field("MachineDeployment", NAME, "/status/updatedReplicas", 1))
    .step(scale(6))
    .eventually(
        batches(2),
        field("MachineDeployment", NAME, "/status/updatedReplicas", 3),
    )
    .step(scale(3))
    .eventually(batches(8), rolled_out(3, "2"))
}

fn pause() -> Scenario {
    Scenario::new("pause", "A paused deployment is scaled but not rolled out.")
        .step(class_b())
        .step(deployment(2, rolling(1, 0)))
        .eventually(batches(2), rolled_out(2, "1"))
        .step(spec(json!({ "paused": true })))
        .step(to_class("class-b"))
        .step(scale(3))
        .eventually(
            batches(2),
            field("MachineDeployment", NAME, "/status/availableReplicas", 3),
        )
        .always(
            slack(),
            field(
                "MachineDeployment",
                NAME,
                "/metadata/annotations/deployment.kubernetes.io~1revision",
                "1",
            ),
        )
        .step(spec(json!({ "paused": false })))
        .eventually(batches(6), rolled_out(3, "2"))
}

fn set_without_deployment() -> Scenario {
    let set = apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineSet",
        "metadata": { "name": "ms-a" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "set": "ms-a" } },
            "template": {
                "metadata": { "labels": { "set": "ms-a" } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            },
        },
    }));
    let orphan = apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": "orphan", "labels": { "set": "ms-a" } },
        "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
    }));
    let available = |count: u32| field("MachineSet", "ms-a", "/status/availableReplicas", count);
    Scenario::new(
        "set_without_deployment",
        "A set adopts an orphan and creates the remaining machines; a released machine stays.",
    )
    .step(orphan)
    .step(set)
    .eventually(batches(2), available(2))
    .eventually(
        slack(),
        field("Machine", "orphan", "/metadata/ownerReferences/0/name", "ms-a"),
    )
    .step(patch(
        "Machine",
        "orphan",
        json!({ "metadata": { "labels": { "set": "none" } } }),
    ))
    .eventually(
        slack(),
        field("Machine", "orphan", "/metadata/ownerReferences", Value::Null),
    )
    .eventually(batches(2), available(2))
    .always(slack(), exists("Machine", "orphan"))
    .step(delete("MachineSet", "ms-a"))
    .eventually(batches(2), not(exists("MachineSet", "ms-a")))
    .always(slack(), exists("Machine", "orphan"))
}

fn cascade() -> Scenario {
    Scenario::new(
        "cascade",
        "A deployment is deleted halfway through a rollout: its sets and machines are deleted with it.",
    )
    .step(class_b())
    .step(deployment(3, rolling(1, 0)))
    .eventually(batches(2), rolled_out(3, "1"))
    .step(to_class("class-b"))
    .eventually(slack(), field("MachineDeployment", NAME, "/status/updatedReplicas", 1))
    .step(delete("MachineDeployment", NAME))
    .eventually(batches(3), not(exists("MachineDeployment", NAME)))
}

fn half_frozen() -> Scenario {
    let freeze = patch(
        "MachineDeployment",
        NAME,
        json!({ "metadata": { "labels": { "freeze": "True" } } }),
    );
    Scenario::new(
        "half_frozen",
        "A deployment is marked as frozen although none of its sets is: the mark is removed, and it scales up.",
    )
    .step(deployment(2, rolling(1, 0)))
    .eventually(batches(2), rolled_out(2, "1"))
    .step(freeze)
    .step(scale(4))
    .eventually(
        slack(),
        field("MachineDeployment", NAME, "/metadata/labels/freeze", Value::Null),
    )
    .eventually(batches(2), rolled_out(4, "1"))
}

/// Upstream's integration specs 4 to 9: scale 0 to 1 with exactly two conditions, to 6, to 2 with a freeze that
/// ends during slow deletions of VMs, to 4 of another class, deletion.
fn deployment_lifecycle() -> Scenario {
    let condition = |position: usize, name: &str, is: &str| {
        field(
            "MachineDeployment",
            NAME,
            &format!("/status/conditions/{position}/{name}"),
            is,
        )
    };
    let frozen = |is: Value| field("MachineDeployment", NAME, "/metadata/labels/freeze", is);
    Scenario::new(
        "life_of_a_deployment",
        "A deployment scales from zero to one machine, to six, to two, to four of another class, and is deleted.",
    )
    .step(class_b())
    .step(deployment(0, rolling(2, 1)))
    .eventually(slack(), condition(0, "type", "Available"))
    .step(scale(1))
    .eventually(
        batches(2),
        all([
            rolled_out(1, "1"),
            condition(0, "reason", "MinimumReplicasAvailable"),
            condition(1, "reason", "NewMachineSetAvailable"),
            field("MachineDeployment", NAME, "/status/conditions/2", Value::Null),
        ]),
    )
    .step(scale(6))
    .eventually(batches(2), rolled_out(6, "1"))
    .step(drains_take_long())
    .step(scale(2))
    .eventually(2 * slack(), all([frozen(json!("True")), drain_lasts()]))
    .step(drains_end())
    .eventually(
        medium_retry() + batches(2),
        all([rolled_out(2, "1"), frozen(Value::Null)]),
    )
    .step(spec(
        json!({ "replicas": 4, "template": { "spec": { "class": { "name": "class-b" } } } }),
    ))
    .eventually(batches(6), rolled_out(4, "2"))
    .step(delete("MachineDeployment", NAME))
    .eventually(batches(2), not(exists("MachineDeployment", NAME)))
}
