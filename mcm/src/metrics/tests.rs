//! The names and labels that dashboards rely on.

use kube::runtime::watcher::Event;
use mcm_api::machine::CurrentStatus;

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
fn a_scrape_shows_upstreams_names() {
    let metrics = Metrics::new();
    let cache = Cache::new(&[]);
    metrics.show(cache.clone());
    cache.apply(Event::Apply(machine()));
    metrics.observe(Metric::JoinDuration(Duration::from_millis(41_600)), &machine(), None);
    metrics.observe(Metric::FailedJoin, &machine(), None);
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
        r#"mcm_machine_num_failed_join{namespace="default",machine_deployment="pool",instance_type="",zone=""} 1"#,
        r#"mcm_cloud_api_driver_requests_failed_total{provider="fake",operation="CreateMachine",error_code="ResourceExhausted"} 1"#,
        r#"mcm_cloud_api_driver_request_duration_seconds_count{provider="fake",operation="CreateMachine"} 1"#,
        r#"mcm_kube_api_requests_total{cluster="control",method="GET",code="200"} 1"#,
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in\n{text}");
    }
    assert!(text.contains(r#"spec_provider_id="fakecloud:///z/m1""#));
}

#[test]
fn nothing_of_a_deleted_machine_is_shown() {
    let metrics = Metrics::new();
    let cache = Cache::new(&[]);
    metrics.show(cache.clone());
    cache.apply(Event::Apply(machine()));
    cache.apply(Event::Delete(machine()));
    assert!(!metrics.text().contains("m1"));
}
