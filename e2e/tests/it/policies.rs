//! The admission policies of `deploy/rbac` for accounts with fixed tasks: operators of preservations, and mcm in kube-system. On the
//! embedded server, and on a real one if its programs are available.

use std::collections::BTreeSet;
use std::time::Duration;

use clock::Clock;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use mcm_api::keys;
use scenario::kinds;
use serde_json::{Value, json};
use stage::clusters::Clusters;
use stage::kind_api::KindApi;
use stage::role::Role;
use stage::{NAMESPACE, deploy};

use crate::existing::Cluster;

/// How long the API server may take to apply a new rule.
pub(crate) const HEEDED: Duration = Duration::from_secs(30);
/// The polling interval.
pub(crate) const PROBE: Duration = Duration::from_millis(200);

/// A file with policies.
type File = (&'static str, &'static str);

/// The policies for preservations.
pub(crate) const PRESERVATION: File = (
    "deploy/rbac/preservation-admission.yaml",
    include_str!("../../../deploy/rbac/preservation-admission.yaml"),
);
const BOOTSTRAP_TOKENS: File = (
    "deploy/rbac/bootstrap-token-admission.yaml",
    include_str!("../../../deploy/rbac/bootstrap-token-admission.yaml"),
);

const MACHINE: &str = "m-1";
const TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";

/// An administrator of an embedded server with roles.
pub(crate) fn embedded() -> kube::Client {
    let options = apiserver::Options {
        authorization: apiserver::Authorization::Rbac,
        ..apiserver::Options::new(Clock::wall(), clock::Seed::new(1))
    };
    let server = apiserver::Server::new(options).unwrap();
    kube::Client::new(server.service(apiserver::Identity::admin()), "default")
}

