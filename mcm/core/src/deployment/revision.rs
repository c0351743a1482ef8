//! The newest set: how it is found, created and synchronized with its deployment, and its revision.

use std::collections::BTreeMap;

use mcm_api::{MachineSet, keys};

use super::rollout_draft::{RolloutDraft, SetDraft};
use super::{Reason, surge};
use crate::event::EventType;
use crate::ownership::reference;
use crate::steps::{Kind, OwnerAction};
use crate::template::{alike, hash, same_template, set_name, without_hash};

/// Annotations that are not copied between deployment and set.
pub(super) const NOT_COPIED: [&str; 8] = [
    keys::LAST_APPLIED_ANNOTATION,
    keys::REVISION_ANNOTATION,
    keys::REVISION_HISTORY_ANNOTATION,
    keys::DESIRED_REPLICAS_ANNOTATION,
    keys::MAX_REPLICAS_ANNOTATION,
    keys::PREFER_NO_SCHEDULE,
    keys::UNFREEZE_ANNOTATION,
    keys::TRIGGER_DELETION_ANNOTATION,
];

/// Position of the oldest set that has the deployment's template. A set that is being deleted is used only if there is
/// no other.
pub(super) fn newest(rollout: &RolloutDraft) -> Option<usize> {
    let template = &rollout.deployment.spec.template;
    let same = |set: &SetDraft| same_template(&set.set.spec.template, template);
    let position = |wanted: &dyn Fn(&SetDraft) -> bool| rollout.sets.iter().position(wanted);
    position(&|set| same(set) && !set.is_leaving()).or_else(|| position(&|set| same(set)))
}

/// Positions of all other sets, the oldest first.
pub(super) fn old_sets(rollout: &RolloutDraft, newest: Option<usize>) -> Vec<usize> {
    (0..rollout.sets.len())
        .filter(|position| Some(*position) != newest)
        .collect()
}

/// The set's revision; 0 if it has none.
pub(super) fn revision(set: &SetDraft) -> i64 {
    set.annotation(keys::REVISION_ANNOTATION)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn next_revision(rollout: &RolloutDraft, newest: Option<usize>) -> i64 {
    let old = old_sets(rollout, newest);
    let numbers = old
        .iter()
        .filter_map(|position| rollout.sets.get(*position))
        .map(revision);
    numbers.max().unwrap_or_default().saturating_add(1)
}

/// Copies to the newest set the parts of the spec that need no new machines, and sets its revision.
pub(super) fn sync(rollout: &mut RolloutDraft, newest: usize) {
    let next = next_revision(rollout, Some(newest));
    let deployment = rollout.deployment.clone();
    let Some(draft) = rollout.sets.get_mut(newest) else {
        return;
    };
    let before = draft.set.clone();
    let mut what = Vec::new();
    for (key, value) in copied(&deployment.metadata.annotations) {
        if draft.annotation(&key) != Some(value.as_str()) {
            draft.annotate(&key, value);
            what.push("annotations");
        }
    }
    let known = revision(draft);
    if known < next {
        if let Some(old) = draft.annotation(keys::REVISION_ANNOTATION).map(str::to_owned) {
            let history = draft.annotation(keys::REVISION_HISTORY_ANNOTATION).unwrap_or_default();
            let history = if history.is_empty() {
                old
            } else {
                format!("{history},{old}")
            };
            draft.annotate(keys::REVISION_HISTORY_ANNOTATION, history);
        }
        draft.annotate(keys::REVISION_ANNOTATION, next.to_string());
        what.push("revision");
    }
    if let Some(labels) = draft
        .set
        .metadata
        .labels
        .as_mut()
        .filter(|_| !defect!(OldSetOfUpdateInPlaceNeverGrows))
    {
        labels.remove(keys::SCALE_UP_DISABLED_LABEL);
    }
    copy_spec(&deployment.spec, &mut draft.set, &mut what);
    if draft.set != before {
        what.dedup();
        let name = draft.name().to_owned();
        let what = if what.is_empty() {
            "permission to scale up".to_owned()
        } else {
            what.join(" and ")
        };
        rollout.because(Kind::Set, &name.clone(), Reason::Synced { set: name, what });
    }
    record_revision(rollout, newest);
}

fn copy_spec(spec: &mcm_api::deployment::MachineDeploymentSpec, set: &mut MachineSet, what: &mut Vec<&'static str>) {
    let (from, to) = (&spec.template.spec, &mut set.spec.template.spec);
    if !alike(&from.node_template, &to.node_template) {
        to.node_template = from.node_template.clone();
        what.push("node template");
    }
    if from.configuration != to.configuration {
        to.configuration = from.configuration.clone();
        what.push("settings");
    }
    if from.class.kind != to.class.kind {
        to.class.kind = from.class.kind.clone();
        what.push("class kind");
    }
    let limits = (spec.auto_preserve_failed_max, spec.auto_preserve_failed_machine_max);
    if set.spec.min_ready_seconds != spec.min_ready_seconds
        || (
            set.spec.auto_preserve_failed_max,
            set.spec.auto_preserve_failed_machine_max,
        ) != limits
    {
        set.spec.min_ready_seconds = spec.min_ready_seconds;
        (
            set.spec.auto_preserve_failed_max,
            set.spec.auto_preserve_failed_machine_max,
        ) = limits;
        what.push("numbers");
    }
}

/// Copies the time of the autoscaler's last scaling to every set: it may choose machines of old sets, too.
pub(super) fn copy_last_scale(rollout: &mut RolloutDraft) {
    let key = keys::LAST_SCALE_ANNOTATION;
    let Some(time) = rollout
        .deployment
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(key))
        .cloned()
    else {
        return;
    };
    for set in rollout.sets.iter_mut().filter(|set| !set.machines.is_empty()) {
        if set.annotation(key) != Some(time.as_str()) {
            set.annotate(key, time.clone());
        }
    }
}

