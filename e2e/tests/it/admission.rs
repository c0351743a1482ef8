//! What the CRDs of the machine API reject at admission, with messages that name the fix; on our API server,
//! and on the real one if its programs are available.

use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use scenario::{Timeouts, fixtures};
use serde_json::{Value, json};
use stage::NAMESPACE;
use stage::plane::embedded::{ControlPlane, Options};
use stage::role::Role;

use crate::existing::Cluster;

/// An invalid object, and the expected message.
struct Refused {
    name: &'static str,
    object: Value,
    says: &'static str,
}

fn deployment(spec: &Value) -> Value {
    merged("MachineDeployment", spec)
}

fn set(spec: &Value) -> Value {
    merged("MachineSet", spec)
}

/// A valid object with changes to its spec; null removes a field.
fn merged(kind: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": kind,
        "metadata": { "name": "a" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "name": "a" } },
            "template": {
                "metadata": { "labels": { "name": "a" } },
                "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            },
        },
    });
    merge(&mut object["spec"], spec);
    object
}

fn merge(into: &mut Value, change: &Value) {
    let Value::Object(fields) = change else {
        *into = change.clone();
        return;
    };
    for (field, value) in fields {
        match value {
            Value::Null => {
                into.as_object_mut().unwrap().remove(field);
            }
            value => merge(&mut into[field], value),
        }
    }
}

fn machine(spec: &Value) -> Value {
    let mut machine = fixtures::machine("a", "");
    merge(&mut machine["spec"], spec);
    machine
}

fn strategy(strategy: Value) -> Value {
    deployment(&json!({ "strategy": strategy }))
}

fn refused() -> Vec<Refused> {
    let case = |name, object, says| Refused { name, object, says };
    let class =
        "class must name what the VM is made from: set class.kind to MachineClass and class.name to the name of one";
    vec![
        case("a machine without a class", machine(&json!({ "class": null })), class),
        case(
            "a machine without the class's kind",
            machine(&json!({ "class": { "kind": "" } })),
            class,
        ),
        case(
            "a machine without the class's name",
            machine(&json!({ "class": { "name": null } })),
            class,
        ),
        case(
            "a timeout that is not a duration",
            machine(&json!({ "drainTimeout": "2 hours" })),
            "spec.drainTimeout",
        ),
        case(
            "a negative timeout",
            machine(&json!({ "healthTimeout": "-5m" })),
            "spec.healthTimeout",
        ),
        case(
            "negative evictions",
            machine(&json!({ "maxEvictRetries": -1 })),
            "spec.maxEvictRetries",
        ),
        case(
            "a set whose template has no class",
            set(&json!({ "template": { "spec": { "class": null } } })),
            class,
        ),
        case(
            "a set without a template",
            set(&json!({ "template": null })),
            "spec.template: Required value",
        ),
        case(
            "a set with negative replicas",
            set(&json!({ "replicas": -1 })),
            "spec.replicas",
        ),
        case(
            "a set with a negative maximum of preserved machines",
            set(&json!({ "autoPreserveFailedMax": -1 })),
            "spec.autoPreserveFailedMax",
        ),
        case(
            "a set without a selector",
            set(&json!({ "selector": null })),
            "selector is missing: name the labels of template.metadata.labels",
        ),
        case(
            "a deployment whose template has no class",
            deployment(&json!({ "template": { "spec": { "class": { "name": "" } } } })),
            class,
        ),
        case(
            "a deployment without a template",
            deployment(&json!({ "template": null })),
            "spec.template: Required value",
        ),
        case(
            "a template without a spec",
            deployment(&json!({ "template": { "spec": null } })),
            "spec.template.spec: Required value",
        ),
        case(
            "a deployment with negative replicas",
            deployment(&json!({ "replicas": -1 })),
            "spec.replicas",
        ),
        case(
            "a deployment without a selector",
            deployment(&json!({ "selector": null })),
            "selector is missing: name the labels of template.metadata.labels",
        ),
        case(
            "a selector without labels",
            deployment(&json!({ "selector": { "matchLabels": { "name": null } } })),
            "a selector without labels would take every machine of the namespace: name at least one label",
        ),
        case(
            "a selector that the template's labels do not match",
            deployment(&json!({ "template": { "metadata": { "labels": { "name": "b" } } } })),
            "selector does not match template.metadata.labels: give the template the labels that are selected",
        ),
        case(
            "a set whose template has no labels",
            set(&json!({ "template": { "metadata": null } })),
            "selector does not match template.metadata.labels",
        ),
        case(
            "two different maxima",
            deployment(&json!({ "autoPreserveFailedMax": 1, "autoPreserveFailedMachineMax": 2 })),
            "two names of one number: remove one of them",
        ),
        case(
            "a deployment with a negative maximum of preserved machines",
            deployment(&json!({ "autoPreserveFailedMachineMax": -1 })),
            "spec.autoPreserveFailedMachineMax",
        ),
        case(
            "a negative deadline",
            deployment(&json!({ "progressDeadlineSeconds": -1 })),
            "spec.progressDeadlineSeconds",
        ),
        case(
            "a negative history",
            deployment(&json!({ "revisionHistoryLimit": -1 })),
            "spec.revisionHistoryLimit",
        ),
        case(
            "negative minReadySeconds",
            deployment(&json!({ "minReadySeconds": -1 })),
            "spec.minReadySeconds",
        ),
        case(
            "an unknown strategy",
            strategy(json!({ "type": "BlueGreen" })),
            "strategy type must be one of [InPlaceUpdate Recreate RollingUpdate]",
        ),
        case(
            "a bound that is not a number",
            strategy(json!({ "rollingUpdate": { "maxSurge": "many" } })),
            "spec.strategy.rollingUpdate.maxSurge",
        ),
        case(
            "a negative bound",
            strategy(json!({ "rollingUpdate": { "maxUnavailable": -1 } })),
            "spec.strategy.rollingUpdate.maxUnavailable",
        ),
        case(
            "in-place updates without a type",
            strategy(json!({ "type": "InPlaceUpdate" })),
            "inPlaceUpdate is missing: give it an orchestrationType, Auto or Manual",
        ),
        case(
            "in-place updates with an unknown orchestration type",
            strategy(json!({ "type": "InPlaceUpdate", "inPlaceUpdate": { "orchestrationType": "Magic" } })),
            "orchestrationType must be either Auto or Manual",
        ),
    ]
}

