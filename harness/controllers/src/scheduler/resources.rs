//! Resource amounts: sums of requests, and whether they fit.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::amounts::{milli, whole};
use quantity::Saturating as _;

/// The requests that scoring assumes for a container without requests: 0.1 CPU and 200 MiB (kube-scheduler's
/// values).
const ASSUMED_MILLI_CPU: i64 = 100;
const ASSUMED_MEMORY: i64 = 200 * 1024 * 1024;

/// Amounts of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// CPU, in millicores.
    pub milli_cpu: i64,
    /// Memory, in bytes.
    pub memory: i64,
    /// Ephemeral storage, in bytes.
    pub storage: i64,
    /// Other resources by name, in whole units; zeros are omitted.
    pub others: BTreeMap<String, i64>,
}

impl Amounts {
    /// Parses a resource list. `pods` is not in the result.
    pub fn of(list: &BTreeMap<String, Quantity>) -> Self {
        let mut amounts = Self::default();
        for (name, quantity) in list {
            match name.as_str() {
                "cpu" => amounts.milli_cpu = milli(quantity),
                "memory" => amounts.memory = whole(quantity),
                "ephemeral-storage" => amounts.storage = whole(quantity),
                "pods" => {}
                other => amounts.set(other, whole(quantity)),
            }
        }
        amounts
    }

    fn set(&mut self, name: &str, amount: i64) {
        if amount == 0 {
            self.others.remove(name);
        } else {
            self.others.insert(name.to_owned(), amount);
        }
    }

    /// The amount of an extended resource.
    pub fn other(&self, name: &str) -> i64 {
        self.others.get(name).copied().unwrap_or_default()
    }

    /// Adds other amounts.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// The maximum of each amount.
    fn raise(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Self, operation: fn(i64, i64) -> i64) {
        self.milli_cpu = operation(self.milli_cpu, other.milli_cpu);
        self.memory = operation(self.memory, other.memory);
        self.storage = operation(self.storage, other.storage);
        for (name, amount) in &other.others {
            let combined = operation(self.other(name), *amount);
            self.set(name, combined);
        }
    }
}

/// The effective request of a pod: the larger of the sum over its containers and the peak of its init
/// containers (sidecars count from their position on), plus the overhead.
pub fn requests(spec: &PodSpec) -> Amounts {
    let mut total = Amounts::default();
    for container in &spec.containers {
        total.add(&container_requests(container));
    }
    let mut sidecars = Amounts::default();
    let mut peak = Amounts::default();
    for container in spec.init_containers.iter().flatten() {
        let mut needed = container_requests(container);
        if is_sidecar(container) {
            total.add(&needed);
            sidecars.add(&needed);
            peak.raise(&sidecars);
        } else {
            needed.add(&sidecars);
            peak.raise(&needed);
        }
    }
    total.raise(&peak);
    if let Some(list) = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref())
    {
        let whole_pod = Amounts::of(list);
        if list.contains_key("cpu") {
            total.milli_cpu = whole_pod.milli_cpu;
        }
        if list.contains_key("memory") {
            total.memory = whole_pod.memory;
        }
    }
    if let Some(overhead) = &spec.overhead {
        total.add(&Amounts::of(overhead));
    }
    total
}

/// CPU (millicores) and memory (bytes) of a pod for scoring.
pub fn scored_requests(spec: &PodSpec) -> [i64; 2] {
    let sidecars = spec.init_containers.iter().flatten().filter(|it| is_sidecar(it));
    let mut total = [0, 0];
    for container in spec.containers.iter().chain(sidecars) {
        let list = container
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.as_ref());
        let amount = |name: &str| list.and_then(|list| list.get(name));
        total[0].raise(amount("cpu").map_or(ASSUMED_MILLI_CPU, milli));
        total[1].raise(amount("memory").map_or(ASSUMED_MEMORY, whole));
    }
    total
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn container_requests(container: &Container) -> Amounts {
    container
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref())
        .map(Amounts::of)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } })
    }

    fn sidecar(cpu: &str) -> Value {
        json!({ "name": "s", "restartPolicy": "Always", "resources": { "requests": { "cpu": cpu } } })
    }

    #[rstest]
    #[case(json!({ "containers": [container("1"), container("500m")] }), 1500)]
    #[case(json!({ "containers": [container("1")], "initContainers": [container("3")] }), 3000)]
    #[case(json!({ "containers": [container("1")], "initContainers": [sidecar("1"), container("3")] }), 4000)]
    #[case(json!({ "containers": [container("1")], "initContainers": [container("1"), sidecar("1")] }), 2000)]
    #[case(json!({ "containers": [container("1")], "overhead": { "cpu": "250m" } }), 1250)]
    #[case(json!({ "containers": [container("1")], "resources": { "requests": { "cpu": "7" } } }), 7000)]
    fn a_pod_requests_what_it_needs_at_its_peak(#[case] spec: Value, #[case] expected: i64) {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(requests(&spec).milli_cpu, expected);
    }

    #[test]
    fn a_container_without_requests_counts_in_scores() {
        let spec = serde_json::from_value(json!({ "containers": [container("1"), { "name": "b" }] })).unwrap();
        assert_eq!(scored_requests(&spec), [1100, 2 * ASSUMED_MEMORY]);
    }
}
