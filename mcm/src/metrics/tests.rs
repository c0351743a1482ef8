//! Names and labels of metrics, on which dashboards rely.

use kube::runtime::watcher::Event;
use mcm_api::machine::CurrentStatus;
use mcm_api::{PreservedBy, keys};
use mcm_core::preservation::{Refusal, Release};
use serde_json::{Value, json};

use super::*;

fn machine() -> Machine {
    let mut machine = Machine::default();
    machine.metadata.name = Some("m1".into());
    machine.metadata.namespace = Some("default".into());
    machine.metadata.labels = Some([("name".to_owned(), "pool".to_owned())].into());
    machine.spec.provider_id = "fakecloud:///z/m1".into();
    machine.status.current_status = CurrentStatus {
        phase: Some(Phase::Failed),
        ..CurrentStatus::default()
    };
    machine
}

#[test]
fn a_scrape_has_upstreams_names() {
    let metrics = Metrics::new();
    let cache = Cache::new();
    metrics.show(cache.clone());
    cache.apply(Event::Apply(machine()));
    metrics.observe(&Metric::JoinDuration(Duration::from_millis(41_600)), &machine(), None);
    metrics.observe(&Metric::DrainDuration(Duration::from_secs(90)), &machine(), None);
    metrics.observe(&Metric::FailedJoin, &machine(), None);
    metrics.observe_call(
        "fake",
        "CreateMachine",
        Duration::from_millis(20),
        Some(Code::ResourceExhausted),
    );
    metrics.count_request("control", "GET", 200);
    let text = metrics.text();
    for line in [
        "mcm_machine_items_total 1",
        r#"mcm_machine_current_status_phase{name="m1",namespace="default"} -3"#,
        r#"mcm_machine_join_duration_seconds{namespace="default",machine_deployment="pool",instance_type="",zone=""} 42.0"#,
        r#"mcm_machine_drain_duration_seconds{namespace="default",machine_deployment="pool"} 90.0"#,
        r#"mcm_machine_num_failed_join{namespace="default",machine_deployment="pool",instance_type="",zone=""} 1"#,
        r#"mcm_cloud_api_driver_requests_failed_total{provider="fake",operation="CreateMachine",error_code="ResourceExhausted"} 1"#,
        r#"mcm_cloud_api_driver_request_duration_seconds_count{provider="fake",operation="CreateMachine"} 1"#,
        r#"mcm_cloud_api_api_request_duration_seconds_count{provider="fake",service="CreateMachine"} 1"#,
        r#"mcm_kube_api_requests_total{cluster="control",method="GET",code="200"} 1"#,
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in\n{text}");
    }
    assert!(text.contains(r#"spec_provider_id="fakecloud:///z/m1""#));
}

#[test]
fn metrics_of_a_deleted_machine_disappear() {
    let metrics = Metrics::new();
    let cache = Cache::new();
    metrics.show(cache.clone());
    cache.apply(Event::Apply(machine()));
    cache.apply(Event::Delete(machine()));
    assert!(!metrics.text().contains("m1"));
}

#[test]
fn a_scrape_has_upstreams_metrics_of_sets_and_deployments() {
    let metrics = Metrics::new();
    let (sets, deployments) = (Cache::new(), Cache::new());
    metrics.show_owners(sets.clone(), deployments.clone());
    let set = serde_json::json!({
        "metadata": { "name": "ms", "namespace": "default" },
        "spec": { "replicas": 3 },
        "status": {
            "replicas": 2, "readyReplicas": 1,
            "machineSetCondition": [{ "type": "Frozen", "status": "True" }],
            "failedMachines": [{
                "name": "m1", "ownerRef": "ms", "lastOperation": { "state": "Failed", "type": "HealthCheck" },
            }],
        },
    });
    sets.apply(Event::Apply(serde_json::from_value::<MachineSet>(set).unwrap()));
    let deployment = serde_json::json!({
        "metadata": { "name": "md", "namespace": "default" },
        "spec": {
            "replicas": 10, "paused": true,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 1 } },
        },
        "status": { "updatedReplicas": 4, "collisionCount": 1 },
    });
    deployments.apply(Event::Apply(
        serde_json::from_value::<MachineDeployment>(deployment).unwrap(),
    ));
    metrics.count_stale(2);
    let text = metrics.text();
    for line in [
        "mcm_machine_set_items_total 1",
        r#"mcm_machine_set_info_spec_replicas{name="ms",namespace="default"} 3"#,
        r#"mcm_machine_set_status_replicas{name="ms",namespace="default"} 2"#,
        r#"mcm_machine_set_status_ready_replicas{name="ms",namespace="default"} 1"#,
        r#"mcm_machine_set_status_condition{name="ms",namespace="default",condition="Frozen"} 1"#,
        r#"mcm_machine_set_failed_machines{name="ms",namespace="default",failed_machine_name="m1",failed_machine_provider_id="",failed_machine_owner_ref="ms",failed_machine_last_operation_state="Failed",failed_machine_last_operation_machine_operation_type="HealthCheck"} 1"#,
        "mcm_machine_deployment_items_total 1",
        r#"mcm_machine_deployment_info{name="md",namespace="default",createdAt="",spec_strategy_type="RollingUpdate"} 1"#,
        r#"mcm_machine_deployment_info_spec_paused{name="md",namespace="default"} 1"#,
        r#"mcm_machine_deployment_info_spec_rolling_update_max_surge{name="md",namespace="default"} 3"#,
        r#"mcm_machine_deployment_status_updated_replicas{name="md",namespace="default"} 4"#,
        r#"mcm_machine_deployment_status_collision_count{name="md",namespace="default"} 1"#,
        "mcm_machine_stale_machines_total 2",
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in\n{text}");
    }
    assert!(
        !text.contains("mcm_machine_deployment_info_spec_revision_history_limit{"),
        "the limit is not set"
    );
}

