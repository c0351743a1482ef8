//! Q04, Q06, Q07, Q08, Q11, Q16, Q28, Q29, Q30: defects of the reference that are not reported.

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::api_faults::Verb;
use scenario::builder::{all, apply, field, phase, seconds, slack, wait};
use scenario::expect::Condition;
use serde_json::{Value, json};

use super::worlds::{
    Pool, api_fails, api_recovers, at_size, case, class, drains_end, drains_take_long, merge, pool, refusal, rolled,
    scale, settled, to_class, updated,
};
use super::{POOL, joining, story};

pub(super) fn entries() -> [Entry; 10] {
    let entry = |id, name, origin, case| Entry {
        id,
        name,
        origin,
        group: Group::Rollouts,
        confidence: Confidence::Cause,
        cases: vec![case],
        open: "",
    };
    [
        entry(
            "Q04",
            "release-releases-nothing",
            "the reference's patch of a machine that stops matching the selector",
            case("Q04", relabelled(), &["I18", EXPECTED]),
        ),
        entry(
            "Q06",
            "in-place-never-scales",
            "the reference's scaling",
            case("Q06", scaled_in_place(), &[EXPECTED]),
        ),
        entry(
            "Q06/recreate",
            "recreate-never-scales",
            "the reference's scaling",
            case("Q06/recreate", scaled_while_recreated(), &[]),
        ),
        entry(
            "Q07",
            "surge-applied-twice",
            "the reference's first size of a new set",
            case("Q07", rolled_out(), &["I7"]),
        ),
        entry(
            "Q08",
            "never-grows-again",
            "the reference's label of an update in place",
            case("Q08", template_reverted(), &[EXPECTED]),
        ),
        entry(
            "Q11",
            "finalizer-over-finalizers",
            "the reference's write of a deployment's finalizer",
            case("Q11", with_a_finalizer(), &[EXPECTED]),
        ),
        entry(
            "Q16",
            "no-surge-no-brake",
            "the reference's overshoot check",
            case("Q16", two_deployments(), &[EXPECTED]),
        ),
        entry(
            "Q28",
            "keys-dropped-after-fifteen-tries",
            "the reference's queue of sets",
            case("Q28", statuses_are_refused(), &[EXPECTED]),
        ),
        entry(
            "Q29",
            "old-set-not-sized",
            "the reference's rollout, which continues after a failed scaling of an old set",
            case("Q29", sizes_are_refused(), &[EXPECTED]),
        ),
        entry(
            "Q30",
            "empty-selector-takes-all",
            "the reference's adoption by a selector without labels",
            case("Q30", empty_selector(), &[EXPECTED]),
        ),
    ]
}

fn in_place(machines: u32, surge: u32) -> Pool {
    let strategy = json!({
        "type": "InPlaceUpdate",
        "inPlaceUpdate": { "maxSurge": surge, "maxUnavailable": 1 - surge, "orchestrationType": "Auto" },
    });
    Pool {
        strategy,
        ..pool(machines)
    }
}

/// A user changes a label of a machine: its set releases it, and creates another one.
fn relabelled() -> Scenario {
    let story = story(
        "q04-relabelled",
        "A machine's label changes: its set releases it, and creates another one.",
    );
    let owners = field("Machine", "md-a-1", "/metadata/ownerReferences", Value::Null);
    let other_label = json!({ "metadata": { "labels": { keys::DEPLOYMENT_LABEL: "stray" } } });
    settled(story, &[pool(2)])
        .step(merge("Machine", "md-a-1", other_label))
        .eventually(
            2 * joining(),
            all([at_size(2), owners, phase("md-a-1", Phase::Running)]),
        )
}

/// Halfway through an in-place update, when both sets have machines, the deployment is scaled up.
fn scaled_in_place() -> Scenario {
    let usual = in_place(2, 0);
    let succeeded = json!({ "metadata": { "labels": { keys::UPDATE_RESULT_LABEL: keys::UPDATE_SUCCESSFUL } } });
    let story = story(
        "q06-scaled-in-place",
        "An in-place update is scaled up halfway: it continues, and reaches the new number of machines.",
    )
    .step(class("class-b", "z1"));
    settled(story, std::slice::from_ref(&usual))
        .step(to_class("class-b"))
        .eventually(seconds(600), phase("md-a-1", Phase::InPlaceUpdating))
        .step(merge("Node", "md-a-1", succeeded.clone()))
        .eventually(seconds(600), all([phase("md-a-1", Phase::Running), updated(1)]))
        .step(scale(3))
        .eventually(joining() + seconds(600), phase("md-a-2", Phase::InPlaceUpdating))
        .step(merge("Node", "md-a-2", succeeded))
        .eventually(joining() + seconds(600), at_size(3))
}

