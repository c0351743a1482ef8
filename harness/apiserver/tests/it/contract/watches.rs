//! Watches: their start, events and end.

use serde_json::{Value, json};

use super::contract;
use super::site::WIDGETS;

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

#[test]
fn a_watch_from_a_revision_sends_later_events() {
    contract!(async |site: &super::Site| {
        let first = site.config_map("a", "1").await.revision();
        site.config_map("b", "1").await;
        site.step("DELETE", &format!("{MAPS}/a"), Value::Null).await;
        let mut watch = site
            .watch(&format!(
                "{MAPS}?watch=true&resourceVersion={first}&labelSelector=value"
            ))
            .await;
        watch.expect(2).await;
        site.step("DELETE", &format!("{MAPS}/b"), Value::Null).await;
        watch.expect_brief(1).await;
    });
}

#[test]
fn a_watch_without_a_revision_starts_with_the_current_objects() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        site.config_map("b", "1").await;
        for query in ["", "&resourceVersion=0", "&resourceVersion="] {
            let mut watch = site.watch(&format!("{MAPS}?watch=1&labelSelector=value{query}")).await;
            watch.expect_brief(2).await;
        }
    });
}

#[test]
fn an_object_enters_and_leaves_a_selection() {
    contract!(async |site: &super::Site| {
        let first = site.config_map("a", "1").await.revision();
        let mut watch = site
            .watch(&format!(
                "{MAPS}?watch=true&resourceVersion={first}&labelSelector=on%3Dyes"
            ))
            .await;
        for on in [json!("yes"), json!("no"), json!("yes"), Value::Null] {
            let patch = json!({ "metadata": { "labels": { "on": on } } });
            site.merge(&format!("{MAPS}/a"), patch).await;
        }
        watch.expect(4).await;
    });
}

#[test]
fn a_watch_of_one_name_sees_only_it() {
    contract!(async |site: &super::Site| {
        let first = site.config_map("a", "1").await.revision();
        let path = format!("{MAPS}?watch=true&resourceVersion={first}&fieldSelector=metadata.name%3Db");
        let mut watch = site.watch(&path).await;
        site.merge(&format!("{MAPS}/a"), json!({ "data": { "k": "2" } })).await;
        site.config_map("b", "1").await;
        watch.expect_brief(1).await;
    });
}

#[test]
fn a_streaming_list_ends_with_a_bookmark() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        site.config_map("b", "1").await;
        let path = format!(
            "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=value"
        );
        let mut watch = site.watch(&path).await;
        watch.expect(3).await;
        site.config_map("c", "1").await;
        watch.expect_brief(1).await;
    });
}

#[test]
fn invalid_watch_options_are_rejected() {
    contract!(async |site: &super::Site| {
        for query in [
            "sendInitialEvents=true",
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            "resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch=NotOlderThan&resourceVersion=5",
            "resourceVersion=x",
            "labelSelector=a%20b",
        ] {
            site.get(&format!("{MAPS}?watch=true&timeoutSeconds=1&{query}")).await;
        }
    });
}

#[test]
fn a_watch_ends_at_its_timeout() {
    contract!(async |site: &super::Site| {
        let first = site.config_map("a", "1").await.revision();
        let path = format!("{MAPS}?watch=true&resourceVersion={first}&timeoutSeconds=1&labelSelector=value");
        let mut watch = site.watch(&path).await;
        watch.expect_end().await;
    });
}

#[test]
fn a_watch_from_a_compacted_revision_gets_an_error() {
    contract!(async |site: &super::Site| {
        // A real server keeps the history of a resource since it first served it, which for this one is now.
        site.define(super::definitions::version(json!({ "type": "object" })))
            .await;
        let mut watch = site.watch(&format!("{WIDGETS}?watch=true&resourceVersion=1")).await;
        watch.expect(1).await;
        watch.expect_end().await;
    });
}

#[test]
fn a_watch_of_one_object_by_its_path() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        let mut watch = site.watch(&format!("{MAPS}/a?watch=true&timeoutSeconds=1")).await;
        watch.expect(1).await;
    });
}

#[test]
fn every_write_is_one_event_in_order() {
    contract!(async |site: &super::Site| {
        let first = site.config_map("a", "0").await.revision();
        for round in 1..6 {
            site.step("DELETE", &format!("{MAPS}/b"), Value::Null).await;
            site.config_map("b", &round.to_string()).await;
        }
        let mut one = site.watch(&format!("{MAPS}?watch=true&resourceVersion={first}")).await;
        one.expect_brief(9).await;
        let mut other = site.watch(&format!("{MAPS}?watch=true&resourceVersion={first}")).await;
        other.expect_brief(9).await;
    });
}
