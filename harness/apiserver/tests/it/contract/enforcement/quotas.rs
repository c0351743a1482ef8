//! Resource quotas. Without a controller a quota counts from the status that a client writes.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::site::Site;
use super::{MAPS, PODS, contract, created, pod};

const QUOTAS: &str = "/api/v1/namespaces/{ns}/resourcequotas";

/// Creates a quota with nothing used, and waits until it is in force.
async fn quota(site: &Site, name: &str, hard: Value, change: Value) {
    let mut spec = json!({ "hard": hard });
    spec.as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    let created = site
        .quietly(
            "POST",
            QUOTAS,
            &[],
            json!({ "metadata": { "name": name }, "spec": spec }),
        )
        .await;
    assert_eq!(created.code, 201, "{}", created.body);
    let used: serde_json::Map<String, Value> = hard
        .as_object()
        .unwrap()
        .keys()
        .map(|name| (name.clone(), json!("0")))
        .collect();
    let merge = [("content-type", "application/merge-patch+json")];
    let status = json!({ "status": { "hard": hard, "used": used } });
    let written = site
        .quietly("PATCH", &format!("{QUOTAS}/{name}/status"), &merge, status)
        .await;
    assert_eq!(written.code, 200, "{}", written.body);
}

/// Waits until quotas are in force: one forbids leases.
async fn in_force(site: &Site) {
    quota(
        site,
        "zz",
        json!({ "count/leases.coordination.k8s.io": "0" }),
        json!({}),
    )
    .await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases?dryRun=All";
    for _ in 0..300 {
        if site
            .quietly("POST", leases, &[], json!({ "metadata": { "name": "a" } }))
            .await
            .code
            == 403
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server does not notice the quotas");
}

async fn used(site: &Site, name: &str) {
    let quota = site
        .quietly("GET", &format!("{QUOTAS}/{name}"), &[], Value::Null)
        .await
        .body;
    site.note(&format!("used of {name}: {}", quota["status"]["used"]));
}

#[test]
fn objects_are_counted() {
    contract!(async |site: &Site| {
        quota(site, "a", json!({ "configmaps": "2", "count/secrets": "1" }), json!({})).await;
        in_force(site).await;
        for name in ["a", "b", "c"] {
            created(
                site,
                name,
                MAPS,
                json!({ "metadata": { "name": name } }),
                "/metadata/name",
            )
            .await;
        }
        for name in ["a", "b"] {
            let path = "/api/v1/namespaces/{ns}/secrets";
            created(
                site,
                name,
                path,
                json!({ "metadata": { "name": name } }),
                "/metadata/name",
            )
            .await;
        }
        used(site, "a").await;
    });
}

#[test]
fn requests_and_limits_are_summed() {
    contract!(async |site: &Site| {
        quota(
            site,
            "a",
            json!({ "requests.cpu": "1", "limits.memory": "1Gi", "pods": "3" }),
            json!({}),
        )
        .await;
        in_force(site).await;
        let resources = |cpu: &str, memory: &str| json!({ "requests": { "cpu": cpu }, "limits": { "memory": memory } });
        for (name, resources) in [
            ("a", resources("600m", "512Mi")),
            ("b", resources("500m", "128Mi")),
            ("c", resources("400m", "1Gi")),
            ("d", resources("400m", "512Mi")),
            ("e", resources("1m", "1")),
        ] {
            created(site, name, PODS, pod(name, resources), "/metadata/name").await;
        }
        used(site, "a").await;
    });
}

#[test]
fn a_limited_resource_must_be_given() {
    contract!(async |site: &Site| {
        quota(
            site,
            "a",
            json!({ "requests.cpu": "1", "limits.cpu": "2", "memory": "1Gi" }),
            json!({}),
        )
        .await;
        in_force(site).await;
        for (name, resources) in [
            ("none", json!({})),
            ("request", json!({ "requests": { "cpu": "100m" } })),
            ("limit", json!({ "limits": { "cpu": "100m" } })),
            ("all", json!({ "limits": { "cpu": "100m", "memory": "1Mi" } })),
        ] {
            created(site, name, PODS, pod(name, resources), "/metadata/name").await;
        }
        used(site, "a").await;
    });
}

#[test]
fn scopes_select_pods() {
    contract!(async |site: &Site| {
        quota(
            site,
            "best",
            json!({ "pods": "1" }),
            json!({ "scopes": ["BestEffort"] }),
        )
        .await;
        quota(
            site,
            "other",
            json!({ "pods": "1" }),
            json!({ "scopes": ["NotBestEffort"] }),
        )
        .await;
        quota(
            site,
            "ending",
            json!({ "pods": "0" }),
            json!({ "scopes": ["Terminating"] }),
        )
        .await;
        in_force(site).await;
        let mut ending = pod("e", json!({}));
        ending["spec"]["activeDeadlineSeconds"] = 10.into();
        created(site, "e", PODS, ending, "/metadata/name").await;
        let some = json!({ "requests": { "cpu": "1m" } });
        for (name, resources) in [("a", json!({})), ("b", json!({})), ("c", some.clone()), ("d", some)] {
            created(site, name, PODS, pod(name, resources), "/metadata/name").await;
        }
        for name in ["best", "other", "ending"] {
            used(site, name).await;
        }
    });
}

#[test]
fn several_exceeded_quotas_are_named() {
    contract!(async |site: &Site| {
        quota(
            site,
            "a",
            json!({ "configmaps": "0", "pods": "0", "requests.cpu": "1" }),
            json!({}),
        )
        .await;
        in_force(site).await;
        let resources = json!({ "requests": { "cpu": "2" } });
        site.post(PODS, pod("a", resources)).await;
        site.post(MAPS, json!({ "metadata": { "name": "a" } })).await;
    });
}

#[test]
fn claims_are_counted_and_summed() {
    contract!(async |site: &Site| {
        let of_class = "gold.storageclass.storage.k8s.io/requests.storage";
        quota(
            site,
            "a",
            json!({ "requests.storage": "10Gi", "persistentvolumeclaims": "3", of_class: "2Gi" }),
            json!({}),
        )
        .await;
        in_force(site).await;
        let claims = "/api/v1/namespaces/{ns}/persistentvolumeclaims";
        for (name, size, class) in [
            ("a", "5Gi", ""),
            ("b", "6Gi", ""),
            ("c", "1Gi", "gold"),
            ("d", "2Gi", "gold"),
            ("e", "1Gi", ""),
            ("f", "1Gi", ""),
        ] {
            let spec = json!({
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } }, "storageClassName": class,
            });
            created(
                site,
                name,
                claims,
                json!({ "metadata": { "name": name }, "spec": spec }),
                "/metadata/name",
            )
            .await;
        }
        used(site, "a").await;
    });
}

