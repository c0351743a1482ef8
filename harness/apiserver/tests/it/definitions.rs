//! CustomResourceDefinitions from creation to removal.

use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::cluster::Cluster;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAME: &str = "widgets.example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": { "type": "integer", "minimum": 1, "default": 3 },
                    "colour": { "type": "string" },
                },
            },
            "status": { "type": "object", "properties": { "ready": { "type": "boolean" } } },
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": NAME },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

async fn cluster() -> Cluster {
    let cluster = Cluster::new();
    let created = cluster.post(DEFINITIONS, definition()).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let conditions = created.body["status"]["conditions"].as_array().unwrap();
    let established = conditions
        .iter()
        .find(|condition| condition["type"] == "Established")
        .unwrap();
    assert_eq!(established["status"], "True");
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_immediately() {
    let cluster = cluster().await;
    let created = cluster
        .post(
            WIDGETS,
            json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": { "shade": "x" } }),
        )
        .await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(created.body["spec"], json!({ "size": 3 }));
    assert_eq!(created.body["apiVersion"], "example.com/v1");
    assert_eq!(created.headers["warning"], r#"299 - "unknown field \"spec.shade\"""#);

    let refused = cluster
        .post(WIDGETS, json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "b" }, "spec": { "size": 0 } }))
        .await;
    assert_eq!(refused.code, 422);
    let message = refused.body["message"].as_str().unwrap();
    assert!(
        message.starts_with("Widget.example.com \"b\" is invalid: spec.size: Invalid value: 0"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn endpoints_determine_status_and_generation_of_custom_objects() {
    let cluster = cluster().await;
    let path = format!("{WIDGETS}/a");
    cluster
        .post(
            WIDGETS,
            json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } }),
        )
        .await;
    let status = cluster
        .merge(&format!("{path}/status"), json!({ "status": { "ready": true } }))
        .await
        .body;
    assert_eq!(
        (&status["status"]["ready"], &status["metadata"]["generation"]),
        (&json!(true), &json!(1))
    );
    let labelled = cluster
        .merge(&path, json!({ "metadata": { "labels": { "a": "b" } } }))
        .await
        .body;
    assert_eq!(labelled["metadata"]["generation"], 1);
    let changed = cluster
        .merge(&path, json!({ "spec": { "size": 5 }, "status": { "ready": false } }))
        .await
        .body;
    assert_eq!(
        (&changed["status"]["ready"], &changed["metadata"]["generation"]),
        (&json!(true), &json!(2))
    );
    let patch = json!({ "spec": {} });
    let refused = cluster
        .request_as("PATCH", &path, "application/strategic-merge-patch+json", &patch)
        .await;
    assert_eq!(refused.code, 415);
}

