//! Scale and status.

use super::*;

fn scale(replicas: Value) -> Value {
    json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "a" }, "spec": { "replicas": replicas } })
}

async fn managers(site: &Site) {
    let object = site
        .quietly("GET", &format!("{DEPLOYMENTS}/a"), &[], Value::Null)
        .await
        .body;
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let replicas = entry.pointer("/fieldsV1/f:spec/f:replicas").is_some();
        site.note(&format!(
            "{} {} {} of {} owns replicas: {replicas}, has a time: {}",
            entry["manager"],
            entry["operation"],
            entry["apiVersion"],
            entry["subresource"],
            entry["time"].is_string()
        ));
    }
}

#[test]
fn scaling_takes_the_replicas() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let mut object = with_containers(json!([{ "name": "c", "image": "i" }]));
        object["spec"]["replicas"] = 1.into();
        site.step("POST", &format!("{DEPLOYMENTS}?fieldManager=creator"), object.clone())
            .await;
        let path = format!("{DEPLOYMENTS}/a/scale");
        site.merge(
            &format!("{path}?fieldManager=scaler"),
            json!({ "spec": { "replicas": 2 } }),
        )
        .await;
        managers(site).await;
        site.put(&format!("{path}?fieldManager=other"), scale(json!(3))).await;
        managers(site).await;
        site.merge(
            &format!("{path}?fieldManager=other"),
            json!({ "spec": { "replicas": 4 } }),
        )
        .await;
        managers(site).await;
        site.apply(&format!("{DEPLOYMENTS}/a"), "one", object).await;
    });
}

#[test]
fn a_scale_can_be_applied() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{DEPLOYMENTS}/a/scale");
        let mut object = with_containers(json!([{ "name": "c", "image": "i" }]));
        object["spec"]["replicas"] = 1.into();
        site.apply(&format!("{DEPLOYMENTS}/a"), "one", object).await;
        site.apply(&path, "scaler", scale(json!(1))).await;
        managers(site).await;
        site.apply(&path, "scaler", scale(json!(2))).await;
        managers(site).await;
        site.force(&path, "scaler", scale(json!(2))).await;
        managers(site).await;
        site.apply(
            &path,
            "scaler",
            json!({ "apiVersion": "apps/v1", "kind": "Deployment" }),
        )
        .await;
        site.apply(&format!("{DEPLOYMENTS}/missing/scale"), "scaler", scale(json!(2)))
            .await;
    });
}

#[test]
fn a_status_is_applied_on_its_own() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let object = with_containers(json!([{ "name": "c", "image": "i" }]));
        site.step("POST", &format!("{DEPLOYMENTS}?fieldManager=creator"), object)
            .await;
        let path = format!("{DEPLOYMENTS}/a/status");
        let status = |status: Value, spec: Value| {
            let mut object = deployment(spec);
            object["status"] = status;
            object
        };
        let condition = |type_: &str| json!({ "conditions": [{ "type": type_, "status": "True" }] });
        site.apply(&path, "one", status(condition("A"), json!({ "replicas": 9 })))
            .await;
        site.apply(&path, "two", status(condition("B"), json!({}))).await;
        site.apply(&path, "one", status(json!({}), json!({}))).await;
        site.apply(&format!("{DEPLOYMENTS}/a"), "one", status(condition("C"), json!({})))
            .await;
    });
}

#[test]
fn a_namespace_and_its_finalizers_have_managers() {
    contract!(async |site: &Site| {
        site.keep_managers();
        site.apply(
            "/api/v1/namespaces/{ns}",
            "one",
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "{ns}", "labels": { "a": "b" } } }),
        )
        .await;
    });
}
