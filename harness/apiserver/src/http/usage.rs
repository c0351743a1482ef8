//! The usage of nodes and pods (metrics.k8s.io), for `kubectl top`. Simulated containers use what they request, and a
//! node what its pods use.

use http::Response;
use quantity::{Quantity, total};
use serde_json::{Value, json};

use super::path::Target;
use super::{Body, Exchange, encoded_response, method_not_allowed};
use crate::registry::{Entry, ListOptions, time_text};
use crate::status::ApiError;
use crate::store::Key;

/// The period over which the usage is measured.
const WINDOW: &str = "30s";

/// CPU in thousandths of a core, and memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    cpu: i128,
    memory: i128,
}

impl Usage {
    fn value(self) -> Value {
        json!({ "cpu": format!("{}m", self.cpu), "memory": format!("{}Ki", self.memory.div_euclid(1024)) })
    }

    fn sum(all: impl Iterator<Item = Self> + Clone) -> Self {
        Self {
            cpu: total(all.clone().map(|usage| usage.cpu)),
            memory: total(all.map(|usage| usage.memory)),
        }
    }
}

pub(super) fn serve(
    exchange: &Exchange<'_>,
    entry: &Entry,
    target: &Target,
    verb: &str,
) -> Result<Response<Body>, ApiError> {
    let registry = &exchange.server.registry;
    let catalog = registry.catalog();
    let core = |plural: &str| {
        let found = catalog.find("", "v1", plural);
        found.ok_or_else(|| ApiError::internal(format!("{plural} are not served")))
    };
    let list = |plural: &str, namespace: Option<&str>, options: &ListOptions| -> Result<Vec<Value>, ApiError> {
        let objects = registry.list(core(plural)?, namespace, options)?.objects;
        objects
            .iter()
            .map(|object| object.value().map_err(ApiError::internal))
            .collect()
    };
    let of_nodes = entry.resource.plural == "nodes";
    let namespace = target.namespace.as_deref();
    let objects = match (verb, &target.name) {
        ("get", Some(name)) => {
            let key = Key::new(namespace.unwrap_or_default(), name);
            let object = registry.get(core(&entry.resource.plural)?, &key);
            let missing = |_| ApiError::not_found(&entry.resource, name);
            vec![object.map_err(missing)?.value().map_err(ApiError::internal)?]
        }
        ("list", None) => list(&entry.resource.plural, namespace, &exchange.query.list(entry)?)?,
        _ => return Err(method_not_allowed()),
    };
    let now = time_text(exchange.now);
    let mut items: Vec<Value> = match of_nodes {
        true => {
            let pods = list("pods", None, &ListOptions::default())?;
            objects.iter().map(|node| node_metrics(node, &pods, &now)).collect()
        }
        false => objects
            .iter()
            .filter(|pod| runs(pod))
            .map(|pod| pod_metrics(pod, &now))
            .collect(),
    };
    let (kind, version) = (&entry.resource.kind, entry.resource.api_version());
    let answer = match &target.name {
        Some(name) => {
            let mut item = items.pop().ok_or_else(|| ApiError::not_found(&entry.resource, name))?;
            item["kind"] = kind.as_str().into();
            item["apiVersion"] = version.into();
            item
        }
        None => json!({ "kind": format!("{kind}List"), "apiVersion": version, "metadata": {}, "items": items }),
    };
    Ok(encoded_response(200, exchange.presentation.value(&answer)))
}

fn node_metrics(node: &Value, pods: &[Value], now: &str) -> Value {
    let name = &node["metadata"]["name"];
    let own = pods.iter().filter(|pod| runs(pod) && pod["spec"]["nodeName"] == *name);
    let usage = Usage::sum(own.map(|pod| Usage::sum(containers(pod).map(requested))));
    json!({ "metadata": metadata(node, now), "timestamp": now, "window": WINDOW, "usage": usage.value() })
}

fn pod_metrics(pod: &Value, now: &str) -> Value {
    let containers: Vec<Value> = containers(pod)
        .map(|container| json!({ "name": container["name"], "usage": requested(container).value() }))
        .collect();
    json!({ "metadata": metadata(pod, now), "timestamp": now, "window": WINDOW, "containers": containers })
}

fn metadata(object: &Value, now: &str) -> Value {
    let mut metadata = json!({ "name": object["metadata"]["name"], "creationTimestamp": now });
    for field in ["namespace", "labels"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    metadata
}

fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> + Clone {
    pod["spec"]["containers"].as_array().into_iter().flatten()
}

/// What a container requests; nothing for an amount that is missing.
fn requested(container: &Value) -> Usage {
    let of = |name: &str| {
        let text = container["resources"]["requests"][name].as_str()?;
        text.parse::<Quantity>().ok()
    };
    Usage {
        cpu: of("cpu").map_or(0, |cpu| cpu.milli()),
        memory: of("memory").map_or(0, |memory| memory.value()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn pod(phase: &str, cpu: &str) -> Value {
        json!({
            "metadata": { "name": "p", "namespace": "n", "labels": { "app": "web" } },
            "spec": { "nodeName": "m", "containers": [
                { "name": "a", "resources": { "requests": { "cpu": cpu, "memory": "1Mi" } } },
                { "name": "b" },
            ] },
            "status": { "phase": phase },
        })
    }

    #[test]
    fn a_container_uses_what_it_requests() {
        let expected = json!({
            "metadata": { "name": "p", "namespace": "n", "labels": { "app": "web" }, "creationTimestamp": NOW },
            "timestamp": NOW, "window": "30s",
            "containers": [
                { "name": "a", "usage": { "cpu": "1500m", "memory": "1024Ki" } },
                { "name": "b", "usage": { "cpu": "0m", "memory": "0Ki" } },
            ],
        });
        assert_eq!(pod_metrics(&pod("Running", "1.5"), NOW), expected);
    }

    #[test]
    fn a_node_uses_what_its_running_pods_use() {
        let node = json!({ "metadata": { "name": "m" } });
        let pods = [pod("Running", "100m"), pod("Running", "1"), pod("Succeeded", "7")];
        let metrics = node_metrics(&node, &pods, NOW);
        assert_eq!(metrics["usage"], json!({ "cpu": "1100m", "memory": "2048Ki" }));
    }
}
