//! What one object consumes: its count, and for pods, services and claims what their specs request.

use std::collections::{BTreeMap, BTreeSet};

use quantity::Quantity;
use serde_json::Value;

use crate::{Amounts, Counted, OWN_NAMES, Usage, amounts, items, sums, text};

/// The suffix of the name of a storage class.
pub(super) const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const MEASURED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The older name of the count of some kinds.
pub(super) fn alias_of(resource: Counted<'_>) -> Option<&str> {
    (resource.group.is_empty() && OWN_NAMES.contains(&resource.plural)).then_some(resource.plural)
}

/// Whether pods consume what a quota calls so.
pub(super) fn is_of_pods(name: &str) -> bool {
    let requested = name.strip_prefix("requests.");
    let is_extended = requested.is_some_and(|name| name.contains('/') && !name.contains(OF_STORAGE_CLASS));
    MEASURED.contains(&plain(name)) || requested.unwrap_or(name).starts_with("hugepages-") || is_extended
}

/// The resource in the name of a quota: `cpu` in `requests.cpu`.
fn plain(name: &str) -> &str {
    let plain = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits."));
    plain.unwrap_or(name)
}

/// What an object consumes.
pub(super) fn of(resource: Counted<'_>, object: &Value) -> Usage {
    let one = amount(1);
    let mut usage = Usage::from([(resource.count(), one)]);
    match (resource.group, resource.plural) {
        ("", "pods") => {
            if !matches!(text(object, "/status/phase"), "Failed" | "Succeeded") {
                usage.extend(of_pod(object));
            }
            return usage;
        }
        ("", "services") => usage.extend(of_service(object)),
        ("", "persistentvolumeclaims") => usage.extend(of_claim(object)),
        _ => {}
    }
    if let Some(alias) = alias_of(resource) {
        usage.insert(alias.to_owned(), one);
    }
    usage
}

