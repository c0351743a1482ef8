//! Deletions: propagation, options in the query and the body, collections.

use serde_json::{Value, json};

use super::super::site::Site;
use super::{DEPLOYMENTS, MAPS, PODS, contract, deployment, pod};

/// Deletes an object and records its finalizers afterwards.
async fn finalizers(site: &Site, what: &str, path: &str, options: Value) {
    let answer = site.quietly("DELETE", path, &[], options).await;
    let kind = &answer.body["kind"];
    let left = site.quietly("GET", path, &[], Value::Null).await;
    let metadata = &left.body["metadata"];
    site.note(&format!(
        "{what}: {} {kind} then {} {} deleting {}",
        answer.code,
        left.code,
        metadata["finalizers"],
        metadata["deletionTimestamp"].is_string()
    ));
}

#[test]
fn a_propagation_is_a_finalizer() {
    contract!(async |site: &Site| {
        for policy in ["Foreground", "Orphan", "Background"] {
            let name = policy.to_lowercase();
            site.step("POST", DEPLOYMENTS, deployment(&name)).await;
            let path = format!("{DEPLOYMENTS}/{name}");
            finalizers(site, policy, &path, json!({ "propagationPolicy": policy })).await;
        }
        site.delete(&format!("{DEPLOYMENTS}/foreground"), Value::Null).await;
    });
}

#[test]
fn a_second_deletion_can_have_another_propagation() {
    contract!(async |site: &Site| {
        for (name, first, second) in [
            ("a", "Foreground", "Orphan"),
            ("b", "Orphan", "Foreground"),
            ("c", "Foreground", "Background"),
            ("d", "Orphan", "Background"),
            ("e", "Foreground", "Foreground"),
        ] {
            site.step("POST", DEPLOYMENTS, deployment(name)).await;
            let path = format!("{DEPLOYMENTS}/{name}");
            finalizers(site, first, &path, json!({ "propagationPolicy": first })).await;
            finalizers(site, second, &path, json!({ "propagationPolicy": second })).await;
        }
    });
}

#[test]
fn the_default_propagation_of_workloads() {
    contract!(async |site: &Site| {
        let containers = json!({ "containers": [{ "name": "c", "image": "i" }], "restartPolicy": "Never" });
        let job = json!({ "metadata": { "name": "a" }, "spec": { "template": { "spec": containers } } });
        let jobs = "/apis/batch/v1/namespaces/{ns}/jobs";
        site.step("POST", jobs, job).await;
        let answer = site.quietly("DELETE", &format!("{jobs}/a"), &[], Value::Null).await;
        let warning = answer
            .headers
            .get("warning")
            .map(|value| value.to_str().unwrap().to_owned());
        site.note(&format!(
            "{} {} {warning:?}",
            answer.code, answer.body["metadata"]["finalizers"]
        ));
        let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        let controller =
            json!({ "metadata": { "name": "a" }, "spec": { "selector": { "a": "b" }, "template": template } });
        let controllers = "/api/v1/namespaces/{ns}/replicationcontrollers";
        site.step("POST", controllers, controller).await;
        finalizers(site, "replication controller", &format!("{controllers}/a"), Value::Null).await;
        site.step("POST", DEPLOYMENTS, deployment("a")).await;
        finalizers(site, "deployment", &format!("{DEPLOYMENTS}/a"), Value::Null).await;
    });
}

#[test]
fn options_can_be_in_the_query() {
    contract!(async |site: &Site| {
        for (name, query) in [
            ("a", "propagationPolicy=Foreground"),
            ("b", "propagationPolicy=Orphan"),
            ("c", "propagationPolicy=Other"),
            ("d", "gracePeriodSeconds=x"),
            ("e", "orphanDependents=true"),
            ("f", "propagationPolicy=Foreground&orphanDependents=true"),
        ] {
            site.config_map(name, "1").await;
            let path = format!("{MAPS}/{name}");
            let answer = site
                .quietly("DELETE", &format!("{path}?{query}"), &[], Value::Null)
                .await;
            let finalizers = &answer.body["metadata"]["finalizers"];
            site.note(&format!(
                "{query}: {} {finalizers} {}",
                answer.code, answer.body["message"]
            ));
        }
        site.config_map("g", "1").await;
        // The body wins.
        let path = format!("{MAPS}/g");
        let answer = site
            .quietly(
                "DELETE",
                &format!("{path}?propagationPolicy=Foreground"),
                &[],
                json!({ "propagationPolicy": "Orphan" }),
            )
            .await;
        site.note(&format!(
            "both: {} {}",
            answer.code, answer.body["metadata"]["finalizers"]
        ));
    });
}