/// Creates the policies of a file.
pub(crate) async fn install_policies(client: &kube::Client, (file, content): File) {
    for object in deploy::read(file, content).unwrap() {
        let kind = kinds::find(object["kind"].as_str().unwrap()).unwrap();
        let object = serde_json::from_value(object).unwrap();
        let api = kind.api(client, NAMESPACE);
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

/// A client that impersonates a user.
pub(crate) fn acting_as(client: &kube::Client, user: &str) -> kube::Client {
    let clusters = Clusters::one(client.clone()).as_user(user).unwrap();
    clusters.target().clone()
}

/// A client that impersonates a service account of the machines' namespace.
pub(crate) fn account(client: &kube::Client, name: &str) -> kube::Client {
    acting_as(client, &format!("system:serviceaccount:{NAMESPACE}:{name}"))
}

/// The message of a refusal by authorization or admission.
fn refusal<T>(response: kube::Result<T>) -> Result<(), String> {
    match response {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 403 => Err(status.message),
        Err(error) => panic!("{error}"),
    }
}

/// Waits until a request is refused.
async fn until_refused<F: Future<Output = Result<(), String>>>(request: impl Fn() -> F) {
    let clock = Clock::wall();
    let asking = async {
        while request().await.is_ok() {
            clock.sleep(PROBE).await;
        }
    };
    tokio::time::timeout(HEEDED, asking).await.unwrap();
}

/// Changes of a Machine or of its status.
struct Change {
    name: &'static str,
    of_status: bool,
    patch: Value,
}

fn of_machine(name: &'static str, patch: Value) -> Change {
    Change {
        name,
        of_status: false,
        patch,
    }
}

fn annotations(annotations: &Value) -> Value {
    json!({ "metadata": { "annotations": annotations } })
}

fn of_status(name: &'static str, status: &Value) -> Change {
    Change {
        name,
        of_status: true,
        patch: json!({ "status": status }),
    }
}

/// What an operator may not change, and the part that the refusal names.
fn not_of_operators() -> Vec<(Change, String)> {
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": "m-2", "uid": "1" });
    let time = "2026-01-01T00:00:00Z";
    let trigger = json!({ keys::TRIGGER_DELETION_ANNOTATION: "true" });
    let trigger = of_machine("the deletion annotation", annotations(&trigger));
    [
        (
            of_machine("another VM", json!({ "spec": { "providerID": "x" } })),
            "spec",
        ),
        (
            of_machine("a label", json!({ "metadata": { "labels": { "a": "b" } } })),
            "labels",
        ),
        (
            of_machine("no finalizers", json!({ "metadata": { "finalizers": null } })),
            "finalizers",
        ),
        (
            of_machine("an owner", json!({ "metadata": { "ownerReferences": [owner] } })),
            "ownerReferences",
        ),
        (
            of_status(
                "conditions",
                &json!({ "conditions": [{ "type": "a", "status": "True" }] }),
            ),
            "status.conditions",
        ),
        (
            of_status("addresses", &json!({ "addresses": [{ "type": "a", "address": "b" }] })),
            "status.addresses",
        ),
        (
            of_status("the state", &json!({ "lastKnownState": "x" })),
            "status.lastKnownState",
        ),
        (
            of_status("the operation", &json!({ "lastOperation": { "description": "x" } })),
            "status.lastOperation",
        ),
        (
            of_status(
                "the preservation",
                &json!({ "preservation": { "stage": "Releasing", "by": "auto", "since": time } }),
            ),
            "status.preservation",
        ),
        (
            of_status("the phase", &json!({ "currentStatus": { "phase": "Failed" } })),
            "status.currentStatus.phase",
        ),
        (
            of_status("the timeout", &json!({ "currentStatus": { "timeoutActive": true } })),
            "status.currentStatus.timeoutActive",
        ),
        (
            of_status("the time", &json!({ "currentStatus": { "lastUpdateTime": time } })),
            "status.currentStatus.lastUpdateTime",
        ),
    ]
    .map(|(change, part)| (change, part.to_owned()))
    .into_iter()
    .chain([(trigger, format!("annotation {}", keys::TRIGGER_DELETION_ANNOTATION))])
    .collect()
}

fn of_operators() -> [Change; 5] {
    let expiry = |time: Value| json!({ "currentStatus": { "preserveExpiryTime": time } });
    [
        of_machine("a request", annotations(&json!({ keys::PRESERVE_ANNOTATION: "now" }))),
        of_machine("its end", annotations(&json!({ keys::PRESERVE_ANNOTATION: null }))),
        of_machine(
            "the former name",
            annotations(&json!({ keys::PRESERVE_WHEN_FAILED_ANNOTATION: "true" })),
        ),
        of_status("an expiry", &expiry(json!("2199-01-01T00:00:00Z"))),
        of_status("no expiry", &expiry(Value::Null)),
    ]
}

/// The response to a dry-run patch of the Machine.
async fn answer(client: &kube::Client, change: &Change) -> Result<(), String> {
    let machines = kinds::find("Machine").unwrap().api(client, NAMESPACE);
    let (dry, patch) = (PatchParams::default().dry_run(), Patch::Merge(&change.patch));
    refusal(match change.of_status {
        false => machines.patch(MACHINE, &dry, &patch).await,
        true => machines.patch_status(MACHINE, &dry, &patch).await,
    })
}

async fn create_machine(client: &kube::Client) {
    let machine = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": MACHINE, "namespace": NAMESPACE, "finalizers": ["example.com/held"] },
        "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
    });
    let machine: DynamicObject = serde_json::from_value(machine).unwrap();
    let machines = kinds::find("Machine").unwrap().api(client, NAMESPACE);
    machines.create(&PostParams::default(), &machine).await.unwrap();
    let status = json!({ "status": { "currentStatus": { "phase": "Running" } } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(status));
    machines.patch_status(MACHINE, &parameters, &patch).await.unwrap();
}

async fn bind_operator(client: &kube::Client) {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"),
        "kind": "RoleBinding",
        "metadata": { "name": "operator", "namespace": NAMESPACE },
        "roleRef": { "apiGroup": group, "kind": "Role", "name": "preservation-operator" },
        "subjects": [{ "kind": "ServiceAccount", "name": "operator", "namespace": NAMESPACE }],
    });
    deploy::apply(client, &[binding]).await.unwrap();
}

#[tokio::test]
#[ignore = "long: a real control plane"]
async fn operators_change_only_preservations_of_a_machine_on_a_real_control_plane() {
    let Some(cluster) = Cluster::start().await else { return };
    operators_change_only_preservations(&cluster.client).await;
}

#[tokio::test]
async fn operators_change_only_preservations_of_a_machine() {
    operators_change_only_preservations(&embedded()).await;
}

async fn operators_change_only_preservations(administrator: &kube::Client) {
    Role::Both.install(administrator, NAMESPACE).await.unwrap();
    bind_operator(administrator).await;
    create_machine(administrator).await;
    let operator = account(administrator, "operator");
    let mcm = account(administrator, deploy::MCM_ACCOUNT);

    // Without the policy the role permits all changes, so that later refusals come from the policy.
    let refused = not_of_operators();
    for (change, _) in &refused {
        assert_eq!(answer(&operator, change).await, Ok(()), "{}", change.name);
    }
    install_policies(administrator, PRESERVATION).await;
    until_refused(|| answer(&operator, &refused[0].0)).await;
    for (change, part) in &refused {
        let message = answer(&operator, change).await.expect_err(change.name);
        let part = format!("leave {part} out of the patch");
        assert!(message.contains(&part), "{}: {message}", change.name);
        for client in [administrator, &mcm] {
            assert_eq!(answer(client, change).await, Ok(()), "{}", change.name);
        }
    }
    for change in of_operators() {
        for client in [&operator, administrator, &mcm] {
            assert_eq!(answer(client, &change).await, Ok(()), "{}", change.name);
        }
    }
}

