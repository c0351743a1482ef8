//! Watches beyond their start: streaming lists, selections that follow other fields, forms of events.

use serde_json::{Value, json};

use super::super::definitions::version;
use super::super::site::{Site, WIDGETS};
use super::{MAPS, contract};

const STREAM: &str =
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=2";
const PODS: &str = "/api/v1/namespaces/{ns}/pods";

/// Records the kind, name and annotations of an event.
fn brief(site: &Site, event: &Value) {
    let object = &event["object"];
    let metadata = &object["metadata"];
    site.note(&format!(
        "{} {} {} {} {}",
        event["type"], object["apiVersion"], object["kind"], metadata["name"], metadata["annotations"]
    ));
}

/// Reads a watch until its end, and records its events.
async fn whole(site: &Site, path: &str, accept: &str) {
    let answer = site.quietly("GET", path, &[("accept", accept)], Value::Null).await;
    let text = match &answer.body {
        Value::String(text) => text.clone(),
        one => one.to_string(),
    };
    site.note(&format!("{}", answer.code));
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        // Upstream also sends bookmarks shortly before the end.
        if event["type"] != "BOOKMARK" || event["object"]["metadata"]["annotations"].is_object() {
            brief(site, &event);
        }
    }
}

#[test]
fn a_streaming_list_of_nothing_is_a_bookmark() {
    contract!(async |site: &Site| {
        whole(
            site,
            &format!("{MAPS}?{STREAM}&labelSelector=absent"),
            "application/json",
        )
        .await;
        whole(site, &format!("{PODS}?{STREAM}"), "application/json").await;
    });
}

#[test]
fn a_streaming_list_of_metadata() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        whole(site, &format!("{MAPS}?{STREAM}&labelSelector=value"), metadata).await;
    });
}

#[test]
fn a_streaming_list_of_custom_resources() {
    contract!(async |site: &Site| {
        site.define(version(json!({ "type": "object" }))).await;
        for name in ["b", "a"] {
            let widget = json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": name } });
            site.step("POST", WIDGETS, widget).await;
        }
        whole(site, &format!("{WIDGETS}?{STREAM}"), "application/json").await;
    });
}

#[test]
fn a_streaming_list_starts_at_any_revision() {
    contract!(async |site: &Site| {
        let first = site.config_map("a", "1").await.revision();
        site.config_map("b", "1").await;
        for revision in ["", "0", &first] {
            let path = format!("{MAPS}?{STREAM}&labelSelector=value&resourceVersion={revision}");
            whole(site, &path, "application/json").await;
        }
    });
}

#[test]
fn a_watch_can_decline_initial_events() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        let path = format!(
            "{MAPS}?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&labelSelector=value&timeoutSeconds=30"
        );
        let mut watch = site.watch(&path).await;
        site.config_map("b", "1").await;
        watch.expect_brief(1).await;
    });
}

