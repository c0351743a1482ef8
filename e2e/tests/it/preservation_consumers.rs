//! Consumers, which may only request preservations: what `deploy/rbac/preservation-admission.yaml` denies them
//! and no other accounts. On the embedded server, and on a real one if its programs are available.

use clock::Clock;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use mcm_api::keys;
use serde_json::{Value, json};
use stage::role::Role;
use stage::{NAMESPACE, deploy};

use crate::existing::Cluster;
use crate::policies::{HEEDED, PRESERVATION, PROBE, account, acting_as, embedded, install_policies};

const NODE: &str = "m-1";
/// A consumer that may also update Nodes.
const OPERATOR: &str = "operator";

/// A denied change of a Node, and the part that the refusal names.
struct Refused {
    name: &'static str,
    patch: Value,
    part: String,
}

fn node() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": NODE,
            "labels": { "zone": "a" },
            "annotations": {
                keys::PRESERVE_ANNOTATION: "when-failed",
                keys::SCALE_DOWN_DISABLED_ANNOTATION: "false",
            },
            "finalizers": ["example.com/held"],
        },
    })
}

fn annotations(annotations: &Value) -> Value {
    json!({ "metadata": { "annotations": annotations } })
}

fn cordon() -> Value {
    json!({ "spec": { "unschedulable": true } })
}

fn refused() -> Vec<Refused> {
    let case = |name, patch, part: &str| Refused {
        name,
        patch,
        part: format!("leave {part} out of the patch"),
    };
    let annotation = |key: &str| format!("annotation {key}");
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": "m-2", "uid": "1" });
    vec![
        case("a cordon", cordon(), "spec"),
        case(
            "a taint",
            json!({ "spec": { "taints": [{ "key": "a", "effect": "NoExecute" }] } }),
            "spec",
        ),
        case(
            "another label",
            json!({ "metadata": { "labels": { "a": "b" } } }),
            "labels",
        ),
        case("removed labels", json!({ "metadata": { "labels": null } }), "labels"),
        case(
            "removed finalizers",
            json!({ "metadata": { "finalizers": null } }),
            "finalizers",
        ),
        case(
            "an owner reference",
            json!({ "metadata": { "ownerReferences": [owner] } }),
            "ownerReferences",
        ),
        case(
            "the annotation that deletes the machine",
            annotations(&json!({ keys::TRIGGER_DELETION_ANNOTATION: "true" })),
            &annotation(keys::TRIGGER_DELETION_ANNOTATION),
        ),
        case(
            "another value of an annotation, beside a request",
            annotations(&json!({ keys::PRESERVE_ANNOTATION: "now", keys::SCALE_DOWN_DISABLED_ANNOTATION: "true" })),
            &annotation(keys::SCALE_DOWN_DISABLED_ANNOTATION),
        ),
        case(
            "a removed annotation",
            annotations(&json!({ keys::SCALE_DOWN_DISABLED_ANNOTATION: null })),
            &annotation(keys::SCALE_DOWN_DISABLED_ANNOTATION),
        ),
        case(
            "a cordon together with a label",
            json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "unschedulable": true } }),
            "spec, labels",
        ),
    ]
}

/// The permitted changes.
fn requests() -> [Value; 5] {
    [
        json!({ keys::PRESERVE_ANNOTATION: "now" }),
        json!({ keys::PRESERVE_ANNOTATION: "false" }),
        json!({ keys::PRESERVE_ANNOTATION: null }),
        json!({ keys::PRESERVE_WHEN_FAILED_ANNOTATION: "true" }),
        json!({ keys::PRESERVE_ANNOTATION: null, keys::PRESERVE_WHEN_FAILED_ANNOTATION: "false" }),
    ]
    .map(|request| annotations(&request))
}

/// The RBAC of consumers: one with only this permission, and one that may also update Nodes.
fn rights() -> Vec<Value> {
    let group = "rbac.authorization.k8s.io";
    let binding = |name: &str, role: &str, subject: &Value| {
        json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": { "name": name },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
            "subjects": [subject],
        })
    };
    vec![
        json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRole",
            "metadata": { "name": OPERATOR },
            "rules": [{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["patch", "update", "preserve-only"] }],
        }),
        binding(
            OPERATOR,
            OPERATOR,
            &json!({ "apiGroup": group, "kind": "User", "name": OPERATOR }),
        ),
        binding(
            "consumer",
            &format!("{NAMESPACE}:preservation-consumer"),
            &json!({ "kind": "ServiceAccount", "name": "consumer", "namespace": NAMESPACE }),
        ),
    ]
}

/// The response to a dry-run patch of the Node.
async fn answer(client: &kube::Client, patch: &Value) -> Result<(), String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let dry = PatchParams::default().dry_run();
    match nodes.patch(NODE, &dry, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 403 => Err(status.message),
        Err(error) => panic!("{error}"),
    }
}

/// Waits until the response to a cordon is as wanted.
async fn cordon_is(client: &kube::Client, wanted: fn(&Result<(), String>) -> bool) {
    let clock = Clock::wall();
    let asking = async {
        while !wanted(&answer(client, &cordon()).await) {
            clock.sleep(PROBE).await;
        }
    };
    tokio::time::timeout(HEEDED, asking).await.unwrap();
}

#[tokio::test]
#[ignore = "long: a real control plane"]
async fn consumers_change_only_preservation_requests_of_a_node_on_a_real_control_plane() {
    let Some(cluster) = Cluster::start().await else { return };
    consumers_change_only_requests(&cluster.client).await;
}

#[tokio::test]
async fn consumers_change_only_preservation_requests_of_a_node() {
    consumers_change_only_requests(&embedded()).await;
}

async fn consumers_change_only_requests(administrator: &kube::Client) {
    Role::Both.install(administrator, NAMESPACE).await.unwrap();
    deploy::apply(administrator, &rights()).await.unwrap();
    let nodes: Api<Node> = Api::all(administrator.clone());
    let node: Node = serde_json::from_value(node()).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let consumer = account(administrator, "consumer");
    let mcm = account(administrator, deploy::MCM_ACCOUNT);
    let operator = acting_as(administrator, OPERATOR);

    // Without the policy the role permits all changes, so that later refusals come from the policy.
    for client in [&consumer, &mcm, &operator] {
        cordon_is(client, Result::is_ok).await;
    }
    for Refused { name, patch, .. } in refused() {
        assert_eq!(answer(&consumer, &patch).await, Ok(()), "{name}");
    }

    install_policies(administrator, PRESERVATION).await;
    cordon_is(&consumer, Result::is_err).await;
    for Refused { name, patch, part } in refused() {
        let refusal = answer(&consumer, &patch).await.expect_err(name);
        for part in [
            part.as_str(),
            keys::PRESERVE_ANNOTATION,
            keys::PRESERVE_WHEN_FAILED_ANNOTATION,
        ] {
            assert!(refusal.contains(part), "{name}: {refusal}");
        }
        for client in [administrator, &mcm, &operator] {
            assert_eq!(answer(client, &patch).await, Ok(()), "{name}");
        }
    }
    for patch in requests() {
        for client in [&consumer, administrator, &mcm, &operator] {
            assert_eq!(answer(client, &patch).await, Ok(()), "{patch}");
        }
    }
}
