//! The health of one machine: the cases of Cluster API's tests, and those of mcm's own states.

use jiff::Timestamp;
use mcm_api::Machine;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::{Connection, Health, Settings, Target, evaluate, normalize};
use super::{ago, annotated, check, later, machine, now, target, with, without_node};

fn health_with(target: &Target, spec: Value, connection: Connection) -> Health {
    let policy = normalize(&check(spec).spec, "garden").unwrap();
    evaluate(target, &policy, connection, &Settings::default(), now())
}

fn health(target: &Target, spec: Value) -> Health {
    health_with(target, spec, Connection::default())
}

/// The short form of a result: `healthy`, `pending NEXT`, the reason, or `not counted`.
fn short(health: &Health) -> String {
    match health {
        Health::Healthy => "healthy".to_owned(),
        Health::Pending { next: None, .. } => "pending".to_owned(),
        Health::Pending { next: Some(next), .. } => {
            format!("pending {}", next.duration_since(now()).as_secs())
        }
        Health::Unhealthy { reason, .. } => (*reason).to_owned(),
        Health::NotCounted => "not counted".to_owned(),
    }
}

/// A machine of that age whose node has not joined, although it has the label.
fn booting(seconds: i64) -> Machine {
    let young = with(machine("m-1"), "/metadata/creationTimestamp", json!(ago(seconds)));
    with(young, "/status/conditions", json!([]))
}

#[rstest]
#[case::ready(&[("Ready", "True", 9000)], "healthy")]
#[case::no_conditions(&[], "healthy")]
#[case::unknown_for_200s(&[("Ready", "Unknown", 200)], "pending 101")]
#[case::unknown_for_exactly_the_timeout(&[("Ready", "Unknown", 300)], "pending 1")]
#[case::unknown_for_longer(&[("Ready", "Unknown", 301)], "UnhealthyNode")]
#[case::false_for_longer(&[("Ready", "False", 400)], "UnhealthyNode")]
#[case::another_condition(&[("DiskPressure", "True", 400)], "healthy")]
fn a_node_condition_is_unhealthy_when_it_lasts_longer_than_its_timeout(
    #[case] conditions: &[(&str, &str, i64)],
    #[case] expected: &str,
) {
    assert_eq!(short(&health(&target(machine("m-1"), conditions), json!({}))), expected);
}

/// A timeout that is about to end does not hide one that ended long ago.
#[test]
fn all_conditions_are_evaluated() {
    let spec = json!({ "unhealthyConditions": [
        { "type": "Ready", "status": "Unknown", "timeout": "5m" },
        { "type": "DiskPressure", "status": "True", "timeout": "1m" },
    ] });
    let conditions = [("Ready", "Unknown", 299), ("DiskPressure", "True", 4000)];
    let Health::Unhealthy { message, since, .. } = health(&target(machine("m-1"), &conditions), spec) else {
        panic!("healthy");
    };
    assert_eq!(
        message,
        "Health check failed:\n  * the condition DiskPressure of the Node is True for more than 1m0s"
    );
    assert_eq!(since.unwrap().to_string(), ago(4000));
}

#[rstest]
#[case::young(400, json!({}), "pending 201")]
#[case::old(601, json!({}), "NodeStartupTimeout")]
#[case::long_timeout(601, json!({ "nodeStartupTimeout": "20m" }), "pending 600")]
#[case::disabled(90_000, json!({ "nodeStartupTimeout": "0s" }), "not counted")]
fn a_machine_whose_node_has_not_joined_has_the_startup_timeout(
    #[case] age: i64,
    #[case] spec: Value,
    #[case] expected: &str,
) {
    assert_eq!(short(&health(&without_node(booting(age)), spec)), expected);
}

#[test]
fn a_node_that_joined_and_is_gone_was_deleted() {
    let Health::Unhealthy { reason, message, .. } = health(&without_node(machine("m-1")), json!({})) else {
        panic!("healthy");
    };
    assert_eq!(reason, "NodeDeleted");
    assert!(message.ends_with("the Node m-1 has been deleted"), "{message}");
}

/// A condition of a health check, or of another controller, is not one of the node.
#[rstest]
#[case::of_a_check(json!({ "type": "HealthCheckSucceeded", "status": "False" }), "pending 501")]
#[case::of_another_controller(json!({ "type": "example.com/Disk", "status": "False" }), "pending 501")]
#[case::of_the_node(json!({ "type": "Ready", "status": "False" }), "NodeDeleted")]
#[case::of_a_program_on_the_node(
    json!({ "type": "example.com/Disk", "status": "False", "lastHeartbeatTime": ago(9) }),
    "NodeDeleted"
)]
fn only_a_condition_of_the_node_shows_that_a_machine_has_joined(#[case] condition: Value, #[case] expected: &str) {
    let machine = with(booting(100), "/status/conditions", json!([condition]));
    assert_eq!(short(&health(&without_node(machine), json!({}))), expected);
}

