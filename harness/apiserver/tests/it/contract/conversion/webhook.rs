//! Versions that a webhook converts.

use serde_json::{Value, json};

use super::super::contract_with_network;
use super::super::program::Program;
use super::super::site::Site;
use super::super::tables::table;
use super::{
    Definition, V1, V2, address, by_webhook, converted, converter, first, host_and_port, objects, review, second,
    widget,
};

/// Defines widgets that are stored in the first version, or in the second one.
async fn define<'a>(site: &'a Site, program: &Program, stored: &str) -> Definition<'a> {
    let spec = json!({
        "versions": [host_and_port(stored == "v1"), address(stored == "v2")], "conversion": by_webhook(program),
    });
    Definition::create(site, spec).await
}

#[test]
fn an_object_is_created_and_read_in_both_versions() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        define(site, &program, "v1").await;
        site.post(V1, first("a")).await;
        site.get(&format!("{V2}/a")).await;
        site.post(V2, second("b")).await;
        site.get(&format!("{V1}/b")).await;
        site.get(&format!("{V2}/b")).await;
        site.post(V2, widget("v2", "c", json!({ "address": "no port" }))).await;
    });
}

#[test]
fn lists_and_watches_are_converted() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        define(site, &program, "v1").await;
        for name in ["a", "b"] {
            site.quietly("POST", V1, &[], first(name)).await;
        }
        site.get(V2).await;
        let list = site.quietly("GET", V2, &[], Value::Null).await;
        let revision = list.body["metadata"]["resourceVersion"].as_str().unwrap();
        let mut watch = site.watch(&format!("{V2}?watch=true&resourceVersion={revision}")).await;
        site.quietly("POST", V1, &[], first("c")).await;
        site.quietly("POST", V2, &[], second("d")).await;
        let headers = [("content-type", "application/merge-patch+json")];
        site.quietly(
            "PATCH",
            &format!("{V1}/a"),
            &headers,
            json!({ "spec": { "port": 443 } }),
        )
        .await;
        site.quietly("DELETE", &format!("{V1}/b"), &[], Value::Null).await;
        watch.expect(4).await;
    });
}

#[test]
fn updates_and_patches_in_the_other_version() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        define(site, &program, "v1").await;
        let mut created = site.quietly("POST", V1, &[], first("a")).await.body;
        site.merge(
            &format!("{V2}/a"),
            json!({ "spec": { "address": "other.example.com:1" } }),
        )
        .await;
        site.patch(
            &format!("{V2}/a"),
            "json-patch",
            json!([{ "op": "replace", "path": "/spec/address", "value": "third.example.com:2" }]),
        )
        .await;
        site.get(&format!("{V1}/a")).await;
        let mut current = site.quietly("GET", &format!("{V2}/a"), &[], Value::Null).await.body;
        current["spec"]["address"] = "fourth.example.com:3".into();
        site.put(&format!("{V2}/a"), current.clone()).await;
        site.put(&format!("{V2}/a"), current).await;
        created["metadata"]["resourceVersion"] = "1".into();
        site.put(&format!("{V1}/a"), created).await;
        site.merge(&format!("{V2}/a"), json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
    });
}

#[test]
fn an_update_without_changes_writes_nothing() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        define(site, &program, "v1").await;
        site.quietly("POST", V1, &[], first("a")).await;
        let before = site.quietly("GET", &format!("{V2}/a"), &[], Value::Null).await;
        let after = site.quietly("PUT", &format!("{V2}/a"), &[], before.body.clone()).await;
        site.note(&format!("{} {}", after.code, before.revision() == after.revision()));
        site.note(&format!("{}", before.body["metadata"]["generation"]));
        let headers = [("content-type", "application/merge-patch+json")];
        let change = json!({ "spec": { "address": "example.com:81" } });
        let changed = site.quietly("PATCH", &format!("{V2}/a"), &headers, change).await;
        site.note(&format!("{}", changed.body["metadata"]["generation"]));
    });
}

#[test]
fn dry_runs_are_converted() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        define(site, &program, "v1").await;
        site.post(&format!("{V2}?dryRun=All"), second("a")).await;
        site.quietly("POST", V1, &[], first("a")).await;
        let headers = [("content-type", "application/merge-patch+json")];
        let change = json!({ "spec": { "address": "example.com:81" } });
        site.send("PATCH", &format!("{V2}/a?dryRun=All"), &headers, change)
            .await;
        site.get(&format!("{V2}/a")).await;
    });
}

