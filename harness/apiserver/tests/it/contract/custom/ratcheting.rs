//! Ratcheting: an invalid value that an update does not change is accepted.

use serde_json::{Value, json};

use super::super::site::widgets;
use super::{Site, WIDGETS, contract, schema, updates, version, widget};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}";

/// Defines widgets with a loose schema, creates one, and then tightens the schema.
async fn tightened(site: &Site, loose: Value, spec: Value, tight: Value) {
    site.define(version(schema(loose))).await;
    site.step("POST", WIDGETS, widget("a", spec)).await;
    let definition = widgets(json!({ "versions": [version(schema(tight))] }));
    let patch = json!({ "spec": { "versions": definition["spec"]["versions"] } });
    let merge = [("content-type", "application/merge-patch+json")];
    let answer = site.quietly("PATCH", DEFINITION, &merge, patch).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    // A real server uses the new schema later.
    for _ in 0..600 {
        let probe = widget("probe", json!({ "probe": "wrong" }));
        if site
            .quietly("POST", &format!("{WIDGETS}?dryRun=All"), &[], probe)
            .await
            .code
            == 422
        {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the new schema does not apply");
}

fn probe() -> Value {
    json!({ "type": "string", "enum": ["right"] })
}

#[test]
fn of_texts_and_numbers() {
    contract!(async |site: &Site| {
        let loose = json!({ "text": { "type": "string" }, "n": { "type": "integer" }, "other": { "type": "string" }, "probe": { "type": "string" } });
        let tight = json!({
            "text": { "type": "string", "maxLength": 2, "pattern": "^a" }, "n": { "type": "integer", "maximum": 5 },
            "other": { "type": "string" }, "probe": probe(),
        });
        tightened(site, loose, json!({ "text": "bcd", "n": 9 }), tight).await;
        updates(
            site,
            &[
                json!({ "other": "x" }),
                json!({ "text": "bcde" }),
                json!({ "n": 8 }),
                json!({ "n": 5 }),
                json!({ "text": "a", "n": 9 }),
                json!({ "text": null, "n": 10 }),
            ],
        )
        .await;
    });
}

#[test]
fn of_items_of_lists() {
    contract!(async |site: &Site| {
        let list = |items: Value| json!({ "type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"] });
        let item = |value: Value| json!({ "type": "object", "required": ["k"], "properties": { "k": { "type": "string" }, "v": value } });
        let plain = |items: Value| json!({ "type": "array", "items": items });
        let loose = json!({ "map": list(item(json!({ "type": "string" }))), "list": plain(json!({ "type": "string" })), "probe": { "type": "string" } });
        let short = json!({ "type": "string", "maxLength": 2 });
        let tight = json!({ "map": list(item(short.clone())), "list": plain(short), "probe": probe() });
        let spec = json!({ "map": [{ "k": "a", "v": "long" }, { "k": "b", "v": "ok" }], "list": ["long", "ok"] });
        tightened(site, loose, spec, tight).await;
        updates(
            site,
            &[
                json!({ "map": [{ "k": "b", "v": "o" }, { "k": "a", "v": "long" }] }),
                json!({ "map": [{ "k": "a", "v": "longer" }] }),
                json!({ "map": [{ "k": "c", "v": "long" }] }),
                json!({ "list": ["long", "ok"] }),
                json!({ "list": ["long", "no"] }),
                json!({ "list": ["long"] }),
            ],
        )
        .await;
    });
}

#[test]
fn of_missing_and_additional_fields() {
    contract!(async |site: &Site| {
        let inner = |required: Value| json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } }, "required": required });
        let loose = json!({ "inner": inner(json!([])), "other": { "type": "string" }, "probe": { "type": "string" } });
        let tight = json!({ "inner": inner(json!(["b"])), "other": { "type": "string" }, "probe": probe() });
        tightened(site, loose, json!({ "inner": { "a": "x" } }), tight).await;
        updates(
            site,
            &[
                json!({ "other": "x" }),
                json!({ "inner": { "a": "y" } }),
                json!({ "inner": { "b": "y" } }),
                json!({ "inner": null }),
            ],
        )
        .await;
    });
}

#[test]
fn of_rules() {
    contract!(async |site: &Site| {
        let loose = json!({ "n": { "type": "integer" }, "m": { "type": "integer" }, "other": { "type": "string" }, "probe": { "type": "string" } });
        let tight = json!({
            "n": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self < 5", "message": "n is small" }] },
            "m": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self >= oldSelf", "message": "m grows" }] },
            "other": { "type": "string" }, "probe": probe(),
        });
        tightened(site, loose, json!({ "n": 9, "m": 3 }), tight).await;
        updates(
            site,
            &[
                json!({ "other": "x" }),
                json!({ "n": 8 }),
                json!({ "n": 4 }),
                json!({ "m": 2 }),
                json!({ "m": 4 }),
            ],
        )
        .await;
    });
}

#[test]
fn of_a_changed_type() {
    contract!(async |site: &Site| {
        let loose = json!({ "v": { "type": "string" }, "other": { "type": "string" }, "probe": { "type": "string" } });
        let tight = json!({ "v": { "type": "integer" }, "other": { "type": "string" }, "probe": probe() });
        tightened(site, loose, json!({ "v": "text" }), tight).await;
        updates(
            site,
            &[json!({ "other": "x" }), json!({ "v": 5 }), json!({ "v": "texts" })],
        )
        .await;
    });
}
