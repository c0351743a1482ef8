//! Revisions: finds or creates the set of the current template, maintains the revision numbers of sets, and
//! limits the history.

use std::cmp::Ordering;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::sets::{Scene, Set, TEMPLATE_HASH, remember_numbers};
use super::{numbers, progress};
use crate::workloads::hash::template_hash;
use crate::workloads::meta;
use crate::workloads::plan::Note;
use quantity::Saturating as _;

/// Annotation: the revision number, on sets and on the deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation: the earlier revision numbers of a set.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotations that are not copied from a deployment to its sets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    numbers::DESIRED_REPLICAS,
    numbers::MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];
/// The maximum length of the history; older entries are dropped.
const HISTORY_LENGTH: usize = 2000;

/// Oldest first.
pub fn by_age(one: &ReplicaSet, other: &ReplicaSet) -> Ordering {
    meta::created(&one.metadata)
        .cmp(&meta::created(&other.metadata))
        .then_with(|| meta::name(&one.metadata).cmp(meta::name(&other.metadata)))
}

fn revision(meta: &ObjectMeta) -> i64 {
    meta::number(meta, REVISION).unwrap_or_default()
}

/// Updates annotations and revision of the new set, if it exists.
pub fn sync(scene: &mut Scene<'_>) {
    let newest = scene.sets.old.iter().map(|set| revision(&set.now.metadata)).max();
    let next = newest.unwrap_or_default().saturating_add(1);
    let annotations = scene.deployment.metadata.annotations.clone().unwrap_or_default();
    let min_ready = scene.spec.min_ready_seconds;
    let Some(set) = &mut scene.sets.new else { return };
    for (key, value) in annotations {
        if !NOT_COPIED.contains(&key.as_str()) {
            meta::annotate(&mut set.now.metadata, &key, value);
        }
    }
    raise_revision(&mut set.now.metadata, next);
    let spec = set.now.spec.get_or_insert_default();
    if spec.min_ready_seconds.unwrap_or_default() != min_ready.unwrap_or_default() {
        spec.min_ready_seconds = min_ready;
    }
    let name = set.name().to_owned();
    let revision = meta::annotation(&set.now.metadata, REVISION)
        .unwrap_or_default()
        .to_owned();
    meta::annotate(&mut scene.deployment.metadata, REVISION, revision);
    progress::note_found(scene, &name);
}

/// Sets the set's revision, and appends the previous one to its history.
fn raise_revision(set: &mut ObjectMeta, next: i64) {
    let old = meta::annotation(set, REVISION).map(str::to_owned);
    if old
        .as_deref()
        .and_then(|old| old.parse::<i64>().ok())
        .unwrap_or_default()
        >= next
    {
        return;
    }
    meta::annotate(set, REVISION, next.to_string());
    let Some(old) = old.filter(|old| !old.is_empty()) else {
        return;
    };
    let history = meta::annotation(set, REVISION_HISTORY).unwrap_or_default();
    let mut entries: Vec<&str> = history.split(',').filter(|entry| !entry.is_empty()).collect();
    entries.push(&old);
    while entries.len() > 1
        && quantity::total(entries.iter().map(|entry| entry.len().saturating_add(1))) > HISTORY_LENGTH
    {
        entries.remove(0);
    }
    let history = entries.join(",");
    meta::annotate(set, REVISION_HISTORY, history);
}

/// Like [`sync`], but creates the new set if it is missing. Returns whether it exists now: on a name collision
/// the collision count is incremented instead.
pub fn sync_or_create(scene: &mut Scene<'_>) -> bool {
    if scene.sets.new.is_none() && !create(scene) {
        return false;
    }
    sync(scene);
    true
}

/// The name of the set of the current template, if it must be created.
pub fn next_set_name(deployment: &Deployment) -> Option<String> {
    let hash = next_hash(deployment)?;
    Some(format!("{}-{hash}", meta::name(&deployment.metadata)))
}

fn next_hash(deployment: &Deployment) -> Option<String> {
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    Some(template_hash(&deployment.spec.as_ref()?.template, collisions))
}

fn create(scene: &mut Scene<'_>) -> bool {
    let Some(hash) = next_hash(&scene.deployment) else {
        return false;
    };
    let name = format!("{}-{hash}", scene.owner.name);
    if scene.view.names.contains(&name) {
        let status = scene.deployment.status.get_or_insert_default();
        status.collision_count.get_or_insert_default().raise(1);
        return false;
    }
    let mut set = new_set(scene, &hash, name);
    remember_numbers(&mut set, scene.spec);
    scene.sets.new = Some(Set::to_create(set));
    let replicas = scene.new_set_replicas();
    let Some(set) = &mut scene.sets.new else { return false };
    set.set_replicas(replicas);
    let name = set.name().to_owned();
    if replicas > 0 {
        let message = format!("Scaled up replica set {name} from 0 to {replicas}");
        scene.notes.push(Note::normal("ScalingReplicaSet", message));
    }
    progress::note_created(scene, &name);
    true
}

fn new_set(scene: &Scene<'_>, hash: &str, name: String) -> ReplicaSet {
    let mut template = scene.spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(TEMPLATE_HASH.to_owned(), hash.to_owned());
    let labels = labels.clone();
    let mut selector = scene.spec.selector.clone();
    selector
        .match_labels
        .get_or_insert_default()
        .insert(TEMPLATE_HASH.to_owned(), hash.to_owned());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(scene.owner.namespace.clone()),
            labels: Some(labels),
            owner_references: Some(vec![scene.owner.controller_reference()]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            min_ready_seconds: scene.spec.min_ready_seconds,
            replicas: Some(0),
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

/// Plans the deletion of the oldest empty sets beyond the history limit.
pub fn clean_up(scene: &mut Scene<'_>) {
    let Some(limit) = scene.spec.revision_history_limit.filter(|limit| *limit != i32::MAX) else {
        return;
    };
    let mut alive: Vec<_> = scene
        .sets
        .old
        .iter()
        .filter(|set| !meta::is_deleting(&set.now.metadata))
        .collect();
    alive.sort_by_key(|set| (revision(&set.now.metadata), meta::created(&set.now.metadata)));
    let surplus = alive.len().saturating_sub(meta::size(limit));
    let unused = |set: &&Set| {
        let observed = set.now.status.as_ref().and_then(|status| status.observed_generation);
        set.actual() == 0 && set.replicas() == 0 && observed >= set.now.metadata.generation
    };
    let surplus: Vec<_> = alive
        .into_iter()
        .take(surplus)
        .filter(unused)
        .filter_map(|set| set.existing().cloned())
        .collect();
    scene.deletions.extend(surplus);
}
