//! The scheduler's view of a pod, with everything that placement needs, computed once.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::ResourceExt;

use super::resources::{Amounts, requests, scored_requests};
use crate::foundation::ObjectKey;
use crate::matching::{Labels, selects};
use crate::volumes::claims::claims;

/// The scheduler of pods that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// The score that a matching required affinity term of an existing pod adds to a node.
const REQUIRED_AFFINITY_WEIGHT: i64 = 1;

/// A host port of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    port: i32,
    protocol: String,
    address: String,
}

impl HostPort {
    /// Whether two pods cannot share a node with these ports.
    pub fn conflicts(&self, other: &Self) -> bool {
        let everywhere = |port: &Self| port.address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || everywhere(self) || everywhere(other))
    }
}

/// A pod affinity or anti-affinity term.
#[derive(Clone, Debug)]
pub struct Term {
    /// The topology key.
    pub topology_key: String,
    selector: Option<LabelSelector>,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<LabelSelector>,
}

impl Term {
    fn new(term: &PodAffinityTerm, pod: &Pod) -> Self {
        let namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        let own = namespaces.is_empty() && term.namespace_selector.is_none();
        Self {
            topology_key: term.topology_key.clone(),
            selector: term.label_selector.clone().map(|selector| {
                let selector = with_keys(selector, term.match_label_keys.as_deref(), pod.labels(), "In");
                with_keys(selector, term.mismatch_label_keys.as_deref(), pod.labels(), "NotIn")
            }),
            namespaces: if own {
                pod.namespace().into_iter().collect()
            } else {
                namespaces
            },
            namespace_selector: term.namespace_selector.clone(),
        }
    }

    /// Whether the term selects this pod, whose namespace has these labels.
    pub fn selects(&self, pod: &PodInfo, namespace_labels: Option<&Labels>) -> bool {
        let in_namespace = self.namespaces.contains(&pod.name.namespace)
            || self.namespace_selector.as_ref().is_some_and(|selector| {
                namespace_labels.map_or_else(|| selects(selector, &Labels::new()), |labels| selects(selector, labels))
            });
        in_namespace
            && self
                .selector
                .as_ref()
                .is_some_and(|selector| selects(selector, pod.labels()))
    }
}

/// Adds requirements for the pod's own label values under these keys to a selector.
fn with_keys(mut selector: LabelSelector, keys: Option<&[String]>, labels: &Labels, operator: &str) -> LabelSelector {
    for key in keys.unwrap_or_default() {
        let Some(value) = labels.get(key) else { continue };
        let requirement = LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: Some(vec![value.clone()]),
        };
        if !selector.match_expressions.iter().flatten().any(|it| *it == requirement) {
            selector.match_expressions.get_or_insert_default().push(requirement);
        }
    }
    selector
}

/// A topology spread constraint.
#[derive(Clone, Debug)]
pub struct Spread {
    /// The topology key.
    pub topology_key: String,
    /// The maximum skew.
    pub max_skew: i64,
    /// Whether the constraint is required (`DoNotSchedule`) or preferred.
    pub required: bool,
    /// The minimum number of domains; with fewer, an empty domain is assumed.
    pub min_domains: i64,
    /// Whether only nodes that match the pod's node affinity count.
    pub honours_affinity: bool,
    /// Whether only nodes whose taints the pod tolerates count.
    pub honours_taints: bool,
    selector: Option<LabelSelector>,
}

impl Spread {
    fn new(constraint: &TopologySpreadConstraint, pod: &Pod) -> Self {
        let selector = constraint.label_selector.clone();
        Self {
            topology_key: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew),
            required: constraint.when_unsatisfiable == "DoNotSchedule",
            min_domains: constraint.min_domains.map_or(1, i64::from),
            honours_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honours_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
            selector: selector
                .map(|selector| with_keys(selector, constraint.match_label_keys.as_deref(), pod.labels(), "In")),
        }
    }

    /// Whether the constraint of a pod in `namespace` counts this pod.
    pub fn counts(&self, namespace: &str, pod: &PodInfo) -> bool {
        pod.name.namespace == namespace
            && self
                .selector
                .as_ref()
                .is_some_and(|selector| selects(selector, pod.labels()))
    }
}

