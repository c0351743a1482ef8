//! Remediation by another controller: requests from a template, and the example controller of fakecloud.

use mcm_api::{Phase, keys};
use scenario::builder::{all, field, kubelet, machine_gone, mcm, not, phase, seconds, slack, unchanged, wait};
use scenario::step::{KubeletAction, ProcessAction};
use scenario::{Condition, Scenario};
use serde_json::{Value, json};

use super::joining;
use crate::regressions::external_remediation::{
    by_template, full_disk, rebooting, reference, remediation_exists, repaired, template,
};
use crate::regressions::health_check_steps::{acting, failed, healthy, machine_reason, passed, recovered, requested};
use crate::regressions::worlds::merge;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        reboots(),
        two_requests(),
        escalates(),
        missing_template(),
        next_template(),
        last_template(),
        cancelled(),
        template_edited(),
    ]
}

/// M12.
fn reboots() -> Scenario {
    let story = Scenario::new(
        "health_check_reboots",
        "The kubelet of a machine stops: its VM is power-cycled, the request is deleted, and the machine stays.",
    );
    let spec = json!({ "strategy": "Reboot", "retryLimit": 3, "timeout": "10m" });
    repaired(story, 2, &spec, json!({ "remediationTemplate": reference("repair") }))
        .always(
            acting() + 2 * joining(),
            unchanged("Machine", "md-a-1", "/metadata/uid"),
        )
        .meanwhile()
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(
            acting(),
            all([owned_request("md-a-1"), failed("md-a-1"), not(requested("md-a-1"))]),
        )
        .eventually(
            2 * joining(),
            all([passed("md-a-1"), not(remediation_exists("md-a-1"))]),
        )
        .eventually(2 * slack(), recovered(2))
}

/// The machine has a request, which is deleted with it.
fn owned_request(machine: &str) -> Condition {
    let owner = |name: &str, is: &str| {
        let name = format!("/metadata/ownerReferences/0/{name}");
        field("FakeCloudRemediation", machine, &name, is)
    };
    all([owner("kind", "Machine"), owner("name", machine)])
}

/// Two machines: the first request does not hide the second machine.
fn two_requests() -> Scenario {
    let story = Scenario::new(
        "health_check_two_requests",
        "Two machines are unhealthy at different times: each gets a request.",
    );
    rebooting(story, 3, by_template())
        .step(kubelet("md-a-1", KubeletAction::FillDisk))
        .eventually(acting(), remediation_exists("md-a-1"))
        .step(kubelet("md-a-2", KubeletAction::FillDisk))
        .eventually(
            acting(),
            all([remediation_exists("md-a-1"), remediation_exists("md-a-2")]),
        )
        .step(kubelet("md-a-1", KubeletAction::FreeDisk))
        .step(kubelet("md-a-2", KubeletAction::FreeDisk))
        .eventually(
            2 * joining(),
            all([not(remediation_exists("md-a-1")), not(remediation_exists("md-a-2"))]),
        )
        .eventually(2 * slack(), recovered(3))
}

/// M12: power-cycles do not help, and the machine is deleted.
fn escalates() -> Scenario {
    let story = Scenario::new(
        "health_check_escalates",
        "Power-cycles do not help a machine whose disk is full: after the last retry it is deleted and replaced.",
    );
    let spec = json!({ "strategy": "Escalate", "retryLimit": 2, "timeout": "5s" });
    repaired(story, 2, &spec, by_template())
        .step(kubelet("md-a-1", KubeletAction::FillDisk))
        .eventually(acting(), remediation_exists("md-a-1"))
        .eventually(
            2 * joining(),
            field("FakeCloudRemediation", "md-a-1", "/status/retryCount", 2),
        )
        .eventually(4 * joining(), machine_gone("md-a-1"))
        .eventually(2 * slack(), not(remediation_exists("md-a-1")))
        .eventually(joining() + slack(), recovered(2))
}

/// Bad input: a template that does not exist.
fn missing_template() -> Scenario {
    let story = Scenario::new(
        "health_check_missing_template",
        "The template of a check does not exist: the machine says so, and gets its request when the template is created.",
    );
    let spec = json!({ "strategy": "Reboot" });
    repaired(story, 2, &spec, json!({ "remediationTemplate": reference("missing") }))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(
            acting(),
            machine_reason(
                "md-a-1",
                keys::EXTERNALLY_REMEDIATED,
                "False",
                "RemediationTemplateNotFound",
            ),
        )
        .never(slack(), remediation_exists("md-a-1"))
        .may_miss()
        .step(template("missing", &spec))
        .eventually(2 * slack(), remediation_exists("md-a-1"))
        .eventually(2 * joining(), not(remediation_exists("md-a-1")))
        .eventually(2 * slack(), recovered(2))
}

