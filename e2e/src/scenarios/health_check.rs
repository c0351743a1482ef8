//! Health checks: what is unhealthy, what is requested, and what people may say about it.

use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{
    all, annotate, any, apply, boot_delay, event_count, flap, health_timeout, kubelet, machine_gone, node_grace, not,
    phase, seconds, slack, unchanged, vm_count, wait,
};
use scenario::step::KubeletAction;
use serde_json::json;

use super::joining;
use crate::regressions::external_remediation::full_disk;
use crate::regressions::health_check_steps::{
    CHECK, acting, check, check_condition, check_status, checked, checked_pool, failed, healthy, machine_reason,
    not_ready, passed, recovered, requested,
};
use crate::regressions::worlds::{Pool, merge, pool, settled};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        not_ready_machine(),
        recovers_in_time(),
        never_joins(),
        may_take_any_time(),
        joins_as_usual(),
        node_deleted(),
        annotations(),
        conditions_survive(),
        only_authority(),
        mcm_is_first(),
        phase_of_a_machine(),
        both_spellings(),
        says_why_and_when(),
    ]
}

/// M1.
fn not_ready_machine() -> Scenario {
    let story = Scenario::new(
        "health_check_replaces",
        "The node of a machine is not Ready for longer than its check allows: the machine is marked, fails, and is replaced.",
    );
    checked(story, 3, json!({ "maxUnhealthy": "40%" }))
        .eventually(slack(), all(["md-a-1", "md-a-2", "md-a-3"].map(passed)))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        // A process that dies between a write and its event loses the event.
        .eventually(
            acting() + joining(),
            any([
                event_count("Machine", "md-a-1", "MachineMarkedUnhealthy", 1),
                machine_gone("md-a-1"),
            ]),
        )
        .eventually(
            2 * slack(),
            any([
                event_count("Machine", "md-a-1", "MachineFailed", 1),
                machine_gone("md-a-1"),
            ]),
        )
        .eventually(joining(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), recovered(3))
        .always(
            slack(),
            all(["md-a-2", "md-a-3"].map(|machine| phase(machine, Phase::Running))),
        )
        .quiet_end(slack())
}

/// M2.
fn recovers_in_time() -> Scenario {
    let story = Scenario::new(
        "health_check_recovers_in_time",
        "The node of a machine is Ready again before the timeout ends: nothing is requested.",
    );
    checked(story, 2, json!({ "unhealthyConditions": not_ready("10m") }))
        .throughout(all(["md-a-1", "md-a-2"].map(|machine| not(requested(machine)))))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(
            acting(),
            all([
                healthy(2, 1),
                check_status("unhealthy/0/reason", "Pending"),
                phase("md-a-1", Phase::Unknown),
            ]),
        )
        .step(kubelet("md-a-1", KubeletAction::Start))
        .eventually(2 * slack(), recovered(2))
        .always(slack(), unchanged("Machine", "md-a-1", "/metadata/uid"))
}

/// M3: a kubelet that never starts. The VM is held before its node joins.
fn never_joins() -> Scenario {
    let story = Scenario::new(
        "health_check_startup",
        "The node of a new machine does not join: the machine is marked after the startup timeout, and not before.",
    );
    held(story, "30s")
        .never(seconds(29), failed("m-1"))
        .eventually(
            2 * slack(),
            all([
                machine_reason("m-1", keys::HEALTH_CHECK_SUCCEEDED, "False", "NodeStartupTimeout"),
                requested("m-1"),
            ]),
        )
        .eventually(slack(), event_count("Machine", "m-1", "NoOwner", 1))
        .always(slack(), vm_count("m-1", 1))
}

/// M3 without a startup timeout.
fn may_take_any_time() -> Scenario {
    let story = Scenario::new(
        "health_check_without_startup_timeout",
        "The node of a new machine does not join, and there is no startup timeout: the machine is never marked.",
    );
    held(story, "0s").never(seconds(40), failed("m-1"))
}

/// A machine whose node does not join, and the usual check with this startup timeout.
fn held(story: Scenario, startup_timeout: &str) -> Scenario {
    story
        .boots_in(seconds(600))
        .health_checks()
        .step(apply(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "Machine",
            "metadata": { "name": "m-1", "labels": { "name": "md-a" } },
            "spec": { "class": { "kind": "MachineClass", "name": "class-a" }, "creationTimeout": "1h0m0s" },
        })))
        .step(check(json!({ "nodeStartupTimeout": startup_timeout })))
}