#[test]
fn services_are_counted_by_type() {
    contract!(async |site: &Site| {
        quota(
            site,
            "a",
            json!({ "services": "2", "services.nodeports": "1", "services.loadbalancers": "0" }),
            json!({}),
        )
        .await;
        in_force(site).await;
        let services = "/api/v1/namespaces/{ns}/services";
        for (name, kind) in [
            ("a", "ClusterIP"),
            ("b", "LoadBalancer"),
            ("c", "NodePort"),
            ("d", "NodePort"),
            ("e", "ClusterIP"),
        ] {
            let service = json!({ "metadata": { "name": name }, "spec": { "type": kind, "ports": [{ "port": 80 }] } });
            created(site, name, services, service, "/spec/type").await;
        }
        let merged = site
            .quietly(
                "PATCH",
                &format!("{services}/a"),
                &[("content-type", "application/merge-patch+json")],
                json!({ "spec": { "type": "NodePort" } }),
            )
            .await;
        site.note(&format!("a: {} {}", merged.code, merged.body["message"]));
        used(site, "a").await;
    });
}

#[test]
fn a_dry_run_uses_nothing() {
    contract!(async |site: &Site| {
        quota(site, "a", json!({ "configmaps": "1" }), json!({})).await;
        in_force(site).await;
        for name in ["a", "b"] {
            let path = format!("{MAPS}?dryRun=All");
            created(
                site,
                name,
                &path,
                json!({ "metadata": { "name": name } }),
                "/metadata/name",
            )
            .await;
        }
        used(site, "a").await;
        created(
            site,
            "c",
            MAPS,
            json!({ "metadata": { "name": "c" } }),
            "/metadata/name",
        )
        .await;
        let path = format!("{MAPS}?dryRun=All");
        created(
            site,
            "d",
            &path,
            json!({ "metadata": { "name": "d" } }),
            "/metadata/name",
        )
        .await;
    });
}

#[test]
fn a_quota_without_a_status_counts_nothing() {
    contract!(async |site: &Site| {
        in_force(site).await;
        let spec = json!({ "hard": { "secrets": "0" } });
        site.step("POST", QUOTAS, json!({ "metadata": { "name": "a" }, "spec": spec }))
            .await;
        let path = "/api/v1/namespaces/{ns}/secrets";
        let answer = site
            .quietly("POST", path, &[], json!({ "metadata": { "name": "a" } }))
            .await;
        site.note(&format!("{} {}", answer.code, answer.body["reason"]));
    });
}