#[test]
fn status_and_scale_in_the_other_version() {
    contract_with_network!(async |site: &Site| {
        let program = Program::start(std::sync::Arc::new(|_, asked| {
            let version = asked["request"]["desiredAPIVersion"].clone();
            let mut objects = objects(asked);
            for object in &mut objects {
                object["apiVersion"] = version.clone();
                let (from, to) = match version.as_str().unwrap().ends_with("v2") {
                    true => ("size", "count"),
                    false => ("count", "size"),
                };
                for part in ["spec", "status"] {
                    if let Some(number) = object[part].get(from).cloned() {
                        object[part] = json!({ to: number });
                    }
                }
            }
            super::Answer::Body(review(asked, objects))
        }))
        .await;
        let versions = [("v1", "size"), ("v2", "count")].map(|(name, field)| {
            let number = json!({ "type": "object", "properties": { field: { "type": "integer" } } });
            json!({
                "name": name, "served": true, "storage": name == "v1",
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": number, "status": number } } },
                "subresources": { "status": {}, "scale": {
                    "specReplicasPath": format!(".spec.{field}"), "statusReplicasPath": format!(".status.{field}"),
                } },
            })
        });
        let spec = json!({ "versions": versions, "conversion": by_webhook(&program) });
        Definition::create(site, spec).await;
        site.quietly("POST", V1, &[], widget("v1", "a", json!({ "size": 1 })))
            .await;
        site.get(&format!("{V2}/a/scale")).await;
        site.merge(&format!("{V2}/a/scale"), json!({ "spec": { "replicas": 4 } }))
            .await;
        site.merge(&format!("{V2}/a/status"), json!({ "status": { "count": 3 } }))
            .await;
        site.get(&format!("{V1}/a")).await;
        site.get(&format!("{V1}/a/scale")).await;
        site.get(&format!("{V2}/a/status")).await;
    });
}

#[test]
fn configurations_in_both_versions() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        define(site, &program, "v1").await;
        site.keep_managers();
        site.apply(&format!("{V2}/a"), "one", second("a")).await;
        let port = widget("v1", "a", json!({ "port": 81 }));
        site.apply(&format!("{V1}/a"), "two", port.clone()).await;
        site.force(&format!("{V1}/a"), "two", port).await;
        site.get(&format!("{V2}/a")).await;
    });
}

#[test]
fn the_storage_version_changes_with_a_webhook() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        let definition = define(site, &program, "v1").await;
        site.quietly("POST", V1, &[], first("a")).await;
        definition
            .change(V2, json!({ "versions": [host_and_port(false), address(true)] }))
            .await;
        site.get(&format!("{V1}/a")).await;
        site.get(&format!("{V2}/a")).await;
        site.merge(&format!("{V1}/a"), json!({ "spec": { "port": 81 } })).await;
        site.get(V2).await;
        site.delete(&format!("{V1}/a"), Value::Null).await;
    });
}

#[test]
fn a_webhook_changes_labels_and_annotations() {
    contract_with_network!(async |site: &Site| {
        let program = Program::start(std::sync::Arc::new(|_, asked| {
            let mut objects: Vec<Value> = objects(asked).iter().map(converted).collect();
            for object in &mut objects {
                object["metadata"]["labels"] = json!({ "by": "webhook" });
                object["metadata"]["annotations"] = json!({ "version": object["apiVersion"].clone() });
                object["metadata"]["finalizers"] = json!(["example.com/none"]);
                object["metadata"]["generation"] = 77.into();
            }
            super::Answer::Body(review(asked, objects))
        }))
        .await;
        define(site, &program, "v1").await;
        site.post(V1, first("a")).await;
        site.get(&format!("{V2}/a")).await;
        site.post(V2, second("b")).await;
        site.get(&format!("{V1}/b")).await;
    });
}

#[test]
fn a_table_shows_converted_objects() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        let mut second = address(false);
        second["additionalPrinterColumns"] =
            json!([{ "name": "Address", "type": "string", "jsonPath": ".spec.address" }]);
        second["selectableFields"] = json!([{ "jsonPath": ".spec.address" }]);
        let spec = json!({ "versions": [host_and_port(true), second], "conversion": by_webhook(&program) });
        Definition::create(site, spec).await;
        site.quietly("POST", V1, &[], first("a")).await;
        table(site, V2).await;
        for address in ["example.com%3A80", "example.com%3A81"] {
            let path = format!("{V2}?fieldSelector=spec.address%3D{address}");
            let answer = site.quietly("GET", &path, &[], Value::Null).await;
            let count = answer.body["items"].as_array().map_or(0, Vec::len);
            site.note(&format!("{address}: {} {count}", answer.code));
        }
    });
}

#[test]
fn a_webhook_is_replaced() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        let definition = define(site, &program, "v1").await;
        site.quietly("POST", V1, &[], first("a")).await;
        definition
            .change(V2, json!({ "conversion": { "strategy": "None" } }))
            .await;
        site.get(&format!("{V2}/a")).await;
        definition
            .change(V2, json!({ "conversion": by_webhook(&program) }))
            .await;
        site.get(&format!("{V2}/a")).await;
    });
}