/// A machine has the label `node` before its node joins, which is not a node that was deleted.
fn joins_as_usual() -> Scenario {
    let story = Scenario::new(
        "health_check_of_new_machines",
        "Machines that are created while a check is active join without being marked.",
    );
    story
        .health_checks()
        .step(check(json!({ "nodeStartupTimeout": "1h" })))
        .throughout(not(any(["md-a-1", "md-a-2"].map(failed))))
        .step(pool(2).machine("md-a-1", "class-a"))
        .step(pool(2).machine("md-a-2", "class-a"))
        .eventually(joining(), all(["md-a-1", "md-a-2"].map(passed)))
        .step(pool(2).deployment())
        .eventually(slack(), recovered(2))
}

/// M4.
fn node_deleted() -> Scenario {
    let story = Scenario::new(
        "health_check_node_deleted",
        "The Node of a machine is deleted: its machine is replaced at once.",
    );
    checked(story, 2, full_disk(json!({})))
        .step(scenario::builder::delete("Node", "md-a-1"))
        .eventually(joining(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), recovered(2))
}

/// M8.
fn annotations() -> Scenario {
    let story = Scenario::new(
        "health_check_annotations",
        "Annotations exclude machines, pause a check, and request a replacement; the value false does not.",
    );
    // mcm itself does not replace the machine that the check excludes.
    let patient = Pool {
        patient: true,
        ..pool(3)
    };
    checked_pool(story, &patient, full_disk(json!({})))
        .step(annotate("Machine", "md-a-1", keys::SKIP_REMEDIATION_ANNOTATION, "true"))
        .eventually(slack(), healthy(2, 2))
        .step(kubelet("md-a-1", KubeletAction::FillDisk))
        .never(2 * slack(), requested("md-a-1"))
        .step(kubelet("md-a-1", KubeletAction::FreeDisk))
        .eventually(2 * slack(), phase("md-a-1", Phase::Running))
        .step(annotate(
            "Machine",
            "md-a-1",
            keys::SKIP_REMEDIATION_ANNOTATION,
            "false",
        ))
        .eventually(slack(), healthy(3, 3))
        .step(annotate("Machine", "md-a-3", keys::PAUSED_ANNOTATION, "true"))
        .eventually(slack(), healthy(2, 2))
        .step(annotate("Machine", "md-a-3", keys::REMEDIATE_MACHINE_ANNOTATION, ""))
        .never(slack(), requested("md-a-3"))
        .step(annotate(
            "Machine",
            "md-a-3",
            keys::REMEDIATE_MACHINE_ANNOTATION,
            "false",
        ))
        .step(annotate("Machine", "md-a-3", keys::PAUSED_ANNOTATION, "false"))
        .eventually(slack(), healthy(3, 3))
        .step(annotate("MachineHealthCheck", CHECK, keys::CAPI_PAUSED_ANNOTATION, ""))
        .eventually(slack(), check_condition("Paused", "True", "Paused"))
        .step(annotate("Machine", "md-a-2", keys::REMEDIATE_MACHINE_ANNOTATION, ""))
        .never(slack(), requested("md-a-2"))
        .step(annotate(
            "MachineHealthCheck",
            CHECK,
            keys::CAPI_PAUSED_ANNOTATION,
            "false",
        ))
        .eventually(2 * slack() + boot_delay(), machine_gone("md-a-2"))
        .eventually(joining() + slack(), recovered(3))
}

/// M9.
fn conditions_survive() -> Scenario {
    let story = Scenario::new(
        "health_check_conditions_survive",
        "Conditions of a node change for a while: the conditions of the health check stay on the machine.",
    );
    let kept = Pool {
        kept_for: Some("24h0m0s"),
        ..pool(1)
    };
    checked_pool(story, &kept, json!({}))
        .eventually(slack(), passed("md-a-1"))
        .step(annotate("Machine", "md-a-1", keys::PRESERVE_ANNOTATION, "now"))
        .eventually(slack(), phase("md-a-1", Phase::RunningPreserved))
        .step(annotate(
            "Machine",
            "md-a-1",
            keys::REMEDIATE_MACHINE_ANNOTATION,
            "true",
        ))
        .eventually(
            2 * slack(),
            all([
                failed("md-a-1"),
                machine_reason("md-a-1", keys::OWNER_REMEDIATED, "False", "RemediationDeferred"),
            ]),
        )
        .always(2 * slack(), all([failed("md-a-1"), requested("md-a-1")]))
        .meanwhile()
        .step(flap(
            "md-a-1",
            "MemoryPressure",
            ["True", "False"],
            seconds(1),
            2 * slack(),
        ))
        .eventually(slack(), all([failed("md-a-1"), requested("md-a-1")]))
}

