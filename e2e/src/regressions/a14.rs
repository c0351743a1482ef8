//! A14 `removal-nobody-told`: what was removed while a watch was broken was not taken notice of.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{
    all, api_fault, api_fault_by, apply, create_machine, delete_machine, exists, force_delete, lift_api_fault,
    machine_gone, not, phase, seconds, slack, struck, wait,
};
use harness::scenario::disturb::Client;
use harness::scenario::disturb::api::{Action, Match, Pattern, Rule};
use mcm_api::Phase;
use serde_json::{Value, json};

use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A14",
        name: "removal-nobody-told",
        origin: "spec machine.md 12, no. 23, MCM#650",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "A14",
            scenario: unseen(),
            mutant: true,
            breaks: &["I13", EXPECTED],
        }],
        open: "",
    }
}

fn labelled(kind: &str, group: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": group, "kind": kind, "metadata": { "name": name, "labels": { "app": "worker" } }, "spec": spec })
}

/// mcm's watch of pods says nothing while a person removes the pod that holds a drain up, and history is forgotten before it
/// speaks again.
fn unseen() -> Scenario {
    let silent = Rule {
        matches: Match {
            resource: Some(Pattern::new("pods")),
            ..Match::default()
        },
        ..Rule::new("silent", Action::FreezeWatch {})
    };
    let forgets = Rule {
        matches: Match {
            times: Some(1),
            ..Match::default()
        },
        ..Rule::new("forgets", Action::Compact { behind_only: false })
    };
    let containers = json!([{ "name": "worker", "image": "worker" }]);
    let pod = labelled(
        "Pod",
        "v1",
        "worker",
        json!({ "nodeName": "m-1", "containers": containers }),
    );
    let selector = json!({ "matchLabels": { "app": "worker" } });
    let budget = json!({ "maxUnavailable": 0, "selector": selector });
    story(
        "a14-unseen-removal",
        "The pod that holds a drain up is removed while its watch is silent, and history is forgotten: the drain ends.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(wait(slack()))
    .step(apply(pod))
    .step(apply(labelled("PodDisruptionBudget", "policy/v1", "worker", budget)))
    .eventually(slack(), exists("Pod", "worker"))
    .step(delete_machine("m-1"))
    .always(slack(), phase("m-1", Phase::Terminating))
    .step(api_fault_by(Client::Mcm, silent))
    .step(force_delete("Pod", "worker"))
    .step(wait(seconds(60)))
    .step(api_fault(forgets))
    .step(lift_api_fault("silent"))
    .eventually(
        2 * slack(),
        all([machine_gone("m-1"), struck("forgets", 1), not(exists("Pod", "worker"))]),
    )
    .step(create_machine("m-2"))
    .eventually(joining(), phase("m-2", Phase::Running))
}