fn rolled_out() -> Scenario {
    let story = story(
        "q07-rolled-out",
        "Three machines are rolled out with a surge of one: there are never five.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[pool(3)])
        .step(to_class("class-b"))
        .eventually(seconds(1800), rolled(3))
}

/// The template of an in-place update is reverted before any machine was updated, and then the deployment is
/// scaled up.
fn template_reverted() -> Scenario {
    let usual = in_place(2, 1);
    let disabled = |is: Value| -> Condition {
        let label = keys::SCALE_UP_DISABLED_LABEL.replace('/', "~1");
        field("MachineSet", &usual.set(), &format!("/metadata/labels/{label}"), is)
    };
    let story = story(
        "q08-taken-back",
        "An in-place update is reverted at once, and the deployment is scaled up: its previous set grows.",
    )
    .step(class("class-b", "z1"));
    settled(story, std::slice::from_ref(&usual))
        .step(to_class("class-b"))
        .eventually(slack(), disabled(json!("true")))
        .step(to_class("class-a"))
        .step(scale(4))
        .eventually(2 * joining(), all([at_size(4), disabled(Value::Null)]))
}

/// One deployment recreates and has no surge; a set of another one has surplus machines.
fn two_deployments() -> Scenario {
    let first = Pool {
        name: "md-0",
        strategy: json!({ "type": "Recreate" }),
        ..pool(1)
    };
    let usual = pool(2);
    let extra = ["md-a-7", "md-a-8", "md-a-9"].map(|name| usual.machine(name, usual.class));
    let frozen = field("MachineSet", &usual.set(), "/metadata/labels/freeze", json!("True"));
    let story = story(
        "q16-two-deployments",
        "A set gets three surplus machines, and another deployment has no surge: the set is frozen all the same.",
    );
    settled(story, &[first, usual])
        .step(drains_take_long())
        .steps(extra)
        .eventually(2 * slack(), frozen)
        .step(drains_end())
        .eventually(seconds(600), at_size(2))
}

/// A deployment is created with a foreign finalizer.
fn with_a_finalizer() -> Scenario {
    let foreign_finalizer = "example.com/waits";
    let deployment = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineDeployment",
        "metadata": { "name": POOL, "finalizers": [foreign_finalizer] },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "name": POOL } },
            "template": {
                "metadata": { "labels": { "name": POOL } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            },
        },
    });
    let finalizer = |number: u32, is: &str| {
        let pointer = format!("/metadata/finalizers/{number}");
        field("MachineDeployment", POOL, &pointer, is)
    };
    story(
        "q11-with-a-finalizer",
        "A deployment has a foreign finalizer: it keeps it beside the controller's.",
    )
    .step(apply(deployment))
    .eventually(
        joining(),
        all([
            at_size(1),
            finalizer(0, foreign_finalizer),
            finalizer(1, keys::MACHINE_FINALIZER),
        ]),
    )
}

/// No status of a set can be written for more than fifteen retries.
fn statuses_are_refused() -> Scenario {
    let story = story(
        "q28-statuses-are-refused",
        "For a quarter of an hour no status of a set can be written: it is written afterwards, and nothing else \
         happens.",
    );
    settled(story, &[pool(2)])
        .step(api_fails(&[Verb::Patch], "machinesets/status", refusal(500)))
        .step(scale(3))
        .step(wait(seconds(900)))
        .step(api_recovers())
        .eventually(joining(), at_size(3))
}

/// Halfway through a rollout no set can be scaled.
fn sizes_are_refused() -> Scenario {
    let story = story(
        "q29-sizes-are-refused",
        "In a rollout no set can be scaled until long after the first new machine runs: then it continues by itself.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[pool(3)])
        .step(to_class("class-b"))
        .eventually(slack(), updated(1))
        .step(api_fails(&[Verb::Patch], "machinesets", refusal(500)))
        .step(wait(seconds(300)))
        .step(api_recovers())
        .eventually(seconds(1800), rolled(3))
}

/// A deployment that recreates is scaled up while its old machines drain.
fn scaled_while_recreated() -> Scenario {
    let usual = Pool {
        strategy: json!({ "type": "Recreate" }),
        ..pool(2)
    };
    let story = story(
        "q06-scaled-while-recreated",
        "Machines are recreated, and the deployment is scaled up while the old ones terminate: all three are created.",
    )
    .step(class("class-b", "z1"));
    settled(story, std::slice::from_ref(&usual))
        .step(drains_take_long())
        .step(to_class("class-b"))
        .step(wait(seconds(60)))
        .step(scale(3))
        .step(wait(seconds(60)))
        .step(drains_end())
        .eventually(2 * joining(), rolled(3))
}

/// The schema's validation rules would reject the set: it was created before they existed.
fn empty_selector() -> Scenario {
    let name = "machinesets.machine.sapcloud.io";
    let mut definition = mcm_api::crd::all()
        .into_iter()
        .map(|one| json!(one))
        .find(|one| one["metadata"]["name"] == name)
        .unwrap_or_default();
    without_rules(&mut definition);
    let usual = pool(3);
    let set = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineSet",
        "metadata": { "name": "takes-all" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": {} },
            "template": {
                "metadata": { "labels": { "name": "takes-all" } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            },
        },
    });
    let names = usual.names();
    let adopts_none = all(names.iter().flat_map(|name| {
        [
            phase(name, Phase::Running),
            field("Machine", name, "/metadata/ownerReferences", Value::Null),
        ]
    }));
    story(
        "q30-empty-selector",
        "A set has an empty selector, as a set from before the validation rules may: it adopts no machine.",
    )
    .step(merge(
        "CustomResourceDefinition",
        name,
        json!({ "spec": { "versions": definition["spec"]["versions"] } }),
    ))
    .steps(names.iter().map(|name| usual.machine(name, usual.class)))
    .eventually(joining(), adopts_none.clone())
    .step(apply(set))
    .always(seconds(1800), adopts_none)
}

fn without_rules(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(without_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(without_rules),
        _ => {}
    }
}