/// M10.
fn only_authority() -> Scenario {
    let story = Scenario::new(
        "health_check_only_authority",
        "With a disabled health timeout mcm never replaces a machine by itself; a health check does.",
    );
    let machine = |name: &str| {
        apply(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "Machine",
            "metadata": { "name": name, "labels": { "name": "ms-a" } },
            "spec": { "class": { "kind": "MachineClass", "name": "class-a" }, "disableHealthTimeout": true },
        }))
    };
    story
        .health_checks()
        .steps(["m-1", "m-2"].map(machine))
        .eventually(joining(), all(["m-1", "m-2"].map(|name| phase(name, Phase::Running))))
        .step(apply(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "MachineSet",
            "metadata": { "name": "ms-a" },
            "spec": {
                "replicas": 2,
                "selector": { "matchLabels": { "name": "ms-a" } },
                "template": {
                    "metadata": { "labels": { "name": "ms-a" } },
                    "spec": { "class": { "kind": "MachineClass", "name": "class-a" }, "disableHealthTimeout": true },
                },
            },
        })))
        .step(kubelet("m-1", KubeletAction::Stop))
        .eventually(acting(), phase("m-1", Phase::Unknown))
        .always(health_timeout() + slack(), phase("m-1", Phase::Unknown))
        .step(crate::regressions::health_check_steps::check_named(
            CHECK,
            "ms-a",
            json!({}),
        ))
        .eventually(2 * slack() + boot_delay(), machine_gone("m-1"))
        .eventually(joining() + slack(), healthy(2, 2))
}

/// M10: mcm's health timeout ends before the check's.
fn mcm_is_first() -> Scenario {
    let story = Scenario::new(
        "health_check_mcm_is_first",
        "mcm's health timeout is shorter than that of the check: mcm replaces the machine, once.",
    );
    checked(story, 2, json!({ "unhealthyConditions": not_ready("1h") }))
        .throughout(not(requested("md-a-1")))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(
            node_grace() + health_timeout() + 2 * slack() + boot_delay(),
            machine_gone("md-a-1"),
        )
        .eventually(joining() + slack(), recovered(2))
}

/// D9: a phase of mcm.
fn phase_of_a_machine() -> Scenario {
    let story = Scenario::new(
        "health_check_of_a_phase",
        "A machine is Unknown for longer than its check allows: it is replaced before mcm's health timeout.",
    );
    let rules = json!([{ "type": "Phase=Unknown", "status": "True", "timeout": "2s" }]);
    checked(
        story,
        2,
        json!({ "unhealthyConditions": [], "unhealthyMachineConditions": rules }),
    )
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(acting(), event_count("Machine", "md-a-1", "MachineMarkedUnhealthy", 1))
    .eventually(joining(), machine_gone("md-a-1"))
    .eventually(joining() + slack(), recovered(2))
}

/// M16: the spelling of Cluster API's v1beta2.
fn both_spellings() -> Scenario {
    let story = Scenario::new(
        "health_check_as_in_cluster_api",
        "A check in the spelling of Cluster API's v1beta2 replaces an unhealthy machine.",
    );
    let nested = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineHealthCheck",
        "metadata": { "name": CHECK },
        "spec": {
            "clusterName": "drydock",
            "selector": { "matchLabels": { "name": "md-a" } },
            "checks": {
                "nodeStartupTimeoutSeconds": 600,
                "unhealthyNodeConditions": [{ "type": "Ready", "status": "Unknown", "timeoutSeconds": 2 }],
            },
            "remediation": { "triggerIf": { "unhealthyLessThanOrEqualTo": "50%" } },
        },
    });
    settled(story.health_checks(), &[pool(2)])
        .step(apply(nested))
        .eventually(slack(), healthy(2, 2))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(acting() + joining(), machine_gone("md-a-1"))
        .eventually(joining() + slack(), recovered(2))
}

/// M22.
fn says_why_and_when() -> Scenario {
    let story = Scenario::new(
        "health_check_says_why",
        "The status of a check names each machine that is not healthy, why, and when it is checked again.",
    );
    checked(
        story,
        2,
        json!({ "unhealthyConditions": not_ready("10m"), "maxUnhealthy": 0 }),
    )
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(
        acting(),
        all([
            check_status("unhealthy/0/machine", "md-a-1"),
            check_status("unhealthy/0/reason", "Pending"),
            not(check_status("unhealthy/0/nextCheck", serde_json::Value::Null)),
            check_condition("RemediationAllowed", "False", "TooManyUnhealthy"),
        ]),
    )
    .step(merge(
        "MachineHealthCheck",
        CHECK,
        json!({ "spec": { "unhealthyConditions": not_ready("1s"), "maxUnhealthy": "50%" } }),
    ))
    .eventually(2 * slack() + boot_delay(), machine_gone("md-a-1"))
    .step(wait(slack()))
    .eventually(joining() + slack(), recovered(2))
}