/// Two templates: the second is tried when the first does not help in time.
fn two_templates() -> Value {
    full_disk(json!({ "escalatingRemediations": [
        { "remediationTemplate": reference("repair"), "order": 1, "timeout": "1m" },
        { "remediationTemplate": reference("rebuild"), "order": 2, "timeout": "10m" },
    ] }))
}

/// The request for the machine was created from that template.
fn requested_from(machine: &str, template: &str) -> Condition {
    let annotation = format!(
        "/metadata/annotations/{}",
        keys::CLONED_FROM_NAME_ANNOTATION.replace('/', "~1")
    );
    field("FakeCloudRemediation", machine, &annotation, template)
}

/// M19.
fn next_template() -> Scenario {
    let story = Scenario::new(
        "health_check_next_template",
        "A power-cycle does not help a machine whose disk is full: the next template rebuilds its VM, and the machine stays.",
    );
    let spec = json!({ "strategy": "Reboot", "timeout": "30m" });
    repaired(
        story.step(template("rebuild", &json!({ "strategy": "Rebuild", "timeout": "30m" }))),
        2,
        &spec,
        two_templates(),
    )
    .throughout(not(requested("md-a-1")))
    .step(kubelet("md-a-1", KubeletAction::FillDisk))
    .eventually(acting(), requested_from("md-a-1", "repair"))
    .always(seconds(55), failed("md-a-1"))
    .eventually(3 * slack(), requested_from("md-a-1", "rebuild"))
    .eventually(2 * joining(), passed("md-a-1"))
    .eventually(2 * slack(), all([not(remediation_exists("md-a-1")), recovered(2)]))
    .eventually(slack(), phase("md-a-1", Phase::Running))
}

/// M19: nothing repairs the machine.
fn last_template() -> Scenario {
    let story = Scenario::new(
        "health_check_last_template",
        "A power-cycle does not help a machine whose disk is full: the last template deletes it, and its set replaces it.",
    );
    let templates = json!({ "escalatingRemediations": [
        { "remediationTemplate": reference("repair"), "order": 1, "timeout": "1m" },
        { "remediationTemplate": reference("delete"), "order": 2, "timeout": "10m" },
    ] });
    repaired(
        story.step(template("delete", &json!({ "strategy": "Delete" }))),
        2,
        &json!({ "strategy": "Reboot", "timeout": "30m" }),
        full_disk(templates),
    )
    .step(kubelet("md-a-1", KubeletAction::FillDisk))
    .eventually(acting(), requested_from("md-a-1", "repair"))
    .always(seconds(55), failed("md-a-1"))
    .eventually(3 * slack() + joining(), machine_gone("md-a-1"))
    .eventually(joining() + slack(), recovered(2))
}

/// M19: the machine recovers while the second template works; mcm restarts in between.
fn cancelled() -> Scenario {
    let story = Scenario::new(
        "health_check_cancelled",
        "A machine recovers by itself during the second remediation, after a restart of mcm: the request is deleted.",
    );
    let spec = json!({ "strategy": "Reboot", "timeout": "30m" });
    repaired(
        story.step(template("rebuild", &json!({ "strategy": "Reboot", "timeout": "30m" }))),
        2,
        &spec,
        two_templates(),
    )
    .step(kubelet("md-a-1", KubeletAction::FillDisk))
    .eventually(acting(), requested_from("md-a-1", "repair"))
    .step(wait(seconds(50)))
    .step(mcm(ProcessAction::Restart))
    .eventually(seconds(10) + 4 * slack(), requested_from("md-a-1", "rebuild"))
    .step(kubelet("md-a-1", KubeletAction::FreeDisk))
    .eventually(
        2 * joining(),
        all([passed("md-a-1"), not(remediation_exists("md-a-1"))]),
    )
    .eventually(2 * slack(), recovered(2))
}

/// The template of a check changes while a request of the old one exists.
fn template_edited() -> Scenario {
    let story = Scenario::new(
        "health_check_template_edited",
        "A check returns to replacement by the owner while a request exists: the request is deleted, and the owner replaces.",
    );
    rebooting(story, 2, by_template())
        .step(kubelet("md-a-1", KubeletAction::FillDisk))
        .eventually(acting(), remediation_exists("md-a-1"))
        .step(merge(
            "MachineHealthCheck",
            crate::regressions::health_check_steps::CHECK,
            json!({ "spec": { "remediationTemplate": null } }),
        ))
        .eventually(2 * joining(), not(remediation_exists("md-a-1")))
        .eventually(2 * joining(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), healthy(2, 2))
}
