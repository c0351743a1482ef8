//! R83 to R110: bugs of health checks, of Cluster API's MachineHealthCheck, of OpenShift's and of medik8s' NodeHealthCheck.

mod external;
mod health;
mod limits;
mod owner;

use harness::regression::{Case, Confidence, Entry, Group};
use mcm_api::crd;
use scenario::builder::{apply, kubelet};
use scenario::step::KubeletAction;
use scenario::{Scenario, Step};
use serde_json::json;

use super::worlds::{Pool, pool};

/// All entries, ordered by number.
pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    entries.extend(external::entries());
    entries.extend(health::entries());
    entries.extend(limits::entries());
    entries.extend(owner::entries());
    entries.sort_by_key(|entry| entry.id.trim_start_matches('R').parse::<u32>().unwrap_or_default());
    entries
}

/// An entry whose cause is documented.
fn entry(id: &'static str, name: &'static str, origin: &'static str, cases: Vec<Case>) -> Entry {
    Entry {
        id,
        name,
        origin,
        group: Group::HealthChecks,
        confidence: Confidence::Cause,
        cases,
        open: "",
    }
}

/// A pool whose machines only the check finds unhealthy.
fn patient(machines: u32) -> Pool {
    Pool {
        patient: true,
        ..pool(machines)
    }
}

fn fill(machine: &str) -> Step {
    kubelet(machine, KubeletAction::FillDisk)
}

fn free(machine: &str) -> Step {
    kubelet(machine, KubeletAction::FreeDisk)
}

fn stop(machine: &str) -> Step {
    kubelet(machine, KubeletAction::Partition)
}

fn start(machine: &str) -> Step {
    kubelet(machine, KubeletAction::Reconnect)
}

/// The API server does not validate checks: their definition is older than the controller.
fn without_validation(story: Scenario) -> Scenario {
    let mut definition = serde_json::to_value(crd::health_check()).unwrap_or_default();
    definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
    definition["kind"] = json!("CustomResourceDefinition");
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
        "type": "object",
        "properties": { "spec": open, "status": open },
    });
    story.step(apply(definition))
}