/// Valid objects that are similar to invalid ones.
fn taken() -> Vec<Value> {
    vec![
        machine(&json!({ "drainTimeout": "1h30m", "maxEvictRetries": 0 })),
        set(&json!({ "replicas": 0 })),
        deployment(&json!({ "autoPreserveFailedMax": 2, "autoPreserveFailedMachineMax": 2 })),
        strategy(json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "10%", "maxUnavailable": 0 } })),
        strategy(json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": "0%" } })),
        strategy(
            json!({ "type": "InPlaceUpdate", "inPlaceUpdate": { "orchestrationType": "Auto", "maxSurge": "0%", "maxUnavailable": 0 } }),
        ),
        strategy(
            json!({ "type": "InPlaceUpdate", "inPlaceUpdate": { "orchestrationType": "Manual", "maxSurge": 0, "maxUnavailable": 0 } }),
        ),
    ]
}

/// The response to a dry-run creation.
async fn answer(client: &kube::Client, object: &Value) -> Result<(), String> {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let types = object.types.clone().unwrap();
    let resource = ApiResource::from_gvk(&(&types).try_into().unwrap());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api.create(&dry, &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 422 => Err(status.message),
        Err(error) => panic!("{error}"),
    }
}

async fn check(client: &kube::Client) {
    for Refused { name, object, says } in refused() {
        let refusal = answer(client, &object).await.expect_err(name);
        assert!(refusal.contains(says), "{name}: {refusal}");
    }
    for object in taken() {
        assert_eq!(answer(client, &object).await, Ok(()), "{object}");
    }
}

#[tokio::test]
async fn invalid_objects_are_rejected_with_a_message_that_names_the_fix() {
    let timeouts = Timeouts::short();
    let options = Options::new(1, &timeouts, NAMESPACE, Some(Role::Both));
    let plane = ControlPlane::start(options).await.unwrap();
    check(&plane.client()).await;
    plane.shutdown().await;
}

#[tokio::test]
#[ignore = "long: a real control plane"]
async fn the_real_api_server_rejects_the_same_objects() {
    if let Some(cluster) = Cluster::start().await {
        Role::Both.install(&cluster.client, NAMESPACE).await.unwrap();
        check(&cluster.client).await;
    }
}
