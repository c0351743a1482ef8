//! ControllerRevisions: numbered snapshots of the templates of DaemonSets and StatefulSets, which identify a
//! pod's template and permit rollbacks.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use super::meta::{self, Owner};
use super::plan::Plan;
use crate::Kind;

/// The data of a revision: the patch that restores the template in the owner.
pub fn data_of(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(template) = template.as_object_mut() {
        template.insert("$patch".to_owned(), json!("replace"));
    }
    json!({ "spec": { "template": template } })
}

/// The template in a revision.
pub fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Whether a revision contains this template.
pub fn remembers(revision: &ControllerRevision, template: &PodTemplateSpec) -> bool {
    template_of(revision).as_ref() == Some(template)
}

/// A new revision of `owner`.
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

/// The revision of the current template.
pub enum Current {
    /// It exists; contains the new number if the number must change.
    Found(Arc<ControllerRevision>, Option<i64>),
    /// It must be created with this number.
    Missing(i64),
}

/// Finds the revision of `template`. An existing revision that is not the latest gets the next number.
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
        Some(found) => Current::Found(Arc::clone(found), Some(latest.saturating_add(1))),
        None => Current::Missing(latest.saturating_add(1)),
    }
}

/// Plans the deletion of the oldest unused revisions beyond `limit`.
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