#[rstest]
#[case::condition_below("Degraded", json!([{ "type": "Degraded", "status": "True", "lastTransitionTime": ago(200) }]), "pending 101")]
#[case::condition_above("Degraded", json!([{ "type": "Degraded", "status": "True", "lastTransitionTime": ago(400) }]), "UnhealthyMachine")]
#[case::other_status("Degraded", json!([{ "type": "Degraded", "status": "False", "lastTransitionTime": ago(400) }]), "healthy")]
fn a_machine_condition_has_a_timeout_too(#[case] type_: &str, #[case] conditions: Value, #[case] expected: &str) {
    let spec = json!({ "unhealthyMachineConditions": [{ "type": type_, "status": "True", "timeout": "5m" }] });
    let machine = with(machine("m-1"), "/status/conditions", conditions);
    assert_eq!(
        short(&health(&target(machine, &[("Ready", "True", 9000)]), spec)),
        expected
    );
}

#[rstest]
#[case::below(1700, "pending 101")]
#[case::above(1801, "UnhealthyMachine")]
fn a_phase_has_a_timeout(#[case] seconds: i64, #[case] expected: &str) {
    let spec = json!({
        "unhealthyMachineConditions": [{ "type": "Phase=CrashLoopBackOff", "status": "True", "timeout": "30m" }],
        "nodeStartupTimeout": "0s",
    });
    let status = json!({ "phase": "CrashLoopBackOff", "lastUpdateTime": ago(seconds) });
    let machine = with(booting(9000), "/status/currentStatus", status);
    assert_eq!(short(&health(&without_node(machine), spec)), expected);
}

#[rstest]
#[case::deleting("/metadata/deletionTimestamp", json!(ago(10)), "not counted")]
#[case::requested("/metadata/annotations", json!({ "machine.sapcloud.io/remediate-machine": "" }), "HasRemediateAnnotation")]
#[case::requested_as_in_cluster_api("/metadata/annotations", json!({ "cluster.x-k8s.io/remediate-machine": "yes" }), "HasRemediateAnnotation")]
#[case::not_requested("/metadata/annotations", json!({ "machine.sapcloud.io/remediate-machine": "false" }), "healthy")]
#[case::updated_in_place("/status/currentStatus", json!({ "phase": "InPlaceUpdating" }), "pending")]
fn the_state_of_a_machine_comes_first(#[case] pointer: &str, #[case] value: Value, #[case] expected: &str) {
    let machine = with(machine("m-1"), pointer, value);
    assert_eq!(
        short(&health(&target(machine, &[("Ready", "True", 9000)]), json!({}))),
        expected
    );
}

/// A machine that failed its check counts as healthy only after the delay; one that never failed at once.
#[rstest]
#[case::failed_before(json!([{ "type": "HealthCheckSucceeded", "status": "False" }]), 30, "pending 30")]
#[case::healthy_for_long_enough(json!([{ "type": "HealthCheckSucceeded", "status": "False" }]), 60, "healthy")]
#[case::never_failed(json!([]), 30, "healthy")]
fn a_machine_that_failed_must_be_healthy_for_the_delay(
    #[case] conditions: Value,
    #[case] seconds: i64,
    #[case] expected: &str,
) {
    let machine = with(machine("m-1"), "/status/conditions", conditions);
    let target = target(machine, &[("Ready", "True", seconds)]);
    assert_eq!(short(&health(&target, json!({ "healthyDelay": "1m" }))), expected);
}

/// An outage is not charged: a timeout counts from the end of the last one and a minute of grace.
#[rstest]
#[case::just_over(later(-10), "pending 351")]
#[case::long_over(later(-400), "UnhealthyNode")]
#[case::at_the_limit(later(-360), "pending 1")]
fn timeouts_begin_after_an_outage(#[case] end: Timestamp, #[case] expected: &str) {
    let target = target(machine("m-1"), &[("Ready", "Unknown", 3600)]);
    let connection = Connection::Up {
        since: None,
        after_outage: Some(end),
    };
    assert_eq!(short(&health_with(&target, json!({}), connection)), expected);
}

#[test]
fn a_condition_without_a_time_lasts_since_its_node_exists() {
    let mut target = target(machine("m-1"), &[]);
    let node = json!({
        "metadata": { "name": "m-1", "creationTimestamp": ago(100) },
        "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] },
    });
    target.node = super::NodeState::Present(std::sync::Arc::new(serde_json::from_value(node).unwrap()));
    assert_eq!(short(&health(&target, json!({}))), "pending 201");
}

#[test]
fn an_annotated_machine_is_unhealthy_without_its_node() {
    let machine = annotated(booting(5), json!({ "machine.sapcloud.io/remediate-machine": "true" }));
    assert_eq!(
        short(&health(&without_node(machine), json!({}))),
        "HasRemediateAnnotation"
    );
}
