//! Versions without a webhook: the same fields under another version, pruned to its schema.

use serde_json::{Value, json};

use super::super::contract;
use super::super::site::Site;
use super::super::tables::table;
use super::{DEFINITION, Definition, V1, V2, version, widget};

fn small(storage: bool) -> Value {
    version("v1", storage, json!({ "size": { "type": "integer" } }))
}

fn large(storage: bool) -> Value {
    let properties = json!({
        "size": { "type": "integer", "default": 3 }, "color": { "type": "string", "default": "red" },
    });
    version("v2", storage, properties)
}

#[test]
fn a_version_shows_its_fields_only() {
    contract!(async |site: &Site| {
        Definition::create(site, json!({ "versions": [small(true), large(false)] })).await;
        site.post(V1, widget("v1", "a", json!({ "size": 1, "color": "blue" })))
            .await;
        site.get(&format!("{V2}/a")).await;
        site.post(V2, widget("v2", "b", json!({ "color": "blue" }))).await;
        site.get(&format!("{V1}/b")).await;
        site.get(&format!("{V2}/b")).await;
    });
}

#[test]
fn the_stored_version_has_all_fields() {
    contract!(async |site: &Site| {
        Definition::create(site, json!({ "versions": [small(false), large(true)] })).await;
        site.post(V2, widget("v2", "a", json!({ "color": "blue" }))).await;
        site.get(&format!("{V1}/a")).await;
        site.get(&format!("{V2}/a")).await;
        site.post(V1, widget("v1", "b", json!({}))).await;
        site.get(&format!("{V2}/b")).await;
        site.merge(&format!("{V1}/a"), json!({ "spec": { "size": 5 } })).await;
        site.get(&format!("{V2}/a")).await;
    });
}

#[test]
fn lists_and_watches_of_versions() {
    contract!(async |site: &Site| {
        Definition::create(site, json!({ "versions": [small(false), large(true)] })).await;
        let mut first = site.watch(&format!("{V1}?watch=true")).await;
        let mut second = site.watch(&format!("{V2}?watch=true")).await;
        site.quietly("POST", V2, &[], widget("v2", "a", json!({ "color": "blue" })))
            .await;
        site.quietly("POST", V1, &[], widget("v1", "b", json!({ "size": 7 })))
            .await;
        first.expect(2).await;
        second.expect(2).await;
        site.get(V1).await;
        site.get(V2).await;
        site.delete(&format!("{V1}/a"), Value::Null).await;
        first.expect(1).await;
        second.expect(1).await;
    });
}

