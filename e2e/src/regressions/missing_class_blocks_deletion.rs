//! R73 `missing-class-blocks-deletion`: machines could not be deleted after their class or its Secret had been
//! removed by force, and no error was reported.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, apply, field, keep, machine_gone, phase, seconds, slack, wait};
use scenario::fixtures::{API_TOKEN, CLASS, SECRET};
use scenario::step::Step;
use serde_json::json;

use super::{POOL, joining, removed, story, well};

const MACHINES: [&str; 3] = ["md-a-1", "md-a-2", "md-a-3"];

pub(super) fn entry() -> Entry {
    Entry {
        id: "R73",
        name: "missing-class-blocks-deletion",
        origin: "MCM#1061, MCM#259",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R73",
                scenario: without("r73-class", "MachineClass", CLASS, class()),
                mutant: true,
                breaks: &[EXPECTED, "I16"],
            },
            Case {
                id: "R73/secret",
                scenario: without("r73-secret", "Secret", SECRET, secret()),
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
        "metadata": { "name": SECRET },
        "stringData": { "apiToken": API_TOKEN, "userData": "#!/bin/sh\njoin <<BOOTSTRAP_TOKEN>> <<MACHINE_NAME>>\n" },
    }))
}

fn class() -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": CLASS },
        "provider": "fakecloud",
        "providerSpec": {
            "machineType": "small",
            "image": "linux-1",
            "zone": "z1",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
        },
        "secretRef": { "name": SECRET },
    }))
}

/// An object that the deletion of three machines needs is deleted; twenty minutes later it is created again.
fn without(name: &str, kind: &str, object: &str, restored: Step) -> Scenario {
    let reports = |machine: &str| {
        all([
            phase(machine, Phase::Terminating),
            field("Machine", machine, "/status/lastOperation/state", "Failed"),
        ])
    };
    story(
        name,
        &format!("A {kind} that deletions need is missing: machines report it, and are deleted after it is back."),
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(3))
    .eventually(joining(), all(MACHINES.map(well)))
    .steps(removed(kind, object))
    .step(wait(seconds(5)))
    .step(keep(0))
    .eventually(slack(), all(MACHINES.map(reports)))
    .step(wait(seconds(20 * 60)))
    .step(restored)
    .eventually(seconds(300), all(MACHINES.map(machine_gone)))
}
