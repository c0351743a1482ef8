//! ControllerRevisions: the templates that DaemonSets and StatefulSets had, numbered, so that pods
//! can be told apart by them and a rollout can be taken back.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use super::meta::{self, Owner};
use super::plan::Plan;
use crate::Kind;

/// The data of a revision: what would have to be patched into the owner to come back to it.
pub fn data_of(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(template) = template.as_object_mut() {
        template.insert("$patch".to_owned(), json!("replace"));
    }
    json!({ "spec": { "template": template } })
}

/// The template that a revision remembers.
pub fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Whether a revision remembers this template.
pub fn remembers(revision: &ControllerRevision, template: &PodTemplateSpec) -> bool {
    template_of(revision).as_ref() == Some(template)
}

/// A revision of `owner` that does not exist yet.
pub fn new(
    owner: &Owner,
    template: &PodTemplateSpec,
    number: i64,
    hash: &str,
    hash_label: &str,
    annotations: Option<&ObjectMeta>,
) -> ControllerRevision {
    let described = template.metadata.as_ref();
    let mut labels = described
        .and_then(|described| described.labels.clone())
        .unwrap_or_default();
    labels.insert(hash_label.to_owned(), hash.to_owned());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", owner.name)),
            namespace: Some(owner.namespace.clone()),
            labels: Some(labels),
            annotations: annotations.and_then(|meta| meta.annotations.clone()),
            owner_references: Some(vec![owner.controller_reference()]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data_of(template))),
        revision: number,
    }
}

/// The revision of a template among those that there are.
pub enum Current {
    /// It is there; the number that it has to have, if it has another one.
    Found(Arc<ControllerRevision>, Option<i64>),
    /// It is to be created, under this number.
    Missing(i64),
}

/// Finds the revision of `template`. One that is found and is not the latest becomes that.
pub fn find(revisions: &[Arc<ControllerRevision>], template: &PodTemplateSpec) -> Current {
    let latest = revisions
        .iter()
        .map(|revision| revision.revision)
        .max()
        .unwrap_or_default();
    let found = revisions
        .iter()
        .filter(|revision| remembers(revision, template))
        .max_by_key(|revision| revision.revision);
    match found {
        Some(found) if found.revision == latest => Current::Found(Arc::clone(found), None),
        Some(found) => Current::Found(Arc::clone(found), Some(latest + 1)),
        None => Current::Missing(latest + 1),
    }
}

/// Plans the deletion of the oldest revisions that nothing lives by, beyond `limit` of them.
pub fn clean_up(
    plan: &mut Plan,
    revisions: &[Arc<ControllerRevision>],
    limit: i32,
    is_live: impl Fn(&ControllerRevision) -> bool,
) {
    let mut dead: Vec<_> = revisions.iter().filter(|revision| !is_live(revision)).collect();
    dead.sort_by_key(|revision| (revision.revision, meta::created(&revision.metadata)));
    let surplus = dead.len().saturating_sub(meta::size(limit));
    for revision in dead.into_iter().take(surplus) {
        plan.delete(Kind::ControllerRevision, &revision.metadata);
    }
}
