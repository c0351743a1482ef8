//! Defaults of a pod's spec.

use serde_json::{Value, json};

use super::images::follows_latest;
use super::sources;
use crate::kinds::fields::{default, default_within, items_mut, members, object, text};

/// Sets the defaults of the spec at `pointer`.
pub(in crate::kinds) fn pod_spec(value: &mut Value, pointer: &str) {
    account(value, pointer);
    default(value, pointer, "dnsPolicy", "ClusterFirst");
    default(value, pointer, "restartPolicy", "Always");
    default(value, pointer, "schedulerName", "default-scheduler");
    default(value, pointer, "securityContext", json!({}));
    default(value, pointer, "terminationGracePeriodSeconds", 30);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for item in items_mut(value, &format!("{pointer}/{list}")) {
            container(item);
        }
    }
    for item in items_mut(value, &format!("{pointer}/volumes")) {
        sources::prepare_volume(item);
    }
}

/// The account has two names, of which the second one is deprecated.
fn account(value: &mut Value, pointer: &str) {
    let named = |field: &str| text(value, &format!("{pointer}/{field}")).to_owned();
    let name = match named("serviceAccountName") {
        name if name.is_empty() => named("serviceAccount"),
        name => name,
    };
    if let Some(spec) = object(value, pointer).filter(|_| !name.is_empty()) {
        for field in ["serviceAccountName", "serviceAccount"] {
            spec.insert(field.to_owned(), name.as_str().into());
        }
    }
}

fn container(container: &mut Value) {
    default(container, "", "terminationMessagePath", "/dev/termination-log");
    default(container, "", "terminationMessagePolicy", "File");
    default(container, "", "resources", json!({}));
    let policy = if follows_latest(text(container, "/image")) {
        "Always"
    } else {
        "IfNotPresent"
    };
    default(container, "", "imagePullPolicy", policy);
    for port in items_mut(container, "/ports") {
        default(port, "", "protocol", "TCP");
    }
    for variable in items_mut(container, "/env") {
        default_within(variable, "/valueFrom/fieldRef", "apiVersion", "v1");
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        probe(container, &format!("/{name}"));
    }
    for hook in ["postStart", "preStop"] {
        http_action(container, &format!("/lifecycle/{hook}/httpGet"));
    }
}

/// Sets the defaults that pods have and templates have not: host ports on the host's network, and requests.
pub(super) fn pod_only(value: &mut Value, pointer: &str) {
    let on_host = value
        .pointer(&format!("{pointer}/hostNetwork"))
        .and_then(Value::as_bool)
        == Some(true);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_mut(value, &format!("{pointer}/{list}")) {
            requests_from_limits(container);
            for port in items_mut(container, "/ports") {
                if on_host && let Some(number) = port.get("containerPort").cloned() {
                    default(port, "", "hostPort", number);
                }
            }
        }
    }
}

fn probe(container: &mut Value, pointer: &str) {
    let counts = [
        ("failureThreshold", 3),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("timeoutSeconds", 1),
    ];
    if let Some(probe) = container.pointer_mut(pointer).and_then(Value::as_object_mut) {
        for (field, count) in counts {
            // Zero is no value.
            if probe
                .get(field)
                .is_none_or(|value| value.is_null() || *value == json!(0))
            {
                probe.insert(field.to_owned(), count.into());
            }
        }
    }
    http_action(container, &format!("{pointer}/httpGet"));
    if container.pointer(&format!("{pointer}/grpc/service")).is_none() {
        default_within(container, &format!("{pointer}/grpc"), "service", "");
    }
}

fn http_action(container: &mut Value, pointer: &str) {
    default_within(container, pointer, "path", "/");
    default_within(container, pointer, "scheme", "HTTP");
}

/// A limit without a request sets the request.
fn requests_from_limits(container: &mut Value) {
    let limits: Vec<(String, Value)> = members(container, "/resources/limits")
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    for (name, value) in limits {
        if let Some(requests) = object(container, "/resources/requests") {
            requests.entry(name).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_set_missing_requests() {
        let mut value =
            json!({ "resources": { "limits": { "cpu": "2", "memory": "1Gi" }, "requests": { "cpu": "1" } } });
        requests_from_limits(&mut value);
        assert_eq!(value["resources"]["requests"], json!({ "cpu": "1", "memory": "1Gi" }));
    }

    #[test]
    fn ports_probes_and_volumes_get_defaults() {
        let mut pod = json!({ "spec": {
            "hostNetwork": true,
            "containers": [{
                "ports": [{ "containerPort": 80 }],
                "livenessProbe": { "httpGet": { "port": 80 } },
                "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
            }],
            "volumes": [{ "name": "scratch" }, { "name": "config", "configMap": { "name": "c" } }],
        } });
        pod_spec(&mut pod, "/spec");
        pod_only(&mut pod, "/spec");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(
            container["ports"][0],
            json!({ "containerPort": 80, "hostPort": 80, "protocol": "TCP" })
        );
        assert_eq!(container["livenessProbe"]["periodSeconds"], 10);
        assert_eq!(
            container["livenessProbe"]["httpGet"],
            json!({ "path": "/", "port": 80, "scheme": "HTTP" })
        );
        assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
        assert_eq!(pod["spec"]["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(pod["spec"]["volumes"][1]["configMap"]["defaultMode"], 420);
    }
}
