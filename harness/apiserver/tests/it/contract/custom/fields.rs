//! Lists and watches by selectable fields of custom resources.

use serde_json::{Value, json};

use super::{Site, WIDGETS, contract, schema, version, widget, with};

async fn define(site: &Site) {
    let properties = json!({
        "color": { "type": "string" }, "size": { "type": "integer" }, "on": { "type": "boolean" },
        "inner": { "type": "object", "properties": { "shape": { "type": "string" } } },
    });
    let fields: Vec<Value> = [".spec.color", ".spec.size", ".spec.on", ".spec.inner.shape"]
        .into_iter()
        .map(|path| json!({ "jsonPath": path }))
        .collect();
    site.define(with(
        &version(schema(properties)),
        json!({ "selectableFields": fields }),
    ))
    .await;
}

async fn select(site: &Site, selector: &str) {
    let path = format!("{WIDGETS}?fieldSelector={}", selector.replace('=', "%3D"));
    let answer = site.quietly("GET", &path, &[], Value::Null).await;
    let items = answer.body["items"].as_array().into_iter().flatten();
    let names: Vec<&str> = items.filter_map(|item| item["metadata"]["name"].as_str()).collect();
    site.note(&format!(
        "{selector}: {} {names:?} {}",
        answer.code, answer.body["message"]
    ));
}

#[test]
fn a_list_selects_by_fields() {
    contract!(async |site: &Site| {
        define(site).await;
        for (name, spec) in [
            ("a", json!({ "color": "red", "size": 1, "on": true })),
            (
                "b",
                json!({ "color": "blue", "size": 10, "on": false, "inner": { "shape": "round" } }),
            ),
            ("c", json!({})),
        ] {
            site.step("POST", WIDGETS, widget(name, spec)).await;
        }
        for selector in [
            "spec.color=red",
            "spec.color!=red",
            "spec.color=",
            "spec.size=10",
            "spec.size=010",
            "spec.on=true",
            "spec.on=false",
            "spec.inner.shape=round",
            "spec.color=red,spec.size=1",
            "spec.color=red,metadata.name=b",
            "spec.other=1",
            "color=red",
        ] {
            select(site, selector).await;
        }
    });
}

#[test]
fn a_watch_selects_by_fields() {
    contract!(async |site: &Site| {
        define(site).await;
        let first = site
            .step("POST", WIDGETS, widget("a", json!({ "color": "red" })))
            .await
            .revision();
        let path = format!("{WIDGETS}?watch=true&resourceVersion={first}&fieldSelector=spec.color%3Dblue");
        let mut watch = site.watch(&path).await;
        for color in ["blue", "red", "blue"] {
            site.merge(&format!("{WIDGETS}/a"), json!({ "spec": { "color": color } }))
                .await;
        }
        site.step("DELETE", &format!("{WIDGETS}/a"), Value::Null).await;
        watch.expect_brief(4).await;
    });
}

#[test]
fn a_collection_is_deleted_by_fields() {
    contract!(async |site: &Site| {
        define(site).await;
        for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
            site.step("POST", WIDGETS, widget(name, json!({ "color": color })))
                .await;
        }
        site.step(
            "DELETE",
            &format!("{WIDGETS}?fieldSelector=spec.color%3Dred"),
            Value::Null,
        )
        .await;
        select(site, "metadata.namespace={ns}").await;
        site.step(
            "DELETE",
            &format!("{WIDGETS}?fieldSelector=spec.odd%3Dred"),
            Value::Null,
        )
        .await;
    });
}

#[test]
fn fields_select_in_other_forms() {
    contract!(async |site: &Site| {
        define(site).await;
        for (name, color) in [("a", "red"), ("b", "blue")] {
            site.step("POST", WIDGETS, widget(name, json!({ "color": color })))
                .await;
        }
        let path = format!("{WIDGETS}?fieldSelector=spec.color%3Dred&limit=1");
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = site.quietly("GET", &path, &[("accept", accept)], Value::Null).await;
        site.note(&format!("{} {}", table.code, table.body["rows"][0]["cells"][0]));
        let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let list = site.quietly("GET", &path, &[("accept", accept)], Value::Null).await;
        site.note(&format!("{} {}", list.code, list.body["items"][0]["metadata"]["name"]));
        site.get("/apis/{group}/v1/widgets?fieldSelector=spec.color%3Dgreen")
            .await;
    });
}
