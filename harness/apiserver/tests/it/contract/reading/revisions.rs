//! Revisions in reads of single objects and of lists.

use serde_json::{Value, json};

use super::super::definitions::version;
use super::super::site::{Site, WIDGETS};
use super::{MAPS, contract, page};

/// Records code, reason and value of a read.
async fn read(site: &Site, what: &str, path: &str) {
    let answer = site.quietly("GET", path, &[], Value::Null).await;
    let message = answer.body["message"].as_str().unwrap_or_default();
    // The current revision follows.
    let message = message.split(", current").next().unwrap_or_default();
    site.note(&format!(
        "{what}: {} {} {message}",
        answer.code, answer.body["data"]["key"]
    ));
}

#[test]
fn a_read_at_a_revision_is_not_older() {
    contract!(async |site: &Site| {
        let first = site.config_map("a", "1").await.revision();
        let changed = site
            .merge(&format!("{MAPS}/a"), json!({ "data": { "key": "2" } }))
            .await;
        for (what, revision) in [
            ("none", ""),
            ("zero", "0"),
            ("old", &first),
            ("current", &changed.revision()),
        ] {
            read(site, what, &format!("{MAPS}/a?resourceVersion={revision}")).await;
        }
    });
}

#[test]
fn a_read_at_an_invalid_revision_is_refused() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        for revision in ["x", "-1", "1.5", "0x1"] {
            read(site, revision, &format!("{MAPS}/a?resourceVersion={revision}")).await;
        }
        read(
            site,
            "a match",
            &format!("{MAPS}/a?resourceVersion=0&resourceVersionMatch=Exact"),
        )
        .await;
        read(site, "a missing object", &format!("{MAPS}/b?resourceVersion=0")).await;
    });
}

#[test]
fn a_read_at_a_future_revision_times_out() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        read(site, "future", &format!("{MAPS}/a?resourceVersion=99999999999")).await;
    });
}

#[test]
fn a_list_at_an_exact_revision_has_deleted_objects() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        let before = site.config_map("b", "1").await.revision();
        site.step("DELETE", &format!("{MAPS}/a"), Value::Null).await;
        let list = format!("{MAPS}?labelSelector=value");
        page(site, "now", &list).await;
        let exact = format!("&resourceVersion={before}&resourceVersionMatch=Exact");
        page(site, "then", &format!("{list}{exact}")).await;
        page(
            site,
            "then by name",
            &format!("{list}{exact}&fieldSelector=metadata.name%3Da"),
        )
        .await;
        page(
            site,
            "since",
            &format!("{list}&resourceVersion={before}&resourceVersionMatch=NotOlderThan"),
        )
        .await;
    });
}

#[test]
fn a_list_at_an_exact_revision_has_old_values() {
    contract!(async |site: &Site| {
        let first = site.config_map("a", "1").await.revision();
        site.merge(
            &format!("{MAPS}/a"),
            json!({ "data": { "key": "2" }, "metadata": { "labels": { "value": "2" } } }),
        )
        .await;
        let exact = format!("resourceVersion={first}&resourceVersionMatch=Exact");
        for selector in ["value%3D1", "value%3D2"] {
            let path = format!("{MAPS}?labelSelector={selector}&{exact}");
            let answer = site.quietly("GET", &path, &[], Value::Null).await;
            site.note(&format!("{selector}: {}", answer.body["items"][0]["data"]));
        }
    });
}

#[test]
fn a_list_is_not_older_than_its_objects() {
    contract!(async |site: &Site| {
        let number = |text: String| text.parse::<u64>().unwrap();
        let created = number(site.config_map("a", "1").await.revision());
        for query in ["", "&resourceVersion=0", "&limit=1"] {
            let list = site
                .quietly("GET", &format!("{MAPS}?labelSelector=value{query}"), &[], Value::Null)
                .await;
            site.note(&format!("{query}: {}", number(list.revision()) >= created));
        }
        site.step("DELETE", &format!("{MAPS}/a"), Value::Null).await;
        let list = site
            .quietly("GET", &format!("{MAPS}?labelSelector=value"), &[], Value::Null)
            .await;
        site.note(&format!("after a deletion: {}", number(list.revision()) > created));
    });
}

#[test]
fn revisions_of_custom_resources() {
    contract!(async |site: &Site| {
        site.define(version(
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        ))
        .await;
        let widget = json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": "a" }, "data": { "key": "1" } });
        let first = site.step("POST", WIDGETS, widget).await.revision();
        site.merge(&format!("{WIDGETS}/a"), json!({ "data": { "key": "2" } }))
            .await;
        read(site, "zero", &format!("{WIDGETS}/a?resourceVersion=0")).await;
        read(site, "old", &format!("{WIDGETS}/a?resourceVersion={first}")).await;
        read(site, "invalid", &format!("{WIDGETS}/a?resourceVersion=x")).await;
        let exact = format!("{WIDGETS}?resourceVersion={first}&resourceVersionMatch=Exact");
        let answer = site.quietly("GET", &exact, &[], Value::Null).await;
        site.note(&format!("exact: {} {}", answer.code, answer.body["items"][0]["data"]));
    });
}
