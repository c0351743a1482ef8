//! Numbers at the limits of types, in the fields of objects and in parameters of requests.

use clock::Stream;
use serde_json::{Value, json};

use super::{Hostile, pick, set};

/// Objects by the path of their kind, and fields of theirs that hold numbers, quantities, durations or times.
fn kinds() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let container = json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": 1, "memory": "1Gi" } } });
    let pod =
        json!({ "containers": [container, { "name": "d", "image": "i", "resources": { "requests": { "cpu": 1 } } }] });
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": pod });
    let selector = json!({ "matchLabels": { "a": "b" } });
    vec![
        (
            "/api/v1/namespaces/default/pods",
            json!({ "spec": pod }),
            vec![
                "/spec/terminationGracePeriodSeconds",
                "/spec/activeDeadlineSeconds",
                "/spec/priority",
                "/spec/containers/0/resources/requests/cpu",
                "/spec/containers/1/resources/requests/cpu",
                "/spec/containers/0/resources/requests/memory",
                "/metadata/deletionGracePeriodSeconds",
                "/metadata/generation",
            ],
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({ "spec": { "replicas": 0, "selector": selector, "template": template,
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 1 } } } }),
            vec![
                "/spec/minReadySeconds",
                "/spec/revisionHistoryLimit",
                "/spec/progressDeadlineSeconds",
                "/spec/strategy/rollingUpdate/maxSurge",
                "/spec/strategy/rollingUpdate/maxUnavailable",
                "/metadata/annotations/deployment.kubernetes.io~1revision",
            ],
        ),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({ "spec": { "replicas": 0, "serviceName": "s", "selector": selector, "template": template, "ordinals": { "start": 1 } } }),
            vec![
                "/spec/ordinals/start",
                "/spec/minReadySeconds",
                "/spec/revisionHistoryLimit",
            ],
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({ "spec": { "parallelism": 0, "template": { "spec": { "restartPolicy": "Never", "containers": [container] } } } }),
            vec![
                "/spec/completions",
                "/spec/backoffLimit",
                "/spec/activeDeadlineSeconds",
                "/spec/ttlSecondsAfterFinished",
            ],
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({ "spec": { "selector": selector, "minAvailable": 1 } }),
            vec!["/spec/minAvailable"],
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({ "spec": { "leaseDurationSeconds": 10, "leaseTransitions": 1 } }),
            vec![
                "/spec/leaseDurationSeconds",
                "/spec/leaseTransitions",
                "/spec/renewTime",
                "/spec/acquireTime",
            ],
        ),
        (
            "/api/v1/nodes",
            json!({ "metadata": {} , "status": { "capacity": { "cpu": "1" }, "allocatable": { "cpu": "1" } } }),
            vec![
                "/status/capacity/cpu",
                "/status/allocatable/cpu",
                "/status/allocatable/memory",
            ],
        ),
        (
            "/api/v1/namespaces/default/events",
            json!({ "involvedObject": { "namespace": "default" }, "count": 1, "series": { "count": 1 } }),
            vec!["/count", "/series/count", "/lastTimestamp", "/eventTime"],
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            json!({ "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }),
            vec!["/spec/resources/requests/storage"],
        ),
    ]
}

fn extreme(stream: &mut Stream) -> Value {
    let values = [
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(i32::MAX),
        json!(i32::MIN),
        json!(i64::from(i32::MAX) + 1),
        json!(3_000_000_000_u64),
        json!(-1),
        json!(1e308),
        json!(0.5),
        json!("9223372036854775807"),
        json!("9223372036854775807m"),
        json!("1e9999"),
        json!("99999999999999999999Ei"),
        json!("2147483647%"),
        json!("9999-12-31T23:59:59.999999Z"),
        json!("-292277022365-01-27T08:29:53Z"),
        Value::Null,
    ];
    pick(&values, stream).clone()
}

pub(super) fn requests(stream: &mut Stream, round: u64) -> Vec<Hostile> {
    let kinds = kinds();
    let (path, object, fields) = pick(&kinds, stream);
    let mut object = object.clone();
    let name = format!("x{round}");
    object["metadata"]["name"] = json!(name);
    for _ in 0..=stream.below(3) {
        let field = *pick(fields, stream);
        set(&mut object, field, extreme(stream));
    }
    let number = |stream: &mut Stream| extreme(stream).to_string().replace('"', "").replace(['%', ':'], "");
    let place = format!("{path}/{name}");
    let grace = number(stream);
    let listed = match stream.below(4) {
        0 => format!("{path}?limit={}", number(stream)),
        1 => format!("{path}?watch=true&timeoutSeconds=1&resourceVersion={}", number(stream)),
        2 => format!(
            "{path}?resourceVersion={}&resourceVersionMatch=NotOlderThan",
            number(stream)
        ),
        _ => format!("{path}?timeoutSeconds={}&limit=1", number(stream)),
    };
    let deletion = match stream.below(2) {
        0 => Hostile::delete(&format!("{place}?gracePeriodSeconds={grace}")),
        _ => Hostile::json("DELETE", &place, &json!({ "gracePeriodSeconds": extreme(stream) })),
    };
    vec![
        Hostile::post(path, &object),
        Hostile::get(&listed),
        deletion,
        Hostile::delete(&format!("{place}?gracePeriodSeconds=0")),
    ]
}
