//! Synchronizes a Node with its machine's template (labels, annotations and taints) and class (virtual capacity).
//!
//! A three-way merge of the desired state, the last applied state (an annotation on the Node) and the current state.
//! Desired values are enforced; values that were last applied and are no longer desired are removed; all others belong
//! to other owners.

use std::collections::BTreeMap;
use std::str::FromStr;

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use mcm_api::machine::NodeTemplateSpec;
use mcm_api::{MachineClass, Phase, keys};

use super::node_template_validation::remove_invalid;
use super::pass::Pass;
use super::{Action, NodePatch};
use crate::event::EventType;

type Texts = BTreeMap<String, String>;
type Capacity = BTreeMap<String, Quantity>;

/// The annotations that a preservation sets and removes. The template's values apply only before and after a
/// preservation, so that the two do not revert each other.
const OF_PRESERVATION: [&str; 3] = [
    keys::PRESERVE_ANNOTATION,
    keys::PRESERVE_WHEN_FAILED_ANNOTATION,
    keys::SCALE_DOWN_DISABLED_ANNOTATION,
];

/// Adds the changes that the template requires to `patch`, and removes the taint `instance not ready` from the Node of
/// a Running machine. Returns the event about invalid parts, if the patch applies the template.
pub(super) fn add(pass: &Pass, node: &Node, patch: &mut NodePatch) -> Option<Action> {
    let running = pass.phase() == Some(&Phase::Running);
    let known = annotation(node, keys::LAST_APPLIED_TEMPLATE_ANNOTATION);
    let last: Option<NodeTemplateSpec> = known.and_then(|text| serde_json::from_str(text).ok());
    let last = last.map(|template| reduced(&template)).unwrap_or_default();
    let (mut wanted, problems) = wanted(pass);
    let preserved = has_preservation(pass);
    if preserved {
        wanted.postpone(&last);
    }
    let metadata = &node.metadata;
    patch
        .labels
        .extend(texts(metadata.labels.as_ref(), &last.labels, &wanted.labels));
    patch.annotations.extend(texts(
        metadata.annotations.as_ref(),
        &last.annotations,
        &wanted.annotations,
    ));
    if preserved {
        patch
            .annotations
            .retain(|key, _| !OF_PRESERVATION.contains(&key.as_str()));
    }
    let there = taints_of(node);
    let mut taints = taints(&there, &last.taints, &wanted.taints);
    taints.retain(|taint| !running || taint.key != keys::INSTANCE_NOT_READY_TAINT);
    if taints != there {
        patch.taints = Some(taints);
    }
    // The annotation records the applied template, also once the template is empty.
    let applies = last != wanted || known.is_none() && (wanted != Reduced::default() || !problems.is_empty());
    if applies {
        let template = wanted.template();
        patch.annotations.insert(
            keys::LAST_APPLIED_TEMPLATE_ANNOTATION.to_owned(),
            serde_json::to_string(&template).ok(),
        );
    }
    if let Some(capacity) = wanted_capacity(pass.view.class.as_deref()) {
        let known = annotation(node, keys::LAST_APPLIED_CAPACITY_ANNOTATION);
        if last_capacity(node) != capacity || known.is_none() && !capacity.is_empty() {
            let text = serde_json::to_string(&capacity).ok().filter(|_| !capacity.is_empty());
            patch
                .annotations
                .insert(keys::LAST_APPLIED_CAPACITY_ANNOTATION.to_owned(), text);
        }
    }
    (applies && !problems.is_empty()).then(|| invalid(&problems))
}

/// The required changes of the Node's capacity; `None` as a value removes the resource.
pub(super) fn capacity(pass: &Pass, node: &Node) -> BTreeMap<String, Option<Quantity>> {
    let Some(wanted) = wanted_capacity(pass.view.class.as_deref()) else {
        return BTreeMap::new();
    };
    let there = node.status.as_ref().and_then(|status| status.capacity.clone());
    let there = there.unwrap_or_default();
    let last = last_capacity(node);
    let removed = last
        .keys()
        .filter(|key| !wanted.contains_key(*key) && there.contains_key(*key));
    let removed: Vec<_> = removed.map(|key| (key.clone(), None)).collect();
    let forced = wanted
        .iter()
        .filter(|(key, value)| !there.get(*key).is_some_and(|there| same(there, value)));
    let forced = forced.map(|(key, value)| (key.clone(), Some(value.clone())));
    removed.into_iter().chain(forced).collect()
}