#[test]
fn an_object_is_checked_in_the_version_of_the_request() {
    contract!(async |site: &Site| {
        let limited = version(
            "v2",
            false,
            json!({ "size": { "type": "integer", "maximum": 5 }, "color": { "type": "string" } }),
        );
        Definition::create(site, json!({ "versions": [small(true), limited] })).await;
        site.post(V2, widget("v2", "a", json!({ "size": 9 }))).await;
        site.post(V1, widget("v1", "a", json!({ "size": 9 }))).await;
        site.get(&format!("{V2}/a")).await;
        site.merge(&format!("{V2}/a"), json!({ "spec": { "size": 8 } })).await;
        site.merge(&format!("{V2}/a"), json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
    });
}

#[test]
fn a_changed_schema_applies_to_stored_objects() {
    contract!(async |site: &Site| {
        let old = json!({ "size": { "type": "integer" }, "shape": { "type": "string" } });
        let definition = Definition::create(site, json!({ "versions": [version("v1", true, old)] })).await;
        site.quietly(
            "POST",
            V1,
            &[],
            widget("v1", "a", json!({ "size": 1, "shape": "round" })),
        )
        .await;
        site.quietly("POST", V1, &[], widget("v1", "b", json!({}))).await;
        let new = json!({ "size": { "type": "integer", "default": 2 }, "weight": { "type": "integer", "default": 3 } });
        definition
            .change(V1, json!({ "versions": [version("v1", true, new)] }))
            .await;
        site.get(&format!("{V1}/a")).await;
        site.get(V1).await;
        site.merge(&format!("{V1}/b"), json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
    });
}

#[test]
fn the_storage_version_changes() {
    contract!(async |site: &Site| {
        let definition = Definition::create(site, json!({ "versions": [small(true), large(false)] })).await;
        site.quietly("POST", V1, &[], widget("v1", "a", json!({ "size": 1 })))
            .await;
        definition
            .change(V2, json!({ "versions": [small(false), large(true)] }))
            .await;
        let current = site.quietly("GET", DEFINITION, &[], Value::Null).await.body;
        site.note(&current["status"]["storedVersions"].to_string());
        site.get(&format!("{V1}/a")).await;
        let before = site.get(&format!("{V2}/a")).await;
        let migrated = site.quietly("PUT", &format!("{V2}/a"), &[], before.body.clone()).await;
        site.note(&format!(
            "revision changes: {}",
            migrated.revision() != before.revision()
        ));
        let again = site
            .quietly("PUT", &format!("{V2}/a"), &[], migrated.body.clone())
            .await;
        site.note(&format!(
            "revision changes: {}",
            again.revision() != migrated.revision()
        ));
        site.note(&again.body["spec"].to_string());
    });
}

#[test]
fn a_stored_version_leaves_the_definition() {
    contract!(async |site: &Site| {
        let definition = Definition::create(site, json!({ "versions": [small(true), large(false)] })).await;
        definition
            .change(V2, json!({ "versions": [small(false), large(true)] }))
            .await;
        let change = json!({ "spec": { "versions": [large(true)] } });
        site.causes("too early", "PATCH", DEFINITION, change.clone()).await;
        let migrated = json!({ "status": { "storedVersions": ["v2"] } });
        site.causes("status", "PATCH", &format!("{DEFINITION}/status"), migrated)
            .await;
        site.causes("later", "PATCH", DEFINITION, change).await;
        let current = site.quietly("GET", DEFINITION, &[], Value::Null).await.body;
        site.note(&current["status"]["storedVersions"].to_string());
    });
}

#[test]
fn a_version_that_is_not_served() {
    contract!(async |site: &Site| {
        let mut hidden = large(true);
        hidden["served"] = false.into();
        Definition::create(site, json!({ "versions": [small(false), hidden] })).await;
        site.post(V1, widget("v1", "a", json!({ "size": 1 }))).await;
        site.get(&format!("{V1}/a")).await;
        let answer = site.quietly("GET", &format!("{V2}/a"), &[], Value::Null).await;
        site.note(&format!("{} {}", answer.code, answer.body));
        site.delete(&format!("{V1}/a"), Value::Null).await;
    });
}

#[test]
fn columns_and_fields_of_versions() {
    contract!(async |site: &Site| {
        let (mut first, mut second) = (small(true), large(false));
        first["additionalPrinterColumns"] = json!([{ "name": "Size", "type": "integer", "jsonPath": ".spec.size" }]);
        second["additionalPrinterColumns"] = json!([{ "name": "Color", "type": "string", "jsonPath": ".spec.color" }]);
        first["selectableFields"] = json!([{ "jsonPath": ".spec.size" }]);
        second["selectableFields"] = json!([{ "jsonPath": ".spec.size" }, { "jsonPath": ".spec.color" }]);
        Definition::create(site, json!({ "versions": [second, first] })).await;
        site.quietly("POST", V2, &[], widget("v2", "a", json!({ "color": "blue" })))
            .await;
        site.quietly("POST", V1, &[], widget("v1", "b", json!({ "size": 4 })))
            .await;
        table(site, V1).await;
        table(site, V2).await;
        for (path, selector) in [
            (V1, "spec.size=4"),
            (V2, "spec.size=3"),
            (V2, "spec.color=blue"),
            (V1, "spec.color=blue"),
        ] {
            let path = format!("{path}?fieldSelector={}", selector.replace('=', "%3D"));
            let answer = site.quietly("GET", &path, &[], Value::Null).await;
            let names: Vec<_> = answer.body["items"].as_array().into_iter().flatten().collect();
            let names: Vec<_> = names.iter().map(|item| item["metadata"]["name"].to_string()).collect();
            site.note(&format!(
                "{selector}: {} {names:?} {}",
                answer.code, answer.body["message"]
            ));
        }
    });
}

#[test]
fn fields_that_only_the_stored_version_selects() {
    contract!(async |site: &Site| {
        let mut first = small(true);
        first["selectableFields"] = json!([{ "jsonPath": ".spec.size" }]);
        Definition::create(site, json!({ "versions": [first, large(false)] })).await;
        site.quietly("POST", V2, &[], widget("v2", "a", json!({ "size": 3 })))
            .await;
        site.quietly("POST", V2, &[], widget("v2", "b", json!({ "size": 4 })))
            .await;
        site.get(&format!("{V1}?fieldSelector=spec.size%3D3")).await;
    });
}

#[test]
fn scales_of_versions() {
    contract!(async |site: &Site| {
        let with_scale = |mut version: Value, path: &str| {
            version["subresources"] =
                json!({ "scale": { "specReplicasPath": path, "statusReplicasPath": ".status.replicas" } });
            version
        };
        let both = json!({ "size": { "type": "integer" }, "count": { "type": "integer" } });
        let first = with_scale(version("v1", true, both.clone()), ".spec.size");
        let second = with_scale(version("v2", false, both), ".spec.count");
        Definition::create(site, json!({ "versions": [first, second] })).await;
        site.quietly("POST", V1, &[], widget("v1", "a", json!({ "size": 1, "count": 2 })))
            .await;
        site.get(&format!("{V1}/a/scale")).await;
        site.get(&format!("{V2}/a/scale")).await;
        site.merge(&format!("{V2}/a/scale"), json!({ "spec": { "replicas": 5 } }))
            .await;
        site.get(&format!("{V1}/a")).await;
    });
}

#[test]
fn managers_of_versions() {
    contract!(async |site: &Site| {
        Definition::create(site, json!({ "versions": [small(false), large(true)] })).await;
        site.keep_managers();
        site.apply(&format!("{V1}/a"), "one", widget("v1", "a", json!({ "size": 1 })))
            .await;
        site.apply(&format!("{V2}/a"), "two", widget("v2", "a", json!({ "size": 2 })))
            .await;
        site.apply(&format!("{V2}/a"), "two", widget("v2", "a", json!({ "color": "blue" })))
            .await;
        site.apply(&format!("{V1}/a"), "one", widget("v1", "a", json!({})))
            .await;
    });
}
