//! Objects of the machine API that fit the schema and not the types, and hostile status, which mcm reads.

use clock::Stream;
use serde_json::{Value, json};

use super::{Hostile, pick, set};

const API: &str = "machine.sapcloud.io/v1alpha1";
const GROUP: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default";

pub(super) fn prepare() -> Vec<Hostile> {
    let secret = json!({ "metadata": { "name": "small" }, "stringData": { "apiToken": "example", "userData": "x" } });
    vec![
        Hostile::post("/api/v1/namespaces/default/secrets", &secret),
        Hostile::post(
            &format!("{GROUP}/machineclasses"),
            &class(
                "small",
                &json!({ "machineType": "small", "image": "linux-1", "zone": "local-1" }),
            ),
        ),
    ]
}

fn class(name: &str, provider_spec: &Value) -> Value {
    json!({
        "apiVersion": API, "kind": "MachineClass", "metadata": { "name": name }, "provider": "fakecloud", "providerSpec": provider_spec,
        "secretRef": { "name": "small", "namespace": "default" },
    })
}

/// A value that a schema may accept and a type may not hold.
fn hostile(stream: &mut Stream) -> Value {
    let values = [
        json!(3_000_000_000_u64),
        json!(i64::MAX),
        json!(i32::MIN),
        json!(-1),
        json!(1.5),
        json!(true),
        json!("100000000000%"),
        json!("-5%"),
        json!("9223372036854775807"),
        json!("2562047h47m16.854775807s"),
        json!("-1s"),
        json!({ "a": true, "b": { "c": [1] } }),
        json!([{}]),
        json!("x".repeat(70)),
        json!("with space"),
        json!("9999-12-31T23:59:59Z"),
        json!(""),
        Value::Null,
    ];
    pick(&values, stream).clone()
}

pub(super) fn requests(stream: &mut Stream, round: u64) -> Vec<Hostile> {
    let long = stream
        .chance(0.1)
        .then(|| "n".repeat(usize::try_from(stream.below(200)).unwrap_or(0)));
    let name = format!("m{round}{}", long.unwrap_or_default());
    let template = json!({
        "metadata": { "labels": { "name": name } },
        "spec": { "class": { "kind": "MachineClass", "name": "small" }, "nodeTemplate": { "metadata": {}, "spec": {} } },
    });
    let selector = json!({ "matchLabels": { "name": name } });
    let (kind, mut object, fields): (_, _, &[&str]) = match stream.below(4) {
        0 => (
            "Machine",
            json!({ "spec": template["spec"] }),
            &[
                "/spec/nodeTemplate/metadata/labels/a",
                "/spec/nodeTemplate/metadata/annotations/a",
                "/spec/nodeTemplate/spec/taints",
                "/spec/providerID",
                "/spec/healthTimeout",
                "/spec/drainTimeout",
                "/spec/maxEvictRetries",
                "/metadata/annotations/machinepriority.machine.sapcloud.io",
                "/metadata/annotations/node.machine.sapcloud.io~1preserve",
                "/metadata/labels/node",
            ],
        ),
        1 => (
            "MachineSet",
            json!({ "spec": { "replicas": 0, "selector": selector, "template": template } }),
            &[
                "/spec/replicas",
                "/spec/minReadySeconds",
                "/spec/template/spec/nodeTemplate/metadata/annotations/a",
                "/spec/template/metadata/labels/name",
                "/spec/autoPreserveFailedMachineMax",
                "/metadata/annotations/deployment.kubernetes.io~1desired-replicas",
                "/metadata/annotations/deployment.kubernetes.io~1revision",
            ],
        ),
        2 => (
            "MachineDeployment",
            json!({ "spec": { "replicas": 0, "selector": selector, "template": template,
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 1 } } } }),
            &[
                "/spec/replicas",
                "/spec/strategy/rollingUpdate/maxSurge",
                "/spec/strategy/rollingUpdate/maxUnavailable",
                "/spec/minReadySeconds",
                "/spec/revisionHistoryLimit",
                "/spec/progressDeadlineSeconds",
                "/spec/rollbackTo/revision",
                "/spec/priority",
                "/metadata/annotations/deployment.kubernetes.io~1revision",
            ],
        ),
        _ => (
            "MachineClass",
            class("", &json!({})),
            &[
                "/providerSpec/a",
                "/providerSpec/machineType",
                "/nodeTemplate/capacity/cpu",
                "/secretRef/name",
                "/secretRef/namespace",
                "/provider",
            ],
        ),
    };
    object["apiVersion"] = json!(API);
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!(name);
    for _ in 0..=stream.below(2) {
        let field = *pick(fields, stream);
        set(&mut object, field, hostile(stream));
    }
    // The size stays small: a million machines are no hostile object, but a request for a million machines.
    if object["spec"]["replicas"].as_i64().is_some_and(|replicas| replicas > 2) {
        object["spec"]["replicas"] = json!(2);
    }
    let plural = format!(
        "{}{}",
        kind.to_lowercase(),
        if kind.ends_with('s') { "es" } else { "s" }
    );
    let place = format!("{GROUP}/{plural}/{name}");
    let status = json!({ "status": {
        pick(&["replicas", "availableReplicas", "readyReplicas", "observedGeneration", "fullyLabeledReplicas", "currentStatus", "conditions", "lastOperation"], stream).to_string(): hostile(stream),
    } });
    vec![
        Hostile::post(&format!("{GROUP}/{plural}"), &object),
        Hostile::body(
            "PATCH",
            &format!("{place}/status"),
            "application/merge-patch+json",
            status.to_string(),
        ),
        Hostile::get(&place),
        Hostile::delete(&place),
    ]
}