#[test]
fn the_policy_for_operators_covers_every_field_of_a_machine_status() {
    let definition = mcm_api::crd::all()
        .into_iter()
        .find(|definition| definition.spec.names.kind == "Machine");
    let definition = serde_json::to_value(definition.unwrap()).unwrap();
    let status = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
    let names = |fields: &Value| -> BTreeSet<String> { fields.as_object().unwrap().keys().cloned().collect() };
    let current = names(&status["currentStatus"]["properties"]);
    let current = current.into_iter().map(|name| format!("status.currentStatus.{name}"));
    let others = names(status).into_iter().map(|name| format!("status.{name}"));
    let expected = others.chain(current);
    let exempt = ["status.currentStatus", "status.currentStatus.preserveExpiryTime"];
    let expected: BTreeSet<String> = expected.filter(|name| !exempt.contains(&name.as_str())).collect();

    let policies = deploy::read(PRESERVATION.0, PRESERVATION.1).unwrap();
    let policy = policies
        .iter()
        .find(|object| object["metadata"]["name"] == "preservation-operator.drydock.dev");
    let variables = policy.unwrap()["spec"]["variables"].as_array().unwrap();
    let variable = variables.iter().find(|variable| variable["name"] == "status").unwrap();
    let covered = variable["expression"]
        .as_str()
        .unwrap()
        .split('\'')
        .filter(|part| part.starts_with("status."));
    assert_eq!(covered.map(str::to_owned).collect::<BTreeSet<_>>(), expected);
}

/// A Secret of kube-system.
fn secret(name: &str, secret_type: &str) -> Secret {
    let secret = json!({
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            // What the API server requires of the token of a service account.
            "annotations": { "kubernetes.io/service-account.name": "default" },
        },
        "type": secret_type,
    });
    serde_json::from_value(secret).unwrap()
}

#[tokio::test]
#[ignore = "long: a real control plane"]
async fn mcm_creates_and_deletes_only_bootstrap_tokens_on_a_real_control_plane() {
    let Some(cluster) = Cluster::start().await else { return };
    mcm_writes_only_bootstrap_tokens(&cluster.client).await;
}

#[tokio::test]
async fn mcm_creates_and_deletes_only_bootstrap_tokens() {
    mcm_writes_only_bootstrap_tokens(&embedded()).await;
}

async fn mcm_writes_only_bootstrap_tokens(administrator: &kube::Client) {
    Role::Both.install(administrator, NAMESPACE).await.unwrap();
    let secrets = |client: &kube::Client| Api::<Secret>::namespaced(client.clone(), "kube-system");
    let (own, of_administrator) = (
        secrets(&account(administrator, deploy::MCM_ACCOUNT)),
        secrets(administrator),
    );
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let not_own = [
        secret("account", "kubernetes.io/service-account-token"),
        secret("bootstrap-token-abc123", "kubernetes.io/service-account-token"),
        secret("any", "Opaque"),
        secret("any", TOKEN_TYPE),
    ];
    let token = secret("bootstrap-token-abc123", TOKEN_TYPE);
    of_administrator
        .create(&PostParams::default(), &secret("other", "Opaque"))
        .await
        .unwrap();
    of_administrator.create(&PostParams::default(), &token).await.unwrap();
    let new_token = secret("bootstrap-token-abc124", TOKEN_TYPE);
    let only_tried = DeleteParams::default().dry_run();

    for secret in &not_own[..1] {
        own.create(&dry, secret).await.unwrap();
    }
    own.delete("other", &only_tried).await.unwrap();
    install_policies(administrator, BOOTSTRAP_TOKENS).await;
    until_refused(|| async { refusal(own.create(&dry, &not_own[0]).await) }).await;
    for secret in &not_own {
        let message = refusal(own.create(&dry, secret).await).unwrap_err();
        assert!(message.contains("only Secrets bootstrap-token-ID"), "{message}");
    }
    let message = refusal(own.delete("other", &only_tried).await).unwrap_err();
    assert!(message.contains("only Secrets bootstrap-token-ID"), "{message}");
    own.create(&dry, &new_token).await.unwrap();
    own.delete("bootstrap-token-abc123", &only_tried).await.unwrap();
    of_administrator.create(&dry, &not_own[0]).await.unwrap();
    of_administrator.delete("other", &only_tried).await.unwrap();
}