#[tokio::test(start_paused = true)]
async fn the_removal_of_a_definition_removes_objects_and_ends_watches() {
    let cluster = cluster().await;
    cluster
        .post(
            WIDGETS,
            json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } }),
        )
        .await;
    let mut watch = cluster.watch(&format!("{WIDGETS}?watch=true")).await;
    let deleted = cluster.delete(&format!("{DEFINITIONS}/{NAME}"), Value::Null).await;
    assert_eq!(deleted.code, 200, "{}", deleted.body);
    assert_eq!(cluster.get(&format!("{DEFINITIONS}/{NAME}")).await.code, 404);
    assert_eq!(cluster.get(WIDGETS).await.code, 404);
    let mut kinds = Vec::new();
    while let Some((kind, ..)) = watch.brief().await {
        kinds.push(kind);
    }
    assert_eq!(kinds, ["ADDED", "DELETED"]);
    assert_eq!(cluster.post(DEFINITIONS, definition()).await.code, 201);
    assert_eq!(cluster.get(WIDGETS).await.body["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_definition_waits_for_objects_with_finalizers() {
    let cluster = cluster().await;
    let held = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a", "finalizers": ["example.com/hold"] } });
    cluster.post(WIDGETS, held).await;
    let path = format!("{DEFINITIONS}/{NAME}");
    let deleted = cluster.delete(&path, Value::Null).await.body;
    assert_eq!(
        deleted["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    let refused = cluster
        .post(
            WIDGETS,
            json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "b" } }),
        )
        .await;
    assert_eq!(refused.code, 405);
    cluster
        .merge(&format!("{WIDGETS}/a"), json!({ "metadata": { "finalizers": null } }))
        .await;
    assert_eq!(cluster.get(&path).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_object_at_the_limit_of_depth_can_be_read_everywhere() {
    let cluster = Cluster::new();
    let mut definition = definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    assert_eq!(cluster.post(DEFINITIONS, definition).await.code, 201);
    // The object itself and its spec are two levels.
    let nested = |levels: usize| (2..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
    let widget = |name: &str, levels: usize| {
        let metadata = json!({ "name": name });
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": nested(levels) })
    };
    assert_eq!(cluster.post(WIDGETS, widget("deep", 121)).await.code, 400);
    assert_eq!(cluster.post(WIDGETS, widget("deep", 120)).await.code, 201);
    let path = format!("{WIDGETS}/deep");
    let deeper = json!([
        { "op": "move", "from": "/spec", "path": "/other" },
        { "op": "add", "path": "/spec", "value": {} },
        { "op": "move", "from": "/other", "path": "/spec/a" },
    ]);
    let media_type = "application/json-patch+json";
    assert_eq!(cluster.request_as("PATCH", &path, media_type, &deeper).await.code, 422);
    assert_eq!(cluster.get(&path).await.body["spec"], nested(120));
    assert_eq!(cluster.get(WIDGETS).await.body["items"][0]["spec"], nested(120));
    let request = Request::get(format!("{WIDGETS}?includeObject=Object"))
        .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
        .body(Full::default())
        .unwrap();
    let table = cluster.send(request).await.into_body().collect().await.unwrap();
    let table: Value = serde_json::from_slice(&table.to_bytes()).unwrap();
    assert_eq!(table["rows"][0]["object"]["spec"], nested(120));
    assert_eq!(cluster.delete(&path, Value::Null).await.code, 200);
}

/// A kube-apiserver does the same, up to a minute after it serves the definition.
#[tokio::test(start_paused = true)]
async fn a_mutating_policy_sees_and_changes_the_version_of_its_rule() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";
    let cluster = Cluster::new();
    let version = |name: &str| {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        json!({ "name": name, "served": true, "storage": name == "v1", "schema": { "openAPIV3Schema": schema } })
    };
    let mut definition = definition();
    definition["spec"]["versions"] = json!([version("v1"), version("v2")]);
    let rule = json!({
        "operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"],
    });
    let seen = "[JSONPatch{op: 'add', path: '/seen', value: object.apiVersion}]";
    let policy = json!({
        "metadata": { "name": "seen" },
        "spec": {
            "matchConstraints": { "resourceRules": [rule] }, "reinvocationPolicy": "Never",
            "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": seen } }],
        },
    });
    let binding = json!({ "metadata": { "name": "seen" }, "spec": { "policyName": "seen" } });
    for (path, object) in [
        (DEFINITIONS.to_owned(), definition),
        (format!("{POLICIES}/mutatingadmissionpolicies"), policy),
        (format!("{POLICIES}/mutatingadmissionpolicybindings"), binding),
    ] {
        let created = cluster.post(&path, object).await;
        assert_eq!(created.code, 201, "{}", created.body);
    }
    for version in ["v1", "v2"] {
        let own = format!("example.com/{version}");
        let widget = json!({ "apiVersion": own, "kind": "Widget", "metadata": { "name": version } });
        let path = format!("/apis/example.com/{version}/namespaces/default/widgets");
        let created = cluster.post(&path, widget).await;
        assert_eq!(
            (&created.body["apiVersion"], &created.body["seen"]),
            (&json!(own), &json!("example.com/v2")),
            "{}",
            created.body
        );
    }
}