#[test]
fn preservations_are_counted_by_deployment_and_requester_or_reason() {
    let metrics = Metrics::new();
    let mut machine = machine();
    let labels = machine.metadata.labels.get_or_insert_default();
    labels.insert(keys::DEPLOYMENT_LABEL.to_owned(), "md".to_owned());
    for metric in [
        Metric::PreservationStarted(PreservedBy::Auto),
        Metric::PreservationStarted(PreservedBy::Node),
        Metric::PreservationStarted(PreservedBy::Node),
        Metric::PreservationEnded(Release::Expired),
        Metric::PreservationRefused(Refusal::MaximumReached),
    ] {
        metrics.observe(&metric, &machine, None);
    }
    let text = metrics.text();
    let pool = r#"namespace="default",machine_deployment="md""#;
    for line in [
        format!(r#"mcm_preservations_started_total{{{pool},requester="auto"}} 1"#),
        format!(r#"mcm_preservations_started_total{{{pool},requester="node"}} 2"#),
        format!(r#"mcm_preservations_ended_total{{{pool},reason="Expired"}} 1"#),
        format!(r#"mcm_preservations_refused_total{{{pool},reason="MaximumReached"}} 1"#),
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in\n{text}");
    }
}

/// Five machines of a deployment, of which four are preserved.
fn with_preserved_machines() -> Metrics {
    let metrics = Metrics::new();
    let (machines, deployments) = (Cache::new(), Cache::new());
    metrics.show(machines.clone());
    metrics.show_owners(Cache::new(), deployments.clone());
    for (name, phase, record, expiry) in [
        (
            "a",
            "Failed:Preserved",
            json!({ "stage": "Preserved", "by": "auto" }),
            json!("2026-01-01T02:00:00Z"),
        ),
        (
            "b",
            "Failed:Preserved",
            json!({ "stage": "Preserved", "by": "auto" }),
            json!("2026-01-01T01:00:00Z"),
        ),
        ("c", "Failed", json!({ "stage": "Draining", "by": "node" }), Value::Null),
        (
            "d",
            "Running:Preserved",
            json!({ "stage": "Preserved", "by": "machine" }),
            json!("2026-01-01T03:00:00Z"),
        ),
        ("e", "Running", Value::Null, Value::Null),
    ] {
        let machine = json!({
            "metadata": { "name": name, "namespace": "default", "labels": { "name": "md" } },
            "spec": { "class": { "kind": "MachineClass", "name": "a" } },
            "status": {
                "currentStatus": { "phase": phase, "preserveExpiryTime": expiry },
                "preservation": record,
            },
        });
        machines.apply(Event::Apply(serde_json::from_value::<Machine>(machine).unwrap()));
    }
    let deployment = json!({
        "metadata": { "name": "md", "namespace": "default" },
        "spec": { "replicas": 5, "autoPreserveFailedMax": 2 },
        "status": { "preservations": [{ "uid": "a" }, { "uid": "b" }, { "uid": "c" }] },
    });
    deployments.apply(Event::Apply(
        serde_json::from_value::<MachineDeployment>(deployment).unwrap(),
    ));
    metrics
}

#[test]
fn preserved_machines_are_counted_by_phase_requester_and_deployment() {
    let text = with_preserved_machines().text();
    for line in [
        r#"mcm_preserved_machines{namespace="default",machine_deployment="md",phase="Failed:Preserved",requester="auto"} 2"#,
        r#"mcm_preserved_machines{namespace="default",machine_deployment="md",phase="Draining",requester="node"} 1"#,
        r#"mcm_preserved_machines{namespace="default",machine_deployment="md",phase="Running:Preserved",requester="machine"} 1"#,
        r#"mcm_preservation_next_expiry_timestamp_seconds{namespace="default",machine_deployment="md"} 1767229200"#,
        r#"mcm_preservation_places_used{kind="MachineDeployment",name="md",namespace="default"} 3"#,
        r#"mcm_preservation_places_maximum{kind="MachineDeployment",name="md",namespace="default"} 2"#,
        r#"mcm_machine_current_status_phase{name="a",namespace="default"} -5"#,
        r#"mcm_machine_current_status_phase{name="c",namespace="default"} -5"#,
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in\n{text}");
    }
}

/// The text form of all metrics that alerts and panels are about.
pub(super) fn all_metrics() -> String {
    // Families without a value are not exported.
    let metrics = with_preserved_machines();
    metrics.observe_call("fakecloud", "CreateMachine", Duration::ZERO, Some(Code::Internal));
    metrics.count_orphan("refused");
    metrics.count_request("control", "GET", 200);
    for metric in [
        Metric::CreateDuration(Duration::ZERO),
        Metric::JoinDuration(Duration::ZERO),
        Metric::DrainDuration(Duration::ZERO),
        Metric::DeleteDuration(Duration::ZERO),
        Metric::FailedJoin,
        Metric::PreservationRefused(Refusal::MaximumReached),
    ] {
        metrics.observe(&metric, &machine(), None);
    }
    metrics.text()
}
