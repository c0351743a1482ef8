//! Requests about machines that no check evaluates any more.

use mcm_api::{Machine, MachineHealthCheck};
use rstest::rstest;
use serde_json::{Value, json};

use crate::health_check::{Selection, withdrawn};

/// A machine of the pool that a check marked, with these conditions beside those of its Node.
fn machine(change: Value) -> Machine {
    let mut machine = json!({
        "metadata": { "name": "m", "labels": { "name": "pool" } },
        "status": {
            "currentStatus": { "phase": "Running" },
            "conditions": [
                { "type": "Ready", "status": "False" },
                { "type": "HealthCheckSucceeded", "status": "False", "reason": "UnhealthyNode" },
                { "type": "OwnerRemediated", "status": "False", "reason": "WaitingForRemediation" },
                { "type": "ExternallyRemediated", "status": "False", "reason": "WaitingForRemediation" },
            ],
        },
    });
    json_patch::merge(&mut machine, &change);
    serde_json::from_value(machine).unwrap()
}

/// A check of this pool.
fn check(pool: &str, change: Value) -> MachineHealthCheck {
    let mut check = json!({
        "metadata": { "name": "check", "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "name": pool } } },
    });
    json_patch::merge(&mut check, &change);
    serde_json::from_value(check).unwrap()
}

fn paused() -> Value {
    json!({ "metadata": { "annotations": { mcm_api::keys::PAUSED_ANNOTATION: "" } } })
}

fn invalid() -> Value {
    json!({ "spec": { "unhealthyRange": "[3-2]" } })
}

fn types(machine: &Machine, checks: &[MachineHealthCheck]) -> Option<Vec<String>> {
    let selections: Vec<Selection> = checks.iter().filter_map(|check| Selection::of(check, true)).collect();
    let conditions = withdrawn(machine, &selections)?;
    Some(conditions.into_iter().map(|condition| condition.type_).collect())
}

#[rstest]
#[case::no_check(vec![], true)]
#[case::of_its_pool(vec![check("pool", json!({}))], false)]
#[case::of_another_pool(vec![check("other", json!({}))], true)]
#[case::of_both_pools(vec![check("other", json!({})), check("pool", json!({}))], false)]
#[case::two_of_its_pool(vec![check("pool", json!({})), check("pool", json!({}))], true)]
#[case::a_paused_one(vec![check("pool", paused())], false)]
#[case::a_paused_one_and_another(vec![check("pool", paused()), check("pool", json!({}))], false)]
#[case::an_invalid_one(vec![check("pool", invalid())], true)]
#[case::an_invalid_one_and_another(vec![check("pool", invalid()), check("pool", json!({}))], true)]
#[case::an_invalid_one_that_is_paused(vec![check("pool", { let mut both = invalid(); json_patch::merge(&mut both, &paused()); both })], false)]
#[case::one_that_is_being_deleted(vec![check("pool", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }))], true)]
fn a_request_needs_one_check_that_evaluates_the_machine(#[case] checks: Vec<MachineHealthCheck>, #[case] ends: bool) {
    let expected = ends.then(|| vec!["Ready".to_owned()]);
    assert_eq!(types(&machine(json!({})), &checks), expected);
}

/// The conditions `HealthCheckSucceeded` with this status and reason, and a request.
fn conditions(status: &str, reason: &str) -> Value {
    json!({ "status": { "conditions": [
        { "type": "HealthCheckSucceeded", "status": status, "reason": reason },
        { "type": "OwnerRemediated", "status": "False", "reason": "RemediationDeferred" },
    ] } })
}

#[rstest]
#[case::its_node_is_deleted(conditions("False", "NodeDeleted"), true)]
#[case::a_user_requests_it(conditions("False", "HasRemediateAnnotation"), true)]
#[case::it_is_healthy(conditions("True", "HealthCheckSucceeded"), false)]
#[case::the_check_of_another_controller(conditions("False", "DiskIsSlow"), false)]
#[case::without_conditions(json!({ "status": { "conditions": [] } }), false)]
#[case::it_failed(json!({ "status": { "currentStatus": { "phase": "Failed" } } }), false)]
#[case::it_failed_and_is_preserved(
    json!({ "status": { "currentStatus": { "phase": "Failed", "preserveExpiryTime": "2030-01-01T00:00:00Z" } } }),
    true
)]
#[case::it_terminates(json!({ "status": { "currentStatus": { "phase": "Terminating" } } }), false)]
#[case::it_is_being_deleted(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), false)]
fn a_replacement_that_has_begun_and_other_conditions_stay(#[case] change: Value, #[case] ends: bool) {
    assert_eq!(types(&machine(change), &[]).is_some(), ends);
}

#[test]
fn a_check_that_is_not_decoded_completely_evaluates_nothing() {
    let selections: Vec<Selection> = Selection::of(&check("pool", json!({})), false).into_iter().collect();
    assert!(withdrawn(&machine(json!({})), &selections).is_some());
}
