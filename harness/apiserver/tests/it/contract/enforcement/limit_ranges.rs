//! Limit ranges: defaults of containers, and limits of containers, pods and claims.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::site::{Site, with};
use super::{PODS, contract, created, pod};

const RANGES: &str = "/api/v1/namespaces/{ns}/limitranges";
const RESOURCES: &str = "/spec/containers/0/resources";

/// Creates a limit range and waits until it is in force: a real server notices it later.
async fn limit(site: &Site, limits: Value) {
    // A claim of this size is refused by the range alone.
    let marker = json!({ "type": "PersistentVolumeClaim", "max": { "storage": "1Ti" } });
    let mut limits = limits.as_array().unwrap().clone();
    if !limits.iter().any(|limit| limit["type"] == "PersistentVolumeClaim") {
        limits.push(marker);
    }
    let range = json!({ "metadata": { "name": "a" }, "spec": { "limits": limits } });
    site.step("POST", RANGES, range).await;
    let claims = "/api/v1/namespaces/{ns}/persistentvolumeclaims?dryRun=All";
    for _ in 0..300 {
        if site.quietly("POST", claims, &[], claim("2Ti")).await.code == 403 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server does not notice the limit range");
}

fn claim(size: &str) -> Value {
    let resources = json!({ "requests": { "storage": size } });
    json!({ "metadata": { "name": "a" }, "spec": { "accessModes": ["ReadWriteOnce"], "resources": resources } })
}

/// The resources of a container.
fn of(requests: Value, limits: Value) -> Value {
    json!({ "requests": requests, "limits": limits })
}

#[test]
fn a_container_gets_defaults() {
    contract!(async |site: &Site| {
        let limits = json!([{
            "type": "Container",
            "default": { "cpu": "500m", "memory": "256Mi" },
            "defaultRequest": { "cpu": "100m", "memory": "64Mi" },
        }]);
        limit(site, limits).await;
        for (name, resources) in [
            ("none", json!({})),
            ("request", of(json!({ "cpu": "200m" }), Value::Null)),
            ("limit", of(Value::Null, json!({ "cpu": "1" }))),
            (
                "both",
                of(json!({ "cpu": "1" }), json!({ "cpu": "2", "memory": "1Gi" })),
            ),
        ] {
            created(site, name, PODS, pod(name, resources), RESOURCES).await;
        }
        let answer = site
            .quietly("GET", &format!("{PODS}/none"), &[], Value::Null)
            .await
            .body;
        site.note(&format!(
            "{} {}",
            answer["metadata"]["annotations"], answer["status"]["qosClass"]
        ));
    });
}

#[test]
fn init_containers_get_defaults_too() {
    contract!(async |site: &Site| {
        limit(site, json!([{ "type": "Container", "default": { "cpu": "500m" } }])).await;
        let mut object = pod("a", json!({}));
        object["spec"]["initContainers"] = json!([{ "name": "i", "image": "i:1" }]);
        object["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "d", "image": "i:1" }));
        created(site, "init", PODS, object, "/spec/initContainers/0/resources").await;
        let answer = site.quietly("GET", &format!("{PODS}/a"), &[], Value::Null).await.body;
        site.note(&format!(
            "{} {}",
            answer["spec"]["containers"][1]["resources"], answer["metadata"]["annotations"]
        ));
    });
}

#[test]
fn a_container_keeps_within_minimum_and_maximum() {
    contract!(async |site: &Site| {
        let limits = json!([{
            "type": "Container",
            "min": { "cpu": "100m", "memory": "64Mi" }, "max": { "cpu": "2", "memory": "1Gi" },
            "default": { "cpu": "1", "memory": "512Mi" },
        }]);
        limit(site, limits).await;
        for (name, resources) in [
            ("defaults", json!({})),
            ("small", of(json!({ "cpu": "50m" }), Value::Null)),
            ("large", of(Value::Null, json!({ "cpu": "3" }))),
            (
                "edge",
                of(
                    json!({ "cpu": "100m", "memory": "64Mi" }),
                    json!({ "cpu": "2000m", "memory": "1024Mi" }),
                ),
            ),
        ] {
            created(site, name, PODS, pod(name, resources), RESOURCES).await;
        }
    });
}

#[test]
fn values_without_defaults_are_required() {
    contract!(async |site: &Site| {
        let limits = json!([{ "type": "Pod", "min": { "cpu": "100m" }, "max": { "memory": "1Gi" } }]);
        limit(site, limits).await;
        for (name, resources) in [
            ("none", json!({})),
            ("request", of(json!({ "cpu": "200m" }), Value::Null)),
            ("limit", of(json!({ "cpu": "200m" }), json!({ "memory": "512Mi" }))),
            ("large", of(json!({ "cpu": "200m" }), json!({ "memory": "2Gi" }))),
        ] {
            created(site, name, PODS, pod(name, resources), "/metadata/name").await;
        }
    });
}

#[test]
fn a_ratio_of_limit_and_request() {
    contract!(async |site: &Site| {
        limit(
            site,
            json!([{ "type": "Container", "maxLimitRequestRatio": { "cpu": "2" } }]),
        )
        .await;
        for (name, resources) in [
            ("none", json!({})),
            ("two", of(json!({ "cpu": "100m" }), json!({ "cpu": "200m" }))),
            ("three", of(json!({ "cpu": "100m" }), json!({ "cpu": "300m" }))),
            ("request", of(json!({ "cpu": "100m" }), Value::Null)),
        ] {
            created(site, name, PODS, pod(name, resources), "/metadata/name").await;
        }
    });
}

#[test]
fn all_containers_of_a_pod_count() {
    contract!(async |site: &Site| {
        limit(site, json!([{ "type": "Pod", "max": { "cpu": "1" } }])).await;
        let container =
            |name: &str, cpu: &str| json!({ "name": name, "image": "i:1", "resources": { "limits": { "cpu": cpu } } });
        for (name, containers, init) in [
            (
                "fits",
                json!([container("a", "500m"), container("b", "500m")]),
                json!([]),
            ),
            (
                "sum",
                json!([container("a", "600m"), container("b", "500m")]),
                json!([]),
            ),
            ("init", json!([container("a", "100m")]), json!([container("i", "2")])),
            (
                "largest",
                json!([container("a", "600m")]),
                json!([container("i", "600m"), container("j", "700m")]),
            ),
        ] {
            let spec = json!({ "containers": containers, "initContainers": init });
            created(
                site,
                name,
                PODS,
                json!({ "metadata": { "name": name }, "spec": spec }),
                "/metadata/name",
            )
            .await;
        }
    });
}

#[test]
fn a_claim_keeps_within_minimum_and_maximum() {
    contract!(async |site: &Site| {
        let limits =
            json!([{ "type": "PersistentVolumeClaim", "min": { "storage": "1Gi" }, "max": { "storage": "10Gi" } }]);
        limit(site, limits).await;
        let claims = "/api/v1/namespaces/{ns}/persistentvolumeclaims?dryRun=All";
        for size in ["500Mi", "1Gi", "10Gi", "11Gi"] {
            created(site, size, claims, claim(size), "/spec/resources/requests/storage").await;
        }
    });
}

#[test]
fn several_limit_ranges_apply_together() {
    contract!(async |site: &Site| {
        let second =
            json!({ "type": "Container", "max": { "cpu": "1" }, "default": { "cpu": "200m", "memory": "10Mi" } });
        let range = json!({ "metadata": { "name": "b" }, "spec": { "limits": [second] } });
        site.step("POST", RANGES, range).await;
        limit(site, json!([{ "type": "Container", "max": { "memory": "100Mi" } }])).await;
        let cpu = of(Value::Null, json!({ "cpu": "2", "memory": "10Mi" }));
        created(site, "cpu", PODS, pod("a", cpu), "/metadata/name").await;
        let memory = of(Value::Null, json!({ "cpu": "1", "memory": "1Gi" }));
        created(site, "memory", PODS, pod("b", memory), "/metadata/name").await;
    });
}

#[test]
fn an_update_of_a_pod_is_not_limited() {
    contract!(async |site: &Site| {
        site.step("POST", PODS, pod("a", of(Value::Null, json!({ "cpu": "4" }))))
            .await;
        limit(site, json!([{ "type": "Container", "max": { "cpu": "1" } }])).await;
        let changed = site
            .merge(&format!("{PODS}/a"), json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
        site.note(&changed.body["spec"]["containers"][0]["resources"].to_string());
        let running = json!({ "status": { "phase": "Running" } });
        let status = site.merge(&format!("{PODS}/a/status"), running).await;
        site.note(&status.code.to_string());
    });
}

#[test]
fn a_workload_is_not_limited() {
    contract!(async |site: &Site| {
        let limits = json!([{ "type": "Container", "max": { "cpu": "1" }, "default": { "cpu": "500m" } }]);
        limit(site, limits).await;
        let template = with(
            &json!({ "metadata": { "labels": { "a": "b" } } }),
            json!({ "spec": pod("a", of(Value::Null, json!({ "cpu": "4" })))["spec"] }),
        );
        let spec = json!({ "selector": { "matchLabels": { "a": "b" } }, "template": template });
        let path = "/apis/apps/v1/namespaces/{ns}/replicasets";
        let object = json!({ "metadata": { "name": "a" }, "spec": spec });
        created(
            site,
            "replica set",
            path,
            object,
            "/spec/template/spec/containers/0/resources",
        )
        .await;
    });
}

#[test]
fn a_dry_run_is_limited() {
    contract!(async |site: &Site| {
        limit(
            site,
            json!([{ "type": "Container", "max": { "cpu": "1" }, "default": { "cpu": "500m" } }]),
        )
        .await;
        let path = format!("{PODS}?dryRun=All");
        created(site, "defaults", &path, pod("a", json!({})), RESOURCES).await;
        created(
            site,
            "limit",
            &path,
            pod("a", of(Value::Null, json!({ "cpu": "2" }))),
            RESOURCES,
        )
        .await;
        site.post(&path, pod("a", of(Value::Null, json!({ "cpu": "2" })))).await;
    });
}
