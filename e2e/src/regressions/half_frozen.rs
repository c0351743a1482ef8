//! R22 `half-frozen`: a freeze writes a label and a condition on two objects; when one of the writes was
//! missing, the freeze never ended.

use harness::regression::{Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Match, Pattern, Rule, Verb};
use scenario::builder::{all, api_fault_by, field, seconds, wait};
use scenario::step::Client;
use serde_json::{Value, json};

use super::worlds::{api_recovers, at_size, case, drains_end, drains_take_long, merge, pool, refusal, scale, settled};
use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R22",
        name: "half-frozen",
        origin: "MCM#250, MCM#88, MCM PR#251, MCM PR#264",
        group: Group::Freeze,
        confidence: Confidence::Cause,
        cases: vec![
            case("R22", half_a_set(), &["I11"]),
            case("R22/b", half_a_deployment(), &["I11"]),
            case("R22/conflicts", conflicts(), &[]),
        ],
        open: "a crash after each write: `drydock crash too_many_machines` does that",
    }
}

/// A set has the label of a freeze without the condition.
fn half_a_set() -> Scenario {
    let label = json!({ "metadata": { "labels": { "freeze": "True" } } });
    let story = story(
        "r22-half-a-set",
        "A set has the label of a freeze without the condition: the label is removed, and the set scales up.",
    );
    settled(story, &[pool(3)])
        .step(merge("MachineSet", &pool(3).set(), label))
        .step(wait(seconds(180)))
        .step(scale(4))
        .eventually(seconds(300), at_size(4))
}

/// A deployment is marked as frozen, and none of its sets is.
fn half_a_deployment() -> Scenario {
    let story = story(
        "r22-b-half-a-deployment",
        "A deployment has the label of a freeze and its set has not: the label is removed, and the deployment scales \
         up.",
    );
    settled(story, &[pool(3)])
        .step(merge(
            "MachineDeployment",
            POOL,
            json!({ "metadata": { "labels": { "freeze": "True" } } }),
        ))
        .step(wait(seconds(180)))
        .step(scale(4))
        .eventually(seconds(300), at_size(4))
}

/// A set is frozen and thawed sixteen times, and each time a different write to it or to its deployment
/// conflicts.
fn conflicts() -> Scenario {
    let usual = pool(6);
    let set = usual.set();
    let both = |label: Value, is: Value| {
        all([
            field("MachineSet", &set, "/metadata/labels/freeze", label.clone()),
            field("MachineDeployment", POOL, "/metadata/labels/freeze", label),
            field(
                "MachineSet",
                &set,
                "/status/machineSetCondition/[type=Frozen]/status",
                is.clone(),
            ),
            field("MachineDeployment", POOL, "/status/conditions/[type=Frozen]/status", is),
        ])
    };
    let frozen = || both(json!("True"), json!("True"));
    let thawed = || both(Value::Null, Value::Null);
    let conflict = |resource: &str, skip: u32| {
        let rule = Rule {
            matches: Match {
                verbs: vec![Verb::Patch],
                resource: Some(Pattern::new(resource)),
                skip,
                times: Some(1),
                ..Match::default()
            },
            ..Rule::new("api", refusal(409))
        };
        api_fault_by(Client::Mcm, rule)
    };
    let mut story = settled(
        story(
            "r22-conflicts",
            "A set is frozen and thawed sixteen times, and each time a different write conflicts: it is thawed, and \
             scales up.",
        ),
        std::slice::from_ref(&usual),
    );
    for resource in ["machinesets*", "machinedeployments*"] {
        for skip in 0..8 {
            story = story
                .step(conflict(resource, skip))
                .step(drains_take_long())
                .step(scale(2))
                .eventually(seconds(120), frozen())
                .step(drains_end())
                .eventually(seconds(20 * 60), all([thawed(), at_size(2)]))
                .step(api_recovers())
                .step(scale(6))
                .eventually(seconds(300), at_size(6));
        }
    }
    story
}
