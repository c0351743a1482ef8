//! Kinds that two versions serve from one storage: events and autoscalers.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, with};
use super::tables::table;

const CORE: &str = "/api/v1/namespaces/{ns}/events";
const NEWER: &str = "/apis/events.k8s.io/v1/namespaces/{ns}/events";
const TIME: &str = "2026-01-31T12:00:00.123456Z";

fn regarding() -> Value {
    json!({ "kind": "Pod", "namespace": "{ns}", "name": "p" })
}

fn newer(change: Value) -> Value {
    let event = json!({
        "metadata": { "name": "b" }, "eventTime": TIME, "type": "Normal", "action": "Start", "reason": "Started",
        "regarding": regarding(), "reportingController": "example.com/c", "reportingInstance": "c-1", "note": "n",
    });
    with(&event, change)
}

#[test]
fn an_event_of_the_core_group_in_the_newer_group() {
    contract!(async |site: &Site| {
        let event = json!({
            "metadata": { "name": "a" }, "involvedObject": regarding(), "message": "m", "reason": "r", "type": "Normal",
            "source": { "component": "c", "host": "h" }, "count": 3, "firstTimestamp": "2026-01-31T12:00:00Z",
        });
        site.post(CORE, event).await;
        site.get(&format!("{NEWER}/a")).await;
        site.get(NEWER).await;
        site.merge(&format!("{NEWER}/a"), json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
        site.get(&format!("{CORE}/a")).await;
    });
}

#[test]
fn an_event_of_the_newer_group() {
    contract!(async |site: &Site| {
        site.post(NEWER, newer(json!({}))).await;
        site.post(NEWER, newer(json!({}))).await;
        site.get(&format!("{CORE}/b")).await;
        site.merge(&format!("{NEWER}/b"), json!({ "note": "other" })).await;
        let series = json!({ "series": { "count": 2, "lastObservedTime": TIME } });
        site.merge(&format!("{NEWER}/b"), series).await;
        site.put(&format!("{NEWER}/b"), newer(json!({ "reason": "Other" })))
            .await;
        site.step("DELETE", &format!("{NEWER}/b"), Value::Null).await;
        site.get(&format!("{NEWER}/b")).await;
    });
}

#[test]
fn an_event_of_the_newer_group_is_checked() {
    contract!(async |site: &Site| {
        for change in [
            json!({ "eventTime": null }),
            json!({ "type": "Odd" }),
            json!({ "action": "" }),
            json!({ "reason": "" }),
            json!({ "reportingController": "" }),
            json!({ "reportingController": "a b" }),
            json!({ "reportingInstance": "" }),
            json!({ "note": "n".repeat(1025) }),
            json!({ "regarding": { "kind": "Node", "name": "n" } }),
            json!({ "series": { "count": 1 } }),
            json!({ "deprecatedCount": 1, "deprecatedSource": { "component": "c" } }),
        ] {
            site.post(NEWER, newer(change)).await;
        }
    });
}

#[test]
fn an_event_with_a_time_in_the_core_group_is_checked() {
    contract!(async |site: &Site| {
        let event = json!({ "metadata": { "name": "a" }, "involvedObject": regarding(), "eventTime": TIME });
        site.post(CORE, event.clone()).await;
        let full = json!({
            "reportingComponent": "example.com/c", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal",
            "source": { "component": "c" },
        });
        site.post(CORE, with(&event, full)).await;
    });
}

#[test]
fn selectors_of_events() {
    contract!(async |site: &Site| {
        site.quietly("POST", NEWER, &[], newer(json!({}))).await;
        for (path, selector) in [
            (NEWER, "regarding.name=p"),
            (NEWER, "regarding.name=q"),
            (NEWER, "reportingController=example.com/c"),
            (NEWER, "involvedObject.name=p"),
            (CORE, "involvedObject.name=p"),
            (CORE, "reportingComponent=example.com/c"),
            (CORE, "regarding.name=p"),
        ] {
            let path = format!(
                "{path}?fieldSelector={}",
                selector.replace('=', "%3D").replace('/', "%2F")
            );
            let answer = site.quietly("GET", &path, &[], Value::Null).await;
            let count = answer.body["items"].as_array().map_or(0, Vec::len);
            site.note(&format!(
                "{selector}: {} {count} {}",
                answer.code, answer.body["message"]
            ));
        }
        let event =
            json!({ "metadata": { "name": "c" }, "involvedObject": regarding(), "message": "m", "reason": "r" });
        site.quietly("POST", CORE, &[], event).await;
        table(site, &format!("{NEWER}/c")).await;
        table(site, &format!("{CORE}/c")).await;
    });
}

#[test]
fn a_watch_of_events_sends_the_form_of_its_group() {
    contract!(async |site: &Site| {
        let mut newer_watch = site.watch(&format!("{NEWER}?watch=true")).await;
        let mut core_watch = site.watch(&format!("{CORE}?watch=true")).await;
        site.quietly("POST", NEWER, &[], newer(json!({}))).await;
        newer_watch.expect(1).await;
        core_watch.expect(1).await;
    });
}

const FIRST: &str = "/apis/autoscaling/v1/namespaces/{ns}/horizontalpodautoscalers";
const SECOND: &str = "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers";

fn scaler(spec: Value) -> Value {
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" });
    json!({ "metadata": { "name": "a" }, "spec": with(&json!({ "scaleTargetRef": target, "maxReplicas": 3 }), spec) })
}

/// Records what the first version keeps in annotations. The order of the members differs.
fn parsed_annotations(site: &Site, scaler: &Value) {
    for (name, value) in scaler["metadata"]["annotations"].as_object().into_iter().flatten() {
        let value: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
        site.note(&format!("{name}: {value:#}"));
    }
}

#[test]
fn an_autoscaler_of_the_first_version() {
    contract!(async |site: &Site| {
        site.post(FIRST, scaler(json!({ "targetCPUUtilizationPercentage": 50 })))
            .await;
        site.get(&format!("{SECOND}/a")).await;
        site.merge(
            &format!("{FIRST}/a"),
            json!({ "spec": { "targetCPUUtilizationPercentage": 60 } }),
        )
        .await;
        table(site, &format!("{FIRST}/a")).await;
        let status =
            json!({ "status": { "currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 70 } });
        let headers = [("content-type", "application/merge-patch+json")];
        let patched = site
            .quietly("PATCH", &format!("{FIRST}/a/status"), &headers, status)
            .await;
        site.note(&format!("{} {:#}", patched.code, patched.body["status"]));
        parsed_annotations(site, &patched.body);
        site.get(&format!("{SECOND}/a/status")).await;
        site.step("DELETE", &format!("{FIRST}/a"), Value::Null).await;
    });
}

#[test]
fn an_autoscaler_of_the_first_version_has_a_default_target() {
    contract!(async |site: &Site| {
        site.post(FIRST, scaler(json!({}))).await;
        site.get(&format!("{SECOND}/a")).await;
        site.post(FIRST, scaler(json!({ "maxReplicas": 0 }))).await;
    });
}

#[test]
fn an_autoscaler_of_the_second_version_in_the_first() {
    contract!(async |site: &Site| {
        let metrics = json!([
            { "type": "Resource", "resource": { "name": "memory", "target": { "type": "AverageValue", "averageValue": "1Gi" } } },
            { "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } } },
            { "type": "Pods", "pods": { "metric": { "name": "m" }, "target": { "type": "AverageValue", "averageValue": "5" } } },
        ]);
        let spec = scaler(json!({ "metrics": metrics }));
        site.quietly("POST", SECOND, &[], spec).await;
        let first = site.quietly("GET", &format!("{FIRST}/a"), &[], Value::Null).await;
        site.note(&format!("{:#}", first.body["spec"]));
        parsed_annotations(site, &first.body);
        let headers = [("content-type", "application/merge-patch+json")];
        let change = json!({ "spec": { "maxReplicas": 9 } });
        let changed = site.quietly("PATCH", &format!("{FIRST}/a"), &headers, change).await;
        site.note(&format!("{}", changed.code));
        let second = site.quietly("GET", &format!("{SECOND}/a"), &[], Value::Null).await;
        site.note(&format!("{:#}", second.body["spec"]));
    });
}

#[test]
fn versions_of_a_group() {
    contract!(async |site: &Site| {
        site.get("/apis/autoscaling").await;
        site.get("/apis/events.k8s.io").await;
        for path in ["/apis/autoscaling/v1", "/apis/autoscaling/v2", "/apis/events.k8s.io/v1"] {
            site.get(path).await;
        }
    });
}
