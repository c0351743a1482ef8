//! Defaults of a pod's spec.

use serde_json::{Value, json};

use crate::kinds::fields::{default, default_within, items_mut, members, object, text};

/// Sets the defaults of the spec at `pointer`.
pub(in crate::kinds) fn pod_spec(value: &mut Value, pointer: &str) {
    default(value, pointer, "dnsPolicy", "ClusterFirst");
    default(value, pointer, "restartPolicy", "Always");
    default(value, pointer, "schedulerName", "default-scheduler");
    default(value, pointer, "securityContext", json!({}));
    default(value, pointer, "terminationGracePeriodSeconds", 30);
    let on_host = value
        .pointer(&format!("{pointer}/hostNetwork"))
        .and_then(Value::as_bool)
        == Some(true);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for item in items_mut(value, &format!("{pointer}/{list}")) {
            container(item, on_host);
        }
    }
    for item in items_mut(value, &format!("{pointer}/volumes")) {
        volume(item);
    }
}

fn container(container: &mut Value, on_host: bool) {
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
        if on_host && let Some(number) = port.get("containerPort").cloned() {
            default(port, "", "hostPort", number);
        }
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
    requests_from_limits(container);
}

/// Whether an image has no tag and no digest, or the tag `latest`.
fn follows_latest(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or(image);
    !last.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn probe(container: &mut Value, pointer: &str) {
    let counts = [
        ("failureThreshold", 3),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("timeoutSeconds", 1),
    ];
    for (field, count) in counts {
        default_within(container, pointer, field, count);
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

fn volume(volume: &mut Value) {
    let sourceless = volume
        .as_object()
        .is_some_and(|volume| volume.keys().all(|key| key == "name"));
    if sourceless {
        default(volume, "", "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        default_within(volume, &format!("/{source}"), "defaultMode", 420);
    }
    if volume.pointer("/hostPath/type").is_none() {
        default_within(volume, "/hostPath", "type", "");
    }
    for item in items_mut(volume, "/downwardAPI/items") {
        default_within(item, "/fieldRef", "apiVersion", "v1");
    }
    for source in items_mut(volume, "/projected/sources") {
        default_within(source, "/serviceAccountToken", "expirationSeconds", 3600);
        for item in items_mut(source, "/downwardAPI/items") {
            default_within(item, "/fieldRef", "apiVersion", "v1");
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("nginx", true)]
    #[case("nginx:latest", true)]
    #[case("nginx:1.2", false)]
    #[case("localhost:5000/nginx", true)]
    #[case("localhost:5000/nginx:1", false)]
    #[case("nginx@sha256:0123", false)]
    fn untagged_images_are_always_pulled(#[case] image: &str, #[case] expected: bool) {
        assert_eq!(follows_latest(image), expected);
    }

    #[test]
    fn limits_set_missing_requests() {
        let mut value =
            json!({ "resources": { "limits": { "cpu": "2", "memory": "1Gi" }, "requests": { "cpu": "1" } } });
        container(&mut value, false);
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
