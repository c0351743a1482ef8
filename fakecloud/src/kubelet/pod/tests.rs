//! Plans of pods from spec and annotations.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use crate::kubelet::plan::{PodPlan, RestartPolicy, Role};

fn plan(spec: Value, annotations: &[(&str, &str)]) -> PodPlan {
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let annotations: BTreeMap<String, String> = annotations
        .iter()
        .map(|(key, value)| (format!("fakecloud.drydock.dev/{key}"), (*value).to_owned()))
        .collect();
    PodPlan::of("p", &spec, Some(&annotations)).unwrap()
}

#[test]
fn a_pod_without_annotations_runs_until_it_is_deleted() {
    let plan = plan(json!({"containers": [{"name": "a"}, {"name": "b"}]}), &[]);
    assert_eq!(plan.restart, RestartPolicy::Always);
    assert!(
        plan.containers
            .iter()
            .all(|container| container.run_for.is_none() && container.role == Role::App)
    );
    assert_eq!(plan.claims, [""; 0]);
}

#[test]
fn a_general_key_skips_init_containers_and_a_specific_one_overrides_it() {
    let spec = json!({"initContainers": [{"name": "init"}], "containers": [{"name": "a"}, {"name": "b"}]});
    let plan = plan(spec, &[("run-for", "1m"), ("run-for.b", "2m"), ("exit-code", "3")]);
    let runs: Vec<_> = plan
        .containers
        .iter()
        .map(|container| (container.run_for, container.exit_code))
        .collect();
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    assert_eq!(runs, [(Some(Duration::ZERO), 0), (minutes(1), 3), (minutes(2), 3)]);
}

#[test]
fn running_out_of_memory_has_its_exit_code() {
    let plan = plan(
        json!({"containers": [{"name": "a"}]}),
        &[("exit-reason", "OOMKilled"), ("run-for", "5s")],
    );
    assert_eq!(plan.containers[0].exit_code, 137);
}

#[test]
fn requests_are_those_of_the_containers_and_sidecars_or_of_the_largest_init_container() {
    let requests = |cpu: &str| json!({"requests": {"cpu": cpu, "memory": "1Ki"}});
    let spec = json!({
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "resources": requests("100m")},
            {"name": "init", "resources": requests("2")},
        ],
        "containers": [{"name": "a", "resources": requests("500m")}, {"name": "b", "resources": requests("1")}],
    });
    let plan = plan(spec, &[]);
    assert_eq!((plan.cpu, plan.memory), (2100, 3 * 1024 * 1000));
}

#[test]
fn claims_are_those_of_volumes_and_of_generic_ephemeral_volumes() {
    let spec = json!({"containers": [{"name": "a"}], "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "tmp", "emptyDir": {}},
    ]});
    assert_eq!(plan(spec, &[]).claims, ["mine", "p-scratch"]);
}
