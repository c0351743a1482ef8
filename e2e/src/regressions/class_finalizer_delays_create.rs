//! R70 `class-finalizer-delays-create`: the first machine of a new class was created ten minutes late.

use std::time::Duration;

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::api_faults::{Action, Match, Pattern, Rule, Verb};
use scenario::builder::{api_fault_by, apply, calls_at_least, phase, seconds, wait};
use scenario::fixtures::API_TOKEN;
use scenario::step::{Client, CloudCall, Step};
use serde_json::json;

use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R70",
        name: "class-finalizer-delays-create",
        origin: "MCM#625, MCM PR#626",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R70",
                scenario: last("r70-class-last", "class", [machine(), secret(), class()], 1),
                mutant: true,
                breaks: &[EXPECTED, "I14"],
            },
            Case {
                id: "R70/secret",
                scenario: last("r70-secret-last", "Secret", [class(), machine(), secret()], 180),
                mutant: false,
                breaks: &[],
            },
            Case {
                id: "R70/class",
                scenario: last("r70-class-after-secret", "class", [secret(), machine(), class()], 1),
                mutant: false,
                breaks: &[],
            },
            Case {
                id: "R70/secret-b",
                scenario: last("r70-secret-after-class", "Secret", [machine(), class(), secret()], 0),
                mutant: false,
                breaks: &[],
            },
            Case {
                id: "R70/machine-b",
                scenario: last("r70-machine-after-secret", "machine", [class(), secret(), machine()], 0),
                mutant: false,
                breaks: &[],
            },
            Case {
                id: "R70/machine",
                scenario: last("r70-machine-last", "machine", [secret(), class(), machine()], 0),
                mutant: false,
                breaks: &[],
            },
        ],
        open: "",
    }
}

fn secret() -> Step {
    apply(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "class-b-secret" },
        "stringData": { "apiToken": API_TOKEN, "userData": "#!/bin/sh\njoin <<BOOTSTRAP_TOKEN>> <<MACHINE_NAME>>\n" },
    }))
}

fn class() -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": "class-b" },
        "provider": "fakecloud",
        "providerSpec": {
            "machineType": "small",
            "image": "linux-1",
            "zone": "z1",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
        },
        "secretRef": { "name": "class-b-secret" },
    }))
}

fn machine() -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": "m-1" },
        "spec": { "class": { "kind": "MachineClass", "name": "class-b" } },
    }))
}

/// Creates three objects in this order; the last one this number of seconds after the others. Watch events of
/// classes arrive two seconds late.
fn last(name: &str, what: &str, [first, second, last]: [Step; 3], later: u64) -> Scenario {
    let late = Rule {
        matches: Match {
            verbs: vec![Verb::Watch],
            resource: Some(Pattern::new("machineclasses")),
            ..Match::default()
        },
        ..Rule::new(
            "late",
            Action::LagWatch {
                by: Duration::from_secs(2),
            },
        )
    };
    story(
        name,
        &format!(
            "A machine, its class and its Secret are created, the {what} last: the creation of the VM starts within a \
             minute of it."
        ),
    )
    .step(api_fault_by(Client::Mcm, late))
    .steps([first, second])
    .steps((later > 0).then(|| wait(seconds(later))))
    .step(last)
    .eventually(seconds(60), calls_at_least(CloudCall::CreateMachine, "m-1", 1))
    .eventually(joining(), phase("m-1", Phase::Running))
}
