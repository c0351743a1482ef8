//! The forms of a response: tables with and without objects, metadata alone, YAML, headers.

use serde_json::{Value, json};

use super::super::definitions::version;
use super::super::site::{Site, WIDGETS};
use super::{MAPS, contract};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

#[test]
fn a_table_has_the_objects_that_a_client_wants() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        for include in ["None", "Metadata", "Object", "Other", ""] {
            let path = format!("{MAPS}?labelSelector=value&includeObject={include}");
            let answer = site.quietly("GET", &path, &[("accept", TABLE)], Value::Null).await;
            let object = &answer.body["rows"][0]["object"];
            site.note(&format!(
                "{include}: {} {} {} {} {}",
                answer.code, answer.body["message"], object["kind"], object["metadata"]["name"], object["data"]
            ));
        }
    });
}

#[test]
fn one_object_as_a_table() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        site.get_as(&format!("{MAPS}/a"), TABLE).await;
        site.get_as(&format!("{MAPS}/missing"), TABLE).await;
    });
}

#[test]
fn writes_answer_with_metadata() {
    contract!(async |site: &Site| {
        let accept = ("accept", METADATA);
        let map = json!({ "metadata": { "name": "a" }, "data": { "k": "1" } });
        site.send("POST", MAPS, &[accept], map.clone()).await;
        let path = format!("{MAPS}/a");
        site.send("PUT", &path, &[accept], map).await;
        let finalizer = json!({ "metadata": { "finalizers": ["x.io/a"] } });
        site.send("PATCH", &path, &[accept, MERGE], finalizer).await;
        site.send("DELETE", &path, &[accept], Value::Null).await;
        site.send(
            "PATCH",
            &path,
            &[accept, MERGE],
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
        site.send("DELETE", &path, &[accept], Value::Null).await;
    });
}

#[test]
fn writes_answer_with_tables() {
    contract!(async |site: &Site| {
        let accept = ("accept", TABLE);
        let map = json!({ "metadata": { "name": "a" }, "data": { "k": "1" } });
        let created = site.quietly("POST", MAPS, &[accept], map).await;
        site.note(&format!(
            "{} {} {}",
            created.code, created.body["kind"], created.body["rows"][0]["cells"]
        ));
        let path = format!("{MAPS}/a");
        let patched = site
            .quietly("PATCH", &path, &[accept, MERGE], json!({ "data": { "l": "2" } }))
            .await;
        site.note(&format!(
            "{} {} {}",
            patched.code, patched.body["kind"], patched.body["rows"][0]["cells"]
        ));
        let deleted = site.quietly("DELETE", &path, &[accept], Value::Null).await;
        site.note(&format!(
            "{} {} {}",
            deleted.code, deleted.body["kind"], deleted.body["rows"][0]["cells"]
        ));
    });
}

#[test]
fn the_metadata_of_custom_resources() {
    contract!(async |site: &Site| {
        site.define(version(
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        ))
        .await;
        let widget =
            json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": { "a": 1 } });
        let accept = ("accept", METADATA);
        site.send("POST", WIDGETS, &[accept], widget).await;
        site.send("GET", &format!("{WIDGETS}/a"), &[accept], Value::Null).await;
        let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        site.get_as(WIDGETS, list).await;
        let label = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "a": 2 } });
        site.send("PATCH", &format!("{WIDGETS}/a"), &[accept, MERGE], label)
            .await;
    });
}

#[test]
fn headers_of_responses() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        for (method, path) in [
            ("GET", format!("{MAPS}/a")),
            ("GET", format!("{MAPS}?labelSelector=value")),
            ("GET", format!("{MAPS}?watch=true&timeoutSeconds=1&labelSelector=value")),
            ("GET", format!("{MAPS}/missing")),
            ("DELETE", format!("{MAPS}/a")),
            ("GET", "/version".to_owned()),
            ("GET", "/api/v1".to_owned()),
            ("GET", "/readyz".to_owned()),
            ("GET", "/nope".to_owned()),
        ] {
            let answer = site.quietly(method, &path, &[], Value::Null).await;
            let header = |name: &str| answer.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            site.note(&format!(
                "{method} {path}: {} {:?} {:?}",
                answer.code,
                header("content-type"),
                header("cache-control")
            ));
        }
    });
}
