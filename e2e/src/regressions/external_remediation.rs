//! Steps and conditions of remediation by another controller: templates, requests, and pools with the example
//! controller of fakecloud.

use scenario::builder::{apply, exists};
use scenario::{Condition, Scenario, Step};
use serde_json::{Value, json};

use super::health_check_steps::checked_pool;
use super::worlds::{Pool, pool};

const API: &str = "remediation.fakecloud.drydock.dev/v1alpha1";

/// A template of requests.
pub(crate) fn template(name: &str, spec: &Value) -> Step {
    apply(json!({
        "apiVersion": API,
        "kind": "FakeCloudRemediationTemplate",
        "metadata": { "name": name },
        "spec": { "template": { "spec": spec } },
    }))
}

/// A reference to a template.
pub(crate) fn reference(name: &str) -> Value {
    json!({ "apiVersion": API, "kind": "FakeCloudRemediationTemplate", "name": name })
}

/// A request for the machine exists.
pub(crate) fn remediation_exists(machine: &str) -> Condition {
    exists("FakeCloudRemediation", machine)
}

/// A pool that only its check finds unhealthy, with the example controller and this template.
pub(crate) fn repaired(story: Scenario, machines: u32, spec: &Value, check: Value) -> Scenario {
    let patient = Pool {
        patient: true,
        ..pool(machines)
    };
    checked_pool(story.remediation().step(template("repair", spec)), &patient, check)
}

/// The same pool with power-cycles, which do not free a disk.
pub(crate) fn rebooting(story: Scenario, machines: u32, check: Value) -> Scenario {
    let spec = json!({ "strategy": "Reboot", "retryLimit": 9, "timeout": "10m" });
    repaired(story, machines, &spec, check)
}

/// The spec of a check for full disks that uses the template.
pub(crate) fn by_template() -> Value {
    full_disk(json!({ "remediationTemplate": reference("repair") }))
}

/// The spec of a check to which a machine with a full disk is unhealthy after two seconds.
pub(crate) fn full_disk(mut spec: Value) -> Value {
    spec["unhealthyConditions"] = json!([{ "type": "DiskPressure", "status": "True", "timeout": "2s" }]);
    spec
}