#[test]
fn a_grace_period_of_a_pod() {
    contract!(async |site: &Site| {
        for (name, own, options) in [
            ("a", json!(0), Value::Null),
            ("b", json!(45), Value::Null),
            ("c", json!(45), json!({ "gracePeriodSeconds": 5 })),
            ("d", Value::Null, json!({ "gracePeriodSeconds": 90 })),
            ("e", Value::Null, json!({ "gracePeriodSeconds": -1 })),
            ("f", Value::Null, json!({ "gracePeriodSeconds": 1 })),
        ] {
            let mut running = pod(name);
            running["spec"]["nodeName"] = "n".into();
            running["spec"]["terminationGracePeriodSeconds"] = own.clone();
            site.step("POST", PODS, running).await;
            let answer = site
                .quietly("DELETE", &format!("{PODS}/{name}"), &[], options.clone())
                .await;
            let metadata = &answer.body["metadata"];
            site.note(&format!(
                "{own} {options}: {} {} {}",
                answer.code, metadata["deletionGracePeriodSeconds"], metadata["generation"]
            ));
        }
    });
}

#[test]
fn a_grace_period_shrinks_only() {
    contract!(async |site: &Site| {
        let mut running = pod("a");
        running["spec"]["nodeName"] = "n".into();
        site.step("POST", PODS, running).await;
        let path = format!("{PODS}/a");
        for seconds in [30, 60, 10, 10, 20, 1] {
            let answer = site
                .quietly("DELETE", &path, &[], json!({ "gracePeriodSeconds": seconds }))
                .await;
            let metadata = &answer.body["metadata"];
            site.note(&format!(
                "{seconds}: {} {}",
                answer.code, metadata["deletionGracePeriodSeconds"]
            ));
        }
    });
}

#[test]
fn a_finished_pod_has_no_grace_period() {
    contract!(async |site: &Site| {
        for phase in ["Succeeded", "Failed", "Running"] {
            let name = phase.to_lowercase();
            let mut running = pod(&name);
            running["spec"]["nodeName"] = "n".into();
            site.step("POST", PODS, running).await;
            let path = format!("{PODS}/{name}");
            site.merge(&format!("{path}/status"), json!({ "status": { "phase": phase } }))
                .await;
            finalizers(site, phase, &path, Value::Null).await;
        }
    });
}

#[test]
fn a_collection_is_deleted_with_options() {
    contract!(async |site: &Site| {
        for name in ["a", "b", "c"] {
            site.config_map(name, "1").await;
        }
        let list = format!("{MAPS}?labelSelector=value");
        site.step(
            "DELETE",
            &format!("{MAPS}?fieldSelector=metadata.name%3Da"),
            Value::Null,
        )
        .await;
        let orphaned = site
            .quietly("DELETE", &list, &[], json!({ "propagationPolicy": "Orphan" }))
            .await;
        site.note(&format!("{} {}", orphaned.code, orphaned.body["kind"]));
        let left = site.quietly("GET", &list, &[], Value::Null).await;
        for map in left.body["items"].as_array().unwrap() {
            site.note(&format!(
                "{} {}",
                map["metadata"]["name"], map["metadata"]["finalizers"]
            ));
        }
        let wrong = json!({ "preconditions": { "uid": "00000000-0000-4000-8000-000000000000" } });
        site.step("DELETE", &list, wrong).await;
        site.step("DELETE", &format!("{MAPS}?labelSelector=a%20b"), Value::Null)
            .await;
        site.step("DELETE", &format!("{MAPS}?labelSelector=absent"), Value::Null)
            .await;
    });
}