/// A pod with its scheduling properties.
#[derive(Clone, Debug)]
pub struct PodInfo {
    /// Namespace and name.
    pub name: ObjectKey,
    /// The pod itself.
    pub pod: Arc<Pod>,
    /// Its resource requests.
    pub requests: Amounts,
    /// CPU and memory for scoring.
    pub scored: [i64; 2],
    /// Its host ports.
    pub ports: Vec<HostPort>,
    /// Its priority.
    pub priority: i32,
    /// Required pod affinity.
    pub affinity: Vec<Term>,
    /// Required pod anti-affinity.
    pub anti_affinity: Vec<Term>,
    /// Preferred pod affinity; negative weights for anti-affinity.
    pub preferences: Vec<(i64, Term)>,
    /// Its topology spread constraints.
    pub spread: Vec<Spread>,
    /// The claims that it mounts, and whether each belongs to an ephemeral volume.
    pub claims: Vec<(String, bool)>,
}

impl PodInfo {
    /// Computes the scheduling properties of a pod.
    pub fn new(pod: Arc<Pod>) -> Self {
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let rules = spec.affinity.as_ref();
        let near = rules.and_then(|rules| rules.pod_affinity.as_ref());
        let far = rules.and_then(|rules| rules.pod_anti_affinity.as_ref());
        let term = |term: &PodAffinityTerm| Term::new(term, &pod);
        let affinity: Vec<Term> = near
            .and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(term)
            .collect();
        let anti_affinity = far
            .and_then(|far| far.required_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(term)
            .collect();
        let wanted = near
            .and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(|it| (i64::from(it.weight), term(&it.pod_affinity_term)));
        let unwanted = far
            .and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(|it| (i64::from(it.weight).saturating_neg(), term(&it.pod_affinity_term)));
        let preferences = wanted.chain(unwanted).collect();
        Self {
            name: ObjectKey::of(&*pod),
            requests: requests(spec),
            scored: scored_requests(spec),
            ports: host_ports(spec),
            priority: spec.priority.unwrap_or_default(),
            affinity,
            anti_affinity,
            preferences,
            spread: spec
                .topology_spread_constraints
                .iter()
                .flatten()
                .map(|constraint| Spread::new(constraint, &pod))
                .collect(),
            claims: claims(spec, &pod.name_any()),
            pod,
        }
    }

    /// The pod's spec.
    pub fn spec(&self) -> Option<&PodSpec> {
        self.pod.spec.as_ref()
    }

    /// The pod's labels.
    pub fn labels(&self) -> &Labels {
        self.pod.labels()
    }

    /// The pod's uid.
    pub fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The pod's tolerations.
    pub fn tolerations(&self) -> &[Toleration] {
        self.spec()
            .and_then(|spec| spec.tolerations.as_deref())
            .unwrap_or_default()
    }

    /// Whether the pod is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    /// The nominated node.
    pub fn nominated_node(&self) -> Option<&str> {
        self.pod
            .status
            .as_ref()
            .and_then(|status| status.nominated_node_name.as_deref())
            .filter(|node| !node.is_empty())
    }

    /// Whether the pod has affinity terms.
    pub fn has_terms(&self) -> bool {
        !(self.affinity.is_empty() && self.anti_affinity.is_empty() && self.preferences.is_empty())
    }

    /// The weights with which this pod attracts or repels pods on its node.
    pub fn pulls(&self) -> impl Iterator<Item = (i64, &Term)> {
        let required = self.affinity.iter().map(|term| (REQUIRED_AFFINITY_WEIGHT, term));
        required.chain(self.preferences.iter().map(|(weight, term)| (*weight, term)))
    }

    /// Whether another version of the pod has the same scheduling properties.
    pub fn is_same(&self, other: &Pod) -> bool {
        self.pod.metadata.uid == other.metadata.uid
            && self.pod.metadata.labels == other.metadata.labels
            && self.is_terminating() == other.metadata.deletion_timestamp.is_some()
            && self.pod.spec == other.spec
    }
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let containers = spec.containers.iter().chain(
        spec.init_containers
            .iter()
            .flatten()
            .filter(|it| it.restart_policy.as_deref() == Some("Always")),
    );
    containers
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let text = |value: &Option<String>, default: &str| {
                value
                    .clone()
                    .filter(|text| !text.is_empty())
                    .unwrap_or_else(|| default.to_owned())
            };
            Some(HostPort {
                port: port.host_port.filter(|port| *port != 0)?,
                protocol: text(&port.protocol, "TCP"),
                address: text(&port.host_ip, "0.0.0.0"),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn port(port: i32, protocol: &str, address: &str) -> HostPort {
        HostPort {
            port,
            protocol: protocol.to_owned(),
            address: address.to_owned(),
        }
    }

    #[rstest]
    #[case(port(80, "TCP", "0.0.0.0"), port(80, "TCP", "10.0.0.1"), true)]
    #[case(port(80, "TCP", "10.0.0.2"), port(80, "TCP", "10.0.0.1"), false)]
    #[case(port(80, "TCP", "0.0.0.0"), port(80, "UDP", "0.0.0.0"), false)]
    #[case(port(80, "TCP", "0.0.0.0"), port(81, "TCP", "0.0.0.0"), false)]
    fn ports_conflict_on_the_same_address(#[case] one: HostPort, #[case] other: HostPort, #[case] expected: bool) {
        assert_eq!(one.conflicts(&other), expected);
        assert_eq!(other.conflicts(&one), expected);
    }

    fn info(pod: Value) -> PodInfo {
        PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap()))
    }

    fn with_term(term: Value) -> PodInfo {
        info(json!({
            "metadata": { "name": "a", "namespace": "mine", "labels": { "version": "1" } },
            "spec": { "containers": [], "affinity": { "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [term],
            } } },
        }))
    }

