//! What manifests of public projects contain, and servers answer differently if they follow only the documented rules.

use serde_json::{Value, json};

use super::contract;
use super::definitions::version;
use super::site::WIDGETS;
use super::tables::table;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn schema(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

fn widget(name: &str, fields: Value) -> Value {
    let mut widget = json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": name } });
    for (field, value) in fields.as_object().unwrap() {
        widget[field] = value.clone();
    }
    widget
}

fn with_finalizers(finalizers: &[&str]) -> Value {
    json!({ "metadata": { "name": "a", "finalizers": finalizers } })
}

#[test]
fn a_custom_resource_has_finalizers_without_a_path() {
    contract!(async |site: &super::Site| {
        site.define(version(schema(json!({})))).await;
        let finalizers = [
            "finalizers.fluxcd.io",
            "b.example.com/held",
            "foregroundDeletion",
            "chains.tekton.dev",
        ];
        site.post(WIDGETS, widget("a", with_finalizers(&finalizers))).await;
        let path = format!("{WIDGETS}/a");
        site.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
        let more = ["finalizers.fluxcd.io", "cluster.cluster.x-k8s.io"];
        site.merge(&path, json!({ "metadata": { "finalizers": more } })).await;
        site.merge(&path, json!({ "metadata": { "finalizers": ["not a name"] } }))
            .await;
        site.merge(&path, json!({ "metadata": { "finalizers": null } })).await;
    });
}

#[test]
fn built_in_kinds_differ_in_the_finalizers_that_they_accept() {
    contract!(async |site: &super::Site| {
        for path in [
            "/api/v1/namespaces/{ns}/configmaps",
            "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
            "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies",
        ] {
            let dry = format!("{path}?dryRun=All");
            site.brief("", "POST", &dry, &[], with_finalizers(&["held"])).await;
        }
    });
}

#[test]
fn whole_numbers_are_stored_without_a_fraction() {
    contract!(async |site: &super::Site| {
        let numbers = json!({ "count": { "type": "integer" }, "share": { "type": "number" },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        site.define(version(schema(numbers))).await;
        let values = json!({ "count": 1.0, "share": 2.0, "free": { "a": 1e3, "b": [1.5, 0.0], "c": 7 } });
        site.post(WIDGETS, widget("a", values)).await;
        site.merge(&format!("{WIDGETS}/a"), json!({ "count": 3.0 })).await;
        site.merge(&format!("{WIDGETS}/a"), json!({ "count": 3.5 })).await;
    });
}

#[test]
fn a_number_or_text_can_have_a_type() {
    contract!(async |site: &super::Site| {
        let field = json!({ "type": "string", "x-kubernetes-int-or-string": true });
        site.define(version(schema(json!({ "a": field })))).await;
        for value in [json!("x"), json!(5), json!(true)] {
            site.post(&format!("{WIDGETS}?dryRun=All"), widget("a", json!({ "a": value })))
                .await;
        }
    });
}

#[test]
fn a_column_shows_a_part_of_a_list() {
    contract!(async |site: &super::Site| {
        let mut with_columns = version(schema(json!({
            "parts": { "type": "array", "items": { "type": "object", "properties": { "type": { "type": "string" } } } },
        })));
        let column = |name: &str, path: &str| json!({ "name": name, "type": "string", "jsonPath": path });
        with_columns["additionalPrinterColumns"] = json!([
            column("Last", ".parts[-1:].type"),
            column("First", ".parts[:1].type"),
            column("Second", ".parts[1:2].type"),
            column("Beyond", ".parts[1:9].type"),
            column("Steps", ".parts[::2].type"),
        ]);
        site.define(with_columns).await;
        let items = ["A", "B", "C"].map(|name| json!({ "type": name }));
        site.post(WIDGETS, widget("a", json!({ "parts": items }))).await;
        table(site, &format!("{WIDGETS}/a")).await;
        site.post(WIDGETS, widget("b", json!({ "parts": [] }))).await;
        table(site, &format!("{WIDGETS}/b")).await;
    });
}

#[test]
fn a_time_with_microseconds_has_six_digits() {
    contract!(async |site: &super::Site| {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases?dryRun=All";
        for time in [
            "2026-08-11T19:37:19.103000Z",
            "2026-08-11T19:37:19.103000+02:00",
            "2026-08-11T19:37:19.103Z",
            "2026-08-11T19:37:19Z",
            "2026-08-11T19:37:19.103000000Z",
        ] {
            let lease = json!({ "metadata": { "name": "a" }, "spec": { "renewTime": time } });
            site.brief("", "POST", leases, &[], lease).await;
        }
    });
}

#[test]
fn the_pods_of_a_job_with_a_generated_name_have_it_as_a_label() {
    contract!(async |site: &super::Site| {
        let template = json!({ "spec": { "containers": [{ "name": "c", "image": "i" }], "restartPolicy": "Never" } });
        let job = json!({ "metadata": { "generateName": "migrate-" }, "spec": { "template": template } });
        let created = site
            .quietly("POST", "/apis/batch/v1/namespaces/{ns}/jobs", &[], job)
            .await
            .body;
        for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
            for label in ["job-name", "batch.kubernetes.io/job-name"] {
                let found = &created.pointer(labels).unwrap()[label];
                site.note(&format!("{labels} {label}: {}", *found == created["metadata"]["name"]));
            }
        }
    });
}

/// Waits until the condition has this status, and records both conditions.
async fn names_accepted(site: &super::Site, path: &str, status: &str) {
    for _ in 0..1200 {
        let definition = site.quietly("GET", path, &[], Value::Null).await.body;
        let conditions = definition["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let find = |type_: &str| conditions.iter().find(|condition| condition["type"] == type_).cloned();
        let (names, established) = (find("NamesAccepted"), find("Established"));
        // On a real server Established is False first, with the reason Installing.
        let settled = established
            .as_ref()
            .is_some_and(|condition| condition["status"] == status);
        if names.as_ref().is_some_and(|condition| condition["status"] == status) && settled {
            for condition in [names, established].into_iter().flatten() {
                let part = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
                let parts = ["type", "status", "reason", "message"].map(part);
                site.note(&parts.join(": "));
            }
            site.note(&definition["status"]["acceptedNames"].to_string());
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{path} does not become {status}");
}

#[test]
fn a_definition_waits_until_its_names_are_free() {
    contract!(async |site: &super::Site| {
        site.define(version(schema(json!({})))).await;
        let names = json!({ "plural": "others", "singular": "widget", "kind": "Widget", "shortNames": ["widgets", "o"],
            "categories": ["all"] });
        let other = json!({
            "metadata": { "name": "others.{group}" },
            "spec": { "group": "{group}", "scope": "Namespaced", "names": names, "versions": [version(schema(json!({})))] },
        });
        assert_eq!(site.quietly("POST", DEFINITIONS, &[], other).await.code, 201);
        let path = format!("{DEFINITIONS}/others.{{group}}");
        names_accepted(site, &path, "False").await;
        let others = "/apis/{group}/v1/namespaces/{ns}/others";
        let answer = site.quietly("GET", others, &[], Value::Null).await;
        site.note(&answer.code.to_string());
        let first = format!("{DEFINITIONS}/widgets.{{group}}");
        site.quietly("DELETE", &first, &[], Value::Null).await;
        site.wait_until_gone(&first).await;
        names_accepted(site, &path, "True").await;
    });
}
