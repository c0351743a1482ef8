//! The daemon pod of one node: bound to it by node affinity, with the default tolerations.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, PodTemplateSpec,
    Toleration,
};

use crate::workloads::meta::{self, Owner};
use crate::workloads::pods;

/// The label that distinguishes pods of different templates.
pub const HASH: &str = "controller-revision-hash";
/// The label with the template generation, as the API server counts it.
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
const GENERATION: &str = "pod-template-generation";
/// The default tolerations: key, effect, and whether they apply only to pods with host network.
const TOLERATED: [(&str, &str, bool); 7] = [
    ("node.kubernetes.io/not-ready", "NoExecute", false),
    ("node.kubernetes.io/unreachable", "NoExecute", false),
    ("node.kubernetes.io/disk-pressure", "NoSchedule", false),
    ("node.kubernetes.io/memory-pressure", "NoSchedule", false),
    ("node.kubernetes.io/pid-pressure", "NoSchedule", false),
    ("node.kubernetes.io/unschedulable", "NoSchedule", false),
    ("node.kubernetes.io/network-unavailable", "NoSchedule", true),
];

/// The spec of the daemon pods of all nodes.
pub fn spec_of(template: &PodTemplateSpec) -> PodSpec {
    let mut spec = template.spec.clone().unwrap_or_default();
    let host_network = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect, for_host_network) in TOLERATED {
        if for_host_network && !host_network {
            continue;
        }
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            value: None,
            toleration_seconds: None,
        };
        let same = |other: &Toleration| {
            let other_value = other.value.as_deref().unwrap_or_default();
            (&other.key, &other.operator, &other.effect) == (&toleration.key, &toleration.operator, &toleration.effect)
                && other_value.is_empty()
        };
        match tolerations.iter_mut().find(|other| same(other)) {
            Some(present) => *present = toleration,
            None => tolerations.push(toleration),
        }
    }
    spec
}

/// The daemon pod for one node.
pub fn new(set: &DaemonSet, spec: &PodSpec, template: &PodTemplateSpec, hash: &str, node: &str) -> Pod {
    let owner = Owner::of(set);
    let mut pod = pods::from_template(template, &owner, format!("{}-", owner.name));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(HASH.to_owned(), hash.to_owned());
    if let Some(generation) = meta::annotation(&set.metadata, GENERATION_ANNOTATION) {
        labels.insert(GENERATION.to_owned(), generation.to_owned());
    }
    let mut spec = spec.clone();
    let affinity = spec.affinity.get_or_insert_with(Affinity::default);
    let affinity = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_expressions: None,
            match_fields: Some(vec![NodeSelectorRequirement {
                key: "metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![node.to_owned()]),
            }]),
        }],
    });
    pod.spec = Some(spec);
    pod
}

/// The node that a daemon pod runs on or targets.
pub fn node_of(pod: &Pod) -> Option<&str> {
    pods::node(pod).or_else(|| {
        let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
        required
            .node_selector_terms
            .iter()
            .flat_map(|term| term.match_fields.iter().flatten())
            .find(|field| field.key == "metadata.name" && field.operator == "In")
            .and_then(|field| match field.values.as_deref() {
                Some([name]) => Some(name.as_str()),
                _ => None,
            })
    })
}
