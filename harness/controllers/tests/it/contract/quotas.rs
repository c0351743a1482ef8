//! The use of resource quotas.

use serde_json::{Value, json};

use super::{Site, contract};

const QUOTA: &str = "/api/v1/namespaces/{ns}/resourcequotas/q";
const POD: &str = "/api/v1/namespaces/{ns}/pods/p";

/// A quota, once its use is counted.
async fn quota(site: &Site, hard: Value) {
    let quota =
        json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q" }, "spec": { "hard": hard } });
    site.create(quota).await;
    site.until_it(QUOTA, "is counted", |quota| quota["status"]["hard"] == hard)
        .await;
}

async fn until_used(site: &Site, used: Value) {
    site.until_it(QUOTA, &used.to_string(), |quota| quota["status"]["used"] == used)
        .await;
}

fn pod(cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu } } }] },
    })
}

#[test]
fn the_use_of_a_quota_follows_creations_and_deletions() {
    contract!(async |site: &Site| {
        quota(
            site,
            json!({ "pods": "2", "requests.cpu": "1", "count/secrets": "4", "services": "1" }),
        )
        .await;
        let used =
            |pods: &str, cpu: &str| json!({ "pods": pods, "requests.cpu": cpu, "count/secrets": "0", "services": "0" });
        until_used(site, used("0", "0")).await;
        site.create(pod("300m")).await;
        until_used(site, used("1", "300m")).await;
        let mut second = pod("900m");
        second["metadata"]["name"] = "second".into();
        let refusal = site.try_create(second).await.unwrap_err();
        assert!(
            refusal
                .message
                .contains("exceeded quota: q, requested: requests.cpu=900m"),
            "{refusal:?}"
        );
        site.delete(POD, json!({ "gracePeriodSeconds": 0 })).await;
        until_used(site, used("0", "0")).await;
    });
}

#[test]
fn a_finished_pod_is_counted_only_as_an_object() {
    contract!(async |site: &Site| {
        quota(site, json!({ "pods": "2", "count/pods": "2", "requests.cpu": "1" })).await;
        site.create(pod("1")).await;
        until_used(site, json!({ "pods": "1", "count/pods": "1", "requests.cpu": "1" })).await;
        site.set_status(POD, json!({ "phase": "Succeeded" })).await;
        until_used(site, json!({ "pods": "0", "count/pods": "1", "requests.cpu": "0" })).await;
    });
}

#[test]
fn objects_of_every_kind_are_counted() {
    contract!(async |site: &Site| {
        quota(
            site,
            json!({ "count/deployments.apps": "1", "count/leases.coordination.k8s.io": "2" }),
        )
        .await;
        let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "l" } });
        site.create(lease).await;
        let used = |leases: &str| json!({ "count/deployments.apps": "0", "count/leases.coordination.k8s.io": leases });
        until_used(site, used("1")).await;
        let lease = site.path("coordination.k8s.io/v1", "Lease", "l");
        site.delete(&lease, json!({})).await;
        until_used(site, used("0")).await;
    });
}

#[test]
fn changed_limits_reach_the_status() {
    contract!(async |site: &Site| {
        quota(site, json!({ "pods": "1", "secrets": "2" })).await;
        let hard = json!({ "pods": "3", "secrets": null, "services": "1" });
        site.merge(QUOTA, json!({ "spec": { "hard": hard } })).await;
        let changed = site
            .until_it(QUOTA, "has the limits", |quota| {
                quota["status"]["hard"] == json!({ "pods": "3", "services": "1" })
            })
            .await;
        assert_eq!(changed["status"]["used"], json!({ "pods": "0", "services": "0" }));
    });
}