#[test]
fn the_response_of_a_deleted_collection() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        site.delete(&format!("{MAPS}?labelSelector=value"), Value::Null).await;
        let mut running = pod("a");
        running["spec"]["nodeName"] = "n".into();
        site.step("POST", PODS, running).await;
        let answer = site.quietly("DELETE", PODS, &[], Value::Null).await;
        let first = &answer.body["items"][0]["metadata"];
        site.note(&format!(
            "{} {} {}",
            answer.code, answer.body["kind"], first["deletionTimestamp"]
        ));
        site.delete("/api/v1/namespaces/{ns}/secrets", Value::Null).await;
    });
}

#[test]
fn options_have_a_kind_of_any_group() {
    contract!(async |site: &Site| {
        for (version, kind) in [
            ("v1", "DeleteOptions"),
            ("meta.k8s.io/v1", "DeleteOptions"),
            ("apps/v1", "DeleteOptions"),
            ("policy/v1", "DeleteOptions"),
            ("v2", "DeleteOptions"),
            ("", "DeleteOptions"),
            ("v1", ""),
            ("v1", "ListOptions"),
        ] {
            site.config_map("a", "1").await;
            let options = json!({ "apiVersion": version, "kind": kind, "propagationPolicy": "Background" });
            let answer = site.quietly("DELETE", &format!("{MAPS}/a"), &[], options).await;
            site.note(&format!("{version} {kind}: {} {}", answer.code, answer.body["reason"]));
        }
    });
}

#[test]
fn options_in_yaml_and_with_unknown_fields() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        let yaml = [("content-type", "application/yaml")];
        let text = "propagationPolicy: Orphan\n";
        let answer = site.quietly("DELETE", &format!("{MAPS}/a"), &yaml, text.into()).await;
        site.note(&format!("{} {}", answer.code, answer.body["metadata"]["finalizers"]));
        site.config_map("b", "1").await;
        let unknown = json!({ "odd": 1 });
        for mode in ["Strict", "Warn", "Ignore"] {
            let path = format!("{MAPS}/b?dryRun=All&fieldValidation={mode}");
            let answer = site.quietly("DELETE", &path, &[], unknown.clone()).await;
            site.note(&format!("{mode}: {} {}", answer.code, answer.body["message"]));
        }
        for body in ["{", "5", "{\"preconditions\":5}", "{\"gracePeriodSeconds\":\"5\"}"] {
            let answer = site.quietly("DELETE", &format!("{MAPS}/b"), &[], body.into()).await;
            site.note(&format!("{body}: {} {}", answer.code, answer.body["reason"]));
        }
    });
}

#[test]
fn a_revision_is_a_precondition_of_a_deletion() {
    contract!(async |site: &Site| {
        let old = site.config_map("a", "1").await.revision();
        let path = format!("{MAPS}/a");
        let new = site.merge(&path, json!({ "data": { "k": "2" } })).await.revision();
        for (what, revision) in [("old", &old), ("new", &new), ("again", &new)] {
            let options = json!({ "preconditions": { "resourceVersion": revision } });
            let answer = site.quietly("DELETE", &path, &[], options).await;
            site.note(&format!("{what}: {} {}", answer.code, answer.body["reason"]));
        }
    });
}

#[test]
fn a_terminating_object_can_be_changed_but_gets_no_finalizers() {
    contract!(async |site: &Site| {
        site.step("POST", DEPLOYMENTS, deployment("a")).await;
        let path = format!("{DEPLOYMENTS}/a");
        site.merge(&path, json!({ "metadata": { "finalizers": ["x.io/a", "x.io/b"] } }))
            .await;
        site.step("DELETE", &path, Value::Null).await;
        site.merge(&path, json!({ "spec": { "replicas": 0 } })).await;
        site.merge(&path, json!({ "metadata": { "finalizers": ["x.io/b", "x.io/a"] } }))
            .await;
        site.merge(
            &path,
            json!({ "metadata": { "finalizers": ["x.io/a", "foregroundDeletion"] } }),
        )
        .await;
        site.merge(
            &format!("{path}/status"),
            json!({ "metadata": { "finalizers": null }, "status": { "replicas": 1 } }),
        )
        .await;
        site.put(&path, deployment("a")).await;
        site.step("GET", &path, Value::Null).await;
    });
}