#[test]
fn a_pod_enters_the_watch_of_its_node() {
    contract!(async |site: &Site| {
        let pod = |name: &str| json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        let first = site.step("POST", PODS, pod("a")).await.revision();
        let path = format!("{PODS}?watch=true&resourceVersion={first}&fieldSelector=spec.nodeName%3Dn");
        let mut watch = site.watch(&path).await;
        let binding = json!({ "metadata": { "name": "a" }, "target": { "kind": "Node", "name": "n" } });
        site.step("POST", &format!("{PODS}/a/binding"), binding).await;
        site.step("POST", PODS, pod("b")).await;
        site.merge(&format!("{PODS}/a"), json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
        let force = json!({ "gracePeriodSeconds": 0 });
        site.step("DELETE", &format!("{PODS}/a"), force).await;
        watch.expect_brief(3).await;
    });
}

#[test]
fn a_pod_leaves_the_watch_of_active_pods() {
    contract!(async |site: &Site| {
        let pod = json!({ "metadata": { "name": "a" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        let first = site.step("POST", PODS, pod).await.revision();
        let selector = "status.phase!%3DFailed,status.phase!%3DSucceeded";
        let path = format!("{PODS}?watch=true&resourceVersion={first}&fieldSelector={selector}");
        let mut watch = site.watch(&path).await;
        for phase in ["Running", "Succeeded", "Running"] {
            site.merge(&format!("{PODS}/a/status"), json!({ "status": { "phase": phase } }))
                .await;
        }
        watch.expect_brief(3).await;
    });
}

#[test]
fn a_watch_of_all_namespaces() {
    contract!(async |site: &Site| {
        let first = site.config_map("a", "{ns}").await.revision();
        let path = format!("/api/v1/configmaps?watch=true&resourceVersion={first}&labelSelector=value%3D{{ns}}");
        let mut watch = site.watch(&path).await;
        site.config_map("b", "{ns}").await;
        site.config_map("c", "other").await;
        site.step("DELETE", &format!("{MAPS}/a"), Value::Null).await;
        watch.expect_brief(2).await;
    });
}

#[test]
fn a_deleted_collection_is_one_event_for_each_object() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        let last = site.config_map("b", "1").await.revision();
        let mut watch = site
            .watch(&format!("{MAPS}?watch=true&resourceVersion={last}&labelSelector=value"))
            .await;
        site.step("DELETE", &format!("{MAPS}?labelSelector=value"), Value::Null)
            .await;
        // Upstream deletes them in parallel.
        let mut names = vec![watch.next().await.unwrap(), watch.next().await.unwrap()];
        names.sort_by_key(|event| event["object"]["metadata"]["name"].to_string());
        for event in names {
            brief(site, &event);
        }
    });
}

#[test]
fn the_old_paths_of_watches() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        site.config_map("b", "1").await;
        let list = "/api/v1/watch/namespaces/{ns}/configmaps?labelSelector=value&timeoutSeconds=1";
        whole(site, list, "application/json").await;
        let one = "/api/v1/watch/namespaces/{ns}/configmaps/b?timeoutSeconds=1";
        whole(site, one, "application/json").await;
        site.step("GET", "/api/v1/watch/namespaces/{ns}/odd", Value::Null).await;
    });
}

#[test]
fn a_watch_of_metadata_sees_changes_of_data() {
    contract!(async |site: &Site| {
        let first = site.config_map("a", "1").await.revision();
        site.merge(&format!("{MAPS}/a"), json!({ "data": { "key": "2" } }))
            .await;
        let path = format!("{MAPS}?watch=true&resourceVersion={first}&labelSelector=value&timeoutSeconds=1");
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        whole(site, &path, metadata).await;
    });
}

#[test]
fn a_deletion_shows_the_object_before_it_left_the_selection() {
    contract!(async |site: &Site| {
        let first = site.config_map("a", "1").await.revision();
        let path = format!("{MAPS}?watch=true&resourceVersion={first}&labelSelector=value%3D1");
        let mut watch = site.watch(&path).await;
        let change = json!({ "data": { "key": "2" }, "metadata": { "labels": { "value": "2" } } });
        site.merge(&format!("{MAPS}/a"), change).await;
        watch.expect(1).await;
    });
}

#[test]
fn a_write_of_the_status_is_an_event() {
    contract!(async |site: &Site| {
        let nodes = "/api/v1/nodes";
        let node = json!({ "metadata": { "name": "{ns}", "labels": { "c": "{ns}" } } });
        let first = site.step("POST", nodes, node).await.revision();
        let path = format!("{nodes}?watch=true&resourceVersion={first}&fieldSelector=metadata.name%3D{{ns}}");
        let mut watch = site.watch(&path).await;
        let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        site.merge("/api/v1/nodes/{ns}/status", status.clone()).await;
        // Nothing changes: no event.
        site.merge("/api/v1/nodes/{ns}/status", status).await;
        site.step("DELETE", "/api/v1/nodes/{ns}", Value::Null).await;
        watch.expect_brief(2).await;
    });
}
