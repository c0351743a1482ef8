//! Which names each kind accepts, generated names, and the limits of labels and annotations.

use serde_json::{Value, json};

use super::super::site::Site;
use super::{MAPS, PODS, contract, deployment, pod};

const ODD: [&str; 8] = ["a.b", "A", "a_b", "1a", "-a", "a:b", "a-", "a..b"];

/// Records which names are accepted for an object, and the message about the others.
async fn accepted(site: &Site, path: &str, object: Value, names: &[&str]) {
    for name in names {
        let mut object = object.clone();
        object["metadata"]["name"] = (*name).into();
        let separator = if path.contains('?') { '&' } else { '?' };
        let answer = site
            .quietly("POST", &format!("{path}{separator}dryRun=All"), &[], object)
            .await;
        let causes = answer.body["details"]["causes"].as_array().into_iter().flatten();
        let mut causes: Vec<String> = causes
            .map(|cause| {
                format!(
                    "{}: {}",
                    cause["field"].as_str().unwrap_or_default(),
                    cause["message"].as_str().unwrap_or_default()
                )
            })
            .collect();
        causes.sort();
        causes.dedup();
        let short = if name.len() > 20 {
            format!("{} letters", name.len())
        } else {
            (*name).to_owned()
        };
        site.note(&format!(
            "{path} {short}: {} {}",
            answer.code,
            causes.join(" | ").replace(name, &short)
        ));
    }
}

#[test]
fn of_pods_and_services() {
    contract!(async |site: &Site| {
        let long = "a".repeat(64);
        let names: Vec<&str> = ODD.into_iter().chain([long.as_str()]).collect();
        accepted(site, PODS, pod(""), &names).await;
        let service = json!({ "metadata": {}, "spec": { "ports": [{ "port": 80 }] } });
        accepted(site, "/api/v1/namespaces/{ns}/services", service, &names).await;
    });
}

#[test]
fn of_workloads() {
    contract!(async |site: &Site| {
        let long = "a".repeat(64);
        let names: Vec<&str> = ["a.b", "A", "1a"].into_iter().chain([long.as_str()]).collect();
        let apps = "/apis/apps/v1/namespaces/{ns}";
        accepted(site, &format!("{apps}/deployments"), deployment(""), &names).await;
        accepted(site, &format!("{apps}/daemonsets"), deployment(""), &names).await;
        accepted(site, &format!("{apps}/replicasets"), deployment(""), &names).await;
        let mut set = deployment("");
        set["spec"]["serviceName"] = "s".into();
        accepted(site, &format!("{apps}/statefulsets"), set, &names).await;
    });
}

#[test]
fn of_roles_and_bindings() {
    contract!(async |site: &Site| {
        let names = ["a.b", "A", "a:b", "a_b", "a b", "a%b", "."];
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        accepted(
            site,
            &format!("{rbac}/namespaces/{{ns}}/roles"),
            json!({ "metadata": {} }),
            &names,
        )
        .await;
        accepted(site, &format!("{rbac}/clusterroles"), json!({ "metadata": {} }), &names).await;
        let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" });
        let binding = json!({ "metadata": {}, "roleRef": reference });
        accepted(site, &format!("{rbac}/namespaces/{{ns}}/rolebindings"), binding, &names).await;
    });
}

#[test]
fn of_other_namespaced_kinds() {
    contract!(async |site: &Site| {
        let names = ["a.b", "A", "a:b", "1a"];
        let core = "/api/v1/namespaces/{ns}";
        for plural in [
            "secrets",
            "serviceaccounts",
            "configmaps",
            "endpoints",
            "limitranges",
            "resourcequotas",
        ] {
            accepted(site, &format!("{core}/{plural}"), json!({ "metadata": {} }), &names).await;
        }
        let leases = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
        accepted(site, leases, json!({ "metadata": {} }), &names).await;
    });
}

#[test]
fn annotations_have_a_total_size() {
    contract!(async |site: &Site| {
        for size in [256 * 1024 - 1, 256 * 1024] {
            let map = json!({ "metadata": { "name": "a", "annotations": { "a": "x".repeat(size) } } });
            let answer = site.quietly("POST", &format!("{MAPS}?dryRun=All"), &[], map).await;
            site.note(&format!("{size}: {} {}", answer.code, answer.body["message"]));
        }
        let data = json!({ "metadata": { "name": "a" }, "data": { "k": "x".repeat(1024 * 1024 + 1) } });
        let answer = site.quietly("POST", &format!("{MAPS}?dryRun=All"), &[], data).await;
        site.note(&format!("data: {} {}", answer.code, answer.body["message"]));
    });
}

#[test]
fn a_namespace_in_the_body_of_a_cluster_kind() {
    contract!(async |site: &Site| {
        let node = json!({ "metadata": { "name": "a.{ns}", "namespace": "default" } });
        site.post("/api/v1/nodes?dryRun=All", node).await;
        let role = json!({ "metadata": { "name": "a.{ns}", "namespace": "default" } });
        site.post("/apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All", role)
            .await;
    });
}