    #[rstest]
    #[case::own_namespace(json!({ "labelSelector": {}, "topologyKey": "k" }), "mine", true)]
    #[case::other_namespace(json!({ "labelSelector": {}, "topologyKey": "k" }), "other", false)]
    #[case::named(json!({ "labelSelector": {}, "topologyKey": "k", "namespaces": ["other"] }), "other", true)]
    #[case::all(json!({ "labelSelector": {}, "topologyKey": "k", "namespaceSelector": {} }), "other", true)]
    #[case::no_selector(json!({ "topologyKey": "k" }), "mine", false)]
    #[case::same_version(json!({ "labelSelector": {}, "topologyKey": "k", "matchLabelKeys": ["version"] }), "mine", false)]
    #[case::other_version(
        json!({ "labelSelector": {}, "topologyKey": "k", "mismatchLabelKeys": ["version"] }), "mine", true
    )]
    fn terms_select_pods(#[case] term: Value, #[case] namespace: &str, #[case] expected: bool) {
        let other = info(json!({ "metadata": { "name": "b", "namespace": namespace, "labels": { "version": "2" } } }));
        assert_eq!(with_term(term).affinity[0].selects(&other, None), expected);
    }

    #[test]
    fn claims_of_ephemeral_volumes_are_named_after_the_pod() {
        let pod = info(json!({
            "metadata": { "name": "p", "namespace": "n" },
            "spec": { "containers": [], "volumes": [
                { "name": "a", "persistentVolumeClaim": { "claimName": "c" } },
                { "name": "b", "ephemeral": {} },
                { "name": "c", "emptyDir": {} },
            ] },
        }));
        assert_eq!(pod.claims, [("c".to_owned(), false), ("p-b".to_owned(), true)]);
    }
}
