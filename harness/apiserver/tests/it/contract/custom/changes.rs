//! Changes of a definition, its names, and its own status.

use serde_json::{Value, json};

use super::{Site, WIDGETS, contract, schema, version, widget, with};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}";

#[test]
fn the_status_is_not_written_with_the_definition() {
    contract!(async |site: &Site| {
        site.define(version(schema(json!({})))).await;
        let merge = [("content-type", "application/merge-patch+json")];
        let patch = json!({ "status": { "storedVersions": ["v9"] }, "metadata": { "labels": { "a": "b" } } });
        let answer = site.quietly("PATCH", DEFINITION, &merge, patch).await;
        site.note(&format!(
            "{} {} {}",
            answer.code, answer.body["status"]["storedVersions"], answer.body["metadata"]["labels"]
        ));
        let spec = json!({ "spec": { "names": { "shortNames": ["wg"] } }, "status": { "storedVersions": ["v1"] } });
        let answer = site
            .quietly("PATCH", &format!("{DEFINITION}/status"), &merge, spec)
            .await;
        site.note(&format!(
            "{} {}",
            answer.code, answer.body["spec"]["names"]["shortNames"]
        ));
    });
}

#[test]
fn generation_of_a_custom_resource() {
    contract!(async |site: &Site| {
        let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        site.define(with(&version(any), json!({ "subresources": { "status": {} } })))
            .await;
        site.step("POST", WIDGETS, widget("a", json!({ "n": 1 }))).await;
        let path = format!("{WIDGETS}/a");
        let merge = [("content-type", "application/merge-patch+json")];
        for (at, patch) in [
            ("", json!({ "metadata": { "labels": { "a": "b" } } })),
            ("", json!({ "spec": { "n": 2 } })),
            ("", json!({ "spec": { "n": 2 } })),
            ("", json!({ "status": { "n": 2 } })),
            ("", json!({ "other": 1 })),
            ("/status", json!({ "status": { "n": 3 } })),
            ("/status", json!({ "spec": { "n": 3 } })),
            ("", json!({ "metadata": { "generation": 90 } })),
            ("", json!({ "metadata": { "finalizers": ["x.io/a"] } })),
        ] {
            let answer = site
                .quietly("PATCH", &format!("{path}{at}"), &merge, patch.clone())
                .await;
            site.note(&format!(
                "{at} {patch}: {} {} {}",
                answer.code, answer.body["metadata"]["generation"], answer.body["status"]
            ));
        }
        let deleted = site.quietly("DELETE", &path, &[], Value::Null).await;
        site.note(&format!(
            "deleted: {} {}",
            deleted.code, deleted.body["metadata"]["generation"]
        ));
    });
}