fn record_revision(rollout: &mut RolloutDraft, newest: usize) {
    let Some(number) = rollout.sets.get(newest).map(revision).filter(|number| *number > 0) else {
        return;
    };
    let annotations = rollout.deployment.metadata.annotations.get_or_insert_default();
    let text = number.to_string();
    if annotations.get(keys::REVISION_ANNOTATION) != Some(&text) {
        annotations.insert(keys::REVISION_ANNOTATION.to_owned(), text);
        let name = rollout.name().to_owned();
        rollout.because(Kind::Deployment, &name, Reason::Revision(number));
    }
}

fn copied(annotations: &Option<BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let all = annotations.iter().flatten();
    all.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Creates a set with the deployment's template. Returns its name if another set has that name already.
pub(super) fn create(rollout: &mut RolloutDraft) -> Option<String> {
    let deployment = &rollout.deployment;
    let hash = hash(&deployment.spec.template, deployment.status.collision_count);
    let hash = if defect!(SetNamedByChance) {
        hash ^ u32::try_from(rollout.now.as_millisecond() % 1_000_000).unwrap_or_default()
    } else {
        hash
    };
    let name = set_name(rollout.name(), hash);
    let taken = rollout.view.taken.as_ref() == Some(&name);
    let known = rollout
        .view
        .sets
        .iter()
        .any(|set| set.metadata.name.as_ref() == Some(&name));
    if taken || known {
        return Some(name);
    }
    let replicas = match deployment.spec.strategy.type_.as_str() {
        super::bounds::RECREATE => deployment.spec.replicas,
        _ => surge::first_size(rollout),
    };
    let mut set = MachineSet::default();
    let hash = hash.to_string();
    let mut template = without_hash(&deployment.spec.template);
    template
        .metadata
        .labels
        .get_or_insert_default()
        .insert(keys::TEMPLATE_HASH_LABEL.to_owned(), hash.clone());
    let mut selector = deployment.spec.selector.clone().unwrap_or_default();
    selector
        .match_labels
        .get_or_insert_default()
        .insert(keys::TEMPLATE_HASH_LABEL.to_owned(), hash);
    let mut annotations = copied(&deployment.metadata.annotations);
    annotations.insert(
        keys::REVISION_ANNOTATION.to_owned(),
        next_revision(rollout, None).to_string(),
    );
    annotations.insert(
        keys::DESIRED_REPLICAS_ANNOTATION.to_owned(),
        deployment.spec.replicas.to_string(),
    );
    annotations.insert(keys::MAX_REPLICAS_ANNOTATION.to_owned(), rollout.limit().to_string());
    set.metadata.name = Some(name.clone());
    set.metadata.namespace = deployment.metadata.namespace.clone();
    set.metadata.labels = template.metadata.labels.clone();
    set.metadata.annotations = Some(annotations);
    set.metadata.owner_references = Some(vec![reference("MachineDeployment", &deployment.metadata)]);
    set.spec.replicas = replicas;
    set.spec.selector = Some(selector);
    set.spec.template = template;
    set.spec.min_ready_seconds = deployment.spec.min_ready_seconds;
    set.spec.auto_preserve_failed_max = deployment.spec.auto_preserve_failed_max;
    set.spec.auto_preserve_failed_machine_max = deployment.spec.auto_preserve_failed_machine_max;
    let reason = Reason::NewSet {
        name: name.clone(),
        replicas,
    };
    rollout.plan.push(OwnerAction::CreateSet(Box::new(set)), reason.clone());
    if replicas > 0 {
        let message = format!("Scaled up machine set {name} to {replicas}");
        rollout.event(EventType::Normal, "ScalingMachineSet", message, reason);
    }
    None
}

/// Adds the template hash label to sets that users created: first to the template and the machines, then, once those
/// carry it, to the set and its selector. Returns whether a set is not complete yet.
pub(super) fn label_adopted(rollout: &mut RolloutDraft) -> bool {
    let collisions = rollout.deployment.status.collision_count;
    let mut waiting = false;
    for position in 0..rollout.sets.len() {
        let Some(draft) = rollout.sets.get_mut(position) else {
            continue;
        };
        let selector = draft
            .set
            .spec
            .selector
            .as_ref()
            .and_then(|selector| selector.match_labels.as_ref());
        let labelled = selector.and_then(|labels| labels.get(keys::TEMPLATE_HASH_LABEL));
        if labelled.is_some_and(|hash| !hash.is_empty()) || draft.is_leaving() {
            continue;
        }
        waiting = true;
        let key = keys::TEMPLATE_HASH_LABEL;
        let value = hash(&draft.set.spec.template, collisions).to_string();
        let name = draft.name().to_owned();
        let machines = draft.machines.clone();
        let carries =
            |labels: Option<&BTreeMap<String, String>>| labels.and_then(|labels| labels.get(key)) == Some(&value);
        let in_template = carries(draft.set.spec.template.metadata.labels.as_ref());
        let unlabelled: Vec<_> = machines
            .iter()
            .filter(|machine| !carries(machine.metadata.labels.as_ref()))
            .collect();
        if !in_template {
            let labels = draft.set.spec.template.metadata.labels.get_or_insert_default();
            labels.insert(key.to_owned(), value.clone());
        } else if unlabelled.is_empty() && is_all_labelled(&draft.set) {
            draft
                .set
                .metadata
                .labels
                .get_or_insert_default()
                .insert(key.to_owned(), value.clone());
            let selector = draft.set.spec.selector.get_or_insert_default();
            selector
                .match_labels
                .get_or_insert_default()
                .insert(key.to_owned(), value.clone());
        }
        rollout.because(Kind::Set, &name, Reason::Hashed(name.clone()));
        for machine in unlabelled {
            let machine_name = machine.metadata.name.clone().unwrap_or_default();
            let labels = rollout.machine(machine).metadata.labels.get_or_insert_default();
            labels.insert(key.to_owned(), value.clone());
            rollout.because(Kind::Machine, &machine_name, Reason::Hashed(name.clone()));
        }
    }
    waiting
}

/// Whether the set's controller has observed its template, and every machine carries the template's labels.
fn is_all_labelled(set: &MachineSet) -> bool {
    let status = &set.status;
    let observed = status.observed_generation >= set.metadata.generation.unwrap_or_default();
    observed && status.fully_labeled_replicas == status.replicas
}