fn amount(number: usize) -> Quantity {
    Quantity::whole(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Under the names `cpu`, `requests.cpu` and `limits.cpu`.
fn named(requests: &Amounts, limits: &Amounts) -> Usage {
    let mut usage = Usage::from([("pods".to_owned(), amount(1))]);
    for (name, requested) in requests {
        let is_measured = MEASURED.contains(name) || name.starts_with("hugepages-");
        if is_measured {
            usage.insert((*name).to_owned(), *requested);
        }
        if is_measured || name.contains('/') {
            usage.insert(format!("requests.{name}"), *requested);
        }
    }
    let measured = limits.iter().filter(|(name, _)| MEASURED.contains(*name));
    usage.extend(measured.map(|(name, limit)| (format!("limits.{name}"), *limit)));
    usage
}

fn of_pod(pod: &Value) -> Usage {
    let mut requests = sums::of(pod, "requests");
    let mut limits = sums::of(pod, "limits");
    for (name, more) in amounts(pod, "/spec/overhead") {
        let sum = requests.get(name).map_or(more, |before| before.plus(&more));
        requests.insert(name, sum);
        if let Some(limit) = limits.get_mut(name) {
            *limit = limit.plus(&more);
        }
    }
    named(&requests, &limits)
}

/// What a quota limits and a container does not give, in upstream's words.
pub(super) fn missing_values(limited: &BTreeSet<&str>, pod: &Value) -> Option<String> {
    let of_pod = ["/spec/resources/requests", "/spec/resources/limits"].map(|list| amounts(pod, list));
    if of_pod.iter().any(|amounts| !amounts.is_empty()) {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let containers = items(pod, "/spec/containers").iter();
    for container in containers.chain(items(pod, "/spec/initContainers")) {
        let requests = amounts(container, "/resources/requests");
        let given = named(&requests, &amounts(container, "/resources/limits"));
        let is_required = |name: &str| matches!(plain(name), "cpu" | "memory") && !given.contains_key(name);
        for name in limited.iter().filter(|name| is_required(name)) {
            missing.entry(name).or_default().insert(text(container, "/name"));
        }
    }
    if missing.is_empty() {
        return None;
    }
    let lines = missing.into_iter().map(|(name, containers)| {
        let containers: Vec<&str> = containers.into_iter().collect();
        format!("{name} for: {}", containers.join(","))
    });
    Some(format!("must specify {}", lines.collect::<Vec<String>>().join("; ")))
}

fn of_service(service: &Value) -> Usage {
    let kind = text(service, "/spec/type");
    let ports = items(service, "/spec/ports");
    let allocates = service.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    let given = ports.iter().filter(|port| port["nodePort"].as_i64() > Some(0));
    let node_ports = match kind {
        "NodePort" => ports.len(),
        "LoadBalancer" if allocates => ports.len(),
        "LoadBalancer" => given.count(),
        _ => 0,
    };
    Usage::from([
        ("services.nodeports".to_owned(), amount(node_ports)),
        (
            "services.loadbalancers".to_owned(),
            amount(usize::from(kind == "LoadBalancer")),
        ),
    ])
}

fn of_claim(claim: &Value) -> Usage {
    const BETA_CLASS: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";
    let mut usage = Usage::new();
    let class = match text(claim, BETA_CLASS) {
        "" => text(claim, "/spec/storageClassName"),
        class => class,
    };
    let mut add = |name: &str, amount: Quantity| {
        if !class.is_empty() {
            usage.insert(format!("{class}{OF_STORAGE_CLASS}{name}"), amount);
        }
        usage.insert(name.to_owned(), amount);
    };
    add("persistentvolumeclaims", amount(1));
    if let Some(storage) = amounts(claim, "/spec/resources/requests").get("storage") {
        add("requests.storage", *storage);
    }
    usage
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn texts(usage: Usage) -> Vec<String> {
        usage
            .into_iter()
            .map(|(name, amount)| format!("{name}={amount}"))
            .collect()
    }

    #[test]
    fn a_pod_consumes_its_requests_limits_and_overhead() {
        let pod = json!({ "spec": {
            "overhead": { "cpu": "100m" },
            "containers": [{ "resources": { "requests": { "cpu": "200m", "x.io/a": "1" }, "limits": { "cpu": "1" } } }],
        } });
        assert_eq!(
            texts(of_pod(&pod)),
            [
                "cpu=300m",
                "limits.cpu=1100m",
                "pods=1",
                "requests.cpu=300m",
                "requests.x.io/a=1"
            ]
        );
    }

    #[test]
    fn a_pod_must_give_what_is_limited() {
        let pod = json!({ "spec": { "containers": [
            { "name": "b" }, { "name": "a", "resources": { "requests": { "cpu": "1" } } },
        ] } });
        let limited = BTreeSet::from(["requests.cpu", "limits.memory", "pods"]);
        assert_eq!(
            missing_values(&limited, &pod).as_deref(),
            Some("must specify limits.memory for: a,b; requests.cpu for: b")
        );
        assert_eq!(missing_values(&BTreeSet::from(["pods"]), &pod), None);
    }

    #[rstest]
    #[case("cpu", true)]
    #[case("limits.memory", true)]
    #[case("requests.hugepages-2Mi", true)]
    #[case("limits.hugepages-2Mi", false)]
    #[case("requests.example.com/gpu", true)]
    #[case("limits.example.com/gpu", false)]
    #[case("requests.storage", false)]
    #[case("gold.storageclass.storage.k8s.io/requests.storage", false)]
    fn some_names_of_a_quota_concern_pods(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_of_pods(name), expected);
    }

    #[rstest]
    #[case(json!({}), true)]
    #[case(json!({ "requests": {} }), true)]
    #[case(json!({ "requests": { "cpu": "1" } }), false)]
    fn resources_of_the_pod_replace_those_of_its_containers(#[case] resources: Value, #[case] is_missing: bool) {
        let pod = json!({ "spec": { "resources": resources, "containers": [{ "name": "a" }] } });
        assert_eq!(
            missing_values(&BTreeSet::from(["requests.cpu"]), &pod).is_some(),
            is_missing
        );
    }

    #[test]
    fn a_service_consumes_ports_by_its_type() {
        let service = |kind: &str| json!({ "spec": { "type": kind, "ports": [{ "port": 1 }, { "port": 2, "nodePort": 30_000 }] } });
        assert_eq!(
            texts(of_service(&service("ClusterIP"))),
            ["services.loadbalancers=0", "services.nodeports=0"]
        );
        assert_eq!(
            texts(of_service(&service("NodePort"))),
            ["services.loadbalancers=0", "services.nodeports=2"]
        );
        let mut balancer = service("LoadBalancer");
        balancer["spec"]["allocateLoadBalancerNodePorts"] = false.into();
        assert_eq!(
            texts(of_service(&balancer)),
            ["services.loadbalancers=1", "services.nodeports=1"]
        );
    }

    #[test]
    fn a_claim_consumes_storage_of_its_class() {
        let claim =
            json!({ "spec": { "storageClassName": "gold", "resources": { "requests": { "storage": "1Gi" } } } });
        assert_eq!(
            texts(of_claim(&claim)),
            [
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1",
                "gold.storageclass.storage.k8s.io/requests.storage=1Gi",
                "persistentvolumeclaims=1",
                "requests.storage=1Gi"
            ]
        );
    }
}