/// The part of a template that is synchronised.
#[derive(Debug, Default, PartialEq)]
struct Reduced {
    labels: Texts,
    annotations: Texts,
    taints: Vec<Taint>,
}

impl Reduced {
    /// Replaces the annotations that preservation uses with their last applied values.
    fn postpone(&mut self, last: &Self) {
        for key in OF_PRESERVATION {
            match last.annotations.get(key) {
                Some(value) => self.annotations.insert(key.to_owned(), value.clone()),
                None => self.annotations.remove(key),
            };
        }
    }

    fn template(&self) -> NodeTemplateSpec {
        let mut template = NodeTemplateSpec::default();
        template.metadata.labels = Some(self.labels.clone()).filter(|labels| !labels.is_empty());
        template.metadata.annotations = Some(self.annotations.clone()).filter(|all| !all.is_empty());
        template.spec.taints = Some(self.taints.clone()).filter(|taints| !taints.is_empty());
        template
    }
}

/// Whether the machine is preserved, or its preservation is being cleaned up.
fn has_preservation(pass: &Pass) -> bool {
    let status = &pass.machine().status;
    status.preservation.is_some() || status.is_preserved()
}

/// The valid part of the machine's template, and what is wrong with the rest.
fn wanted(pass: &Pass) -> (Reduced, Vec<String>) {
    let template = pass.machine().spec.node_template.as_ref();
    let mut wanted = template.map(reduced).unwrap_or_default();
    let problems = remove_invalid(&mut wanted.labels, &mut wanted.annotations, &mut wanted.taints);
    (wanted, problems)
}

/// The event about the invalid parts of a template.
fn invalid(problems: &[String]) -> Action {
    Action::RecordEvent {
        type_: EventType::Warning,
        reason: "InvalidNodeTemplate".to_owned(),
        message: format!(
            "not applied to the Node: spec.nodeTemplate.{}",
            problems.join("; spec.nodeTemplate.")
        ),
    }
}

fn reduced(template: &NodeTemplateSpec) -> Reduced {
    Reduced {
        labels: template.metadata.labels.clone().unwrap_or_default(),
        annotations: template.metadata.annotations.clone().unwrap_or_default(),
        taints: template.spec.taints.clone().unwrap_or_default(),
    }
}

fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let annotations = node.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// The changes of labels or annotations.
fn texts(there: Option<&Texts>, last: &Texts, wanted: &Texts) -> BTreeMap<String, Option<String>> {
    let there = |key: &String| there.and_then(|all| all.get(key));
    let removed = last
        .keys()
        .filter(|key| !wanted.contains_key(*key) && there(key).is_some());
    let forced = wanted.iter().filter(|(key, value)| there(key) != Some(value));
    let forced = forced.map(|(key, value)| (key.clone(), Some(value.clone())));
    removed.map(|key| (key.clone(), None)).chain(forced).collect()
}

fn taints_of(node: &Node) -> Vec<Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
    taints.unwrap_or_default()
}

/// The new list of taints: existing ones in their order, then new ones in the template's order. Key and effect identify
/// a taint.
fn taints(there: &[Taint], last: &[Taint], wanted: &[Taint]) -> Vec<Taint> {
    fn find<'a>(all: &'a [Taint], taint: &Taint) -> Option<&'a Taint> {
        all.iter()
            .find(|other| other.key == taint.key && other.effect == taint.effect)
    }
    let kept = there.iter().filter_map(|taint| match find(wanted, taint) {
        Some(wanted) => Some(wanted.clone()),
        None if find(last, taint).is_some() => None,
        None => Some(taint.clone()),
    });
    let new = wanted.iter().filter(|taint| find(there, taint).is_none()).cloned();
    kept.chain(new).collect()
}

/// The virtual capacity of the class; `None`: the class has no node template.
fn wanted_capacity(class: Option<&MachineClass>) -> Option<Capacity> {
    let template = class?.node_template.as_ref()?;
    Some(template.virtual_capacity.clone().unwrap_or_default())
}

fn last_capacity(node: &Node) -> Capacity {
    let text = annotation(node, keys::LAST_APPLIED_CAPACITY_ANNOTATION);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// Whether two quantities are the same number, independent of their notation.
fn same(left: &Quantity, right: &Quantity) -> bool {
    let number = |quantity_text: &Quantity| quantity::Quantity::from_str(&quantity_text.0).ok();
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.compare(&right).is_eq(),
        _ => left == right,
    }
}
