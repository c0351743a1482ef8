//! The claims of StatefulSet pods: one per template and ordinal, kept unless the retention policy assigns an
//! owner (KEP-1847).

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::identity::{self, claim_name};
use super::scene::{Scene, View};
use crate::workloads::meta::{self, Owner};
use crate::workloads::plan::{Action, Note, Plan};

/// The names of all claims that `set` may need, and of those that `pods` use.
pub fn claims_of<'a>(set: &StatefulSet, pods: impl IntoIterator<Item = &'a Pod>) -> BTreeSet<String> {
    let Some(spec) = &set.spec else { return BTreeSet::new() };
    let name = meta::name(&set.metadata);
    let start = spec
        .ordinals
        .as_ref()
        .and_then(|ordinals| ordinals.start)
        .unwrap_or_default();
    let wanted = start..start.saturating_add(spec.replicas.unwrap_or(1));
    let present = pods.into_iter().filter_map(|pod| identity::ordinal_of(name, pod));
    wanted
        .chain(present)
        .flat_map(|ordinal| expected(spec, name, ordinal))
        .map(|(_, claim)| claim)
        .collect()
}

/// The retention of claims when the set is deleted and when it is scaled down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retention {
    deletes_with_set: bool,
    deletes_with_pod: bool,
}

fn retention(spec: &StatefulSetSpec) -> Retention {
    let policy = spec.persistent_volume_claim_retention_policy.as_ref();
    let deletes = |value: Option<&String>| value.map(String::as_str) == Some("Delete");
    Retention {
        deletes_with_set: policy.is_some_and(|policy| deletes(policy.when_deleted.as_ref())),
        deletes_with_pod: policy.is_some_and(|policy| deletes(policy.when_scaled.as_ref())),
    }
}

fn expected(spec: &StatefulSetSpec, set: &str, ordinal: i32) -> Vec<(PersistentVolumeClaim, String)> {
    let templates = spec.volume_claim_templates.iter().flatten();
    templates
        .map(|template| {
            let name = claim_name(meta::name(&template.metadata), set, ordinal);
            (template.clone(), name)
        })
        .collect()
}

fn existing<'a>(view: &'a View, name: &str) -> Option<&'a PersistentVolumeClaim> {
    let found = view.claims.iter().find(|claim| meta::name(&claim.metadata) == name);
    found.map(AsRef::as_ref)
}

/// Plans the missing claims of an ordinal's pod. Returns whether the pod may be created: a claim that belongs
/// to a deleted or terminating pod of the same name must be deleted first.
pub(super) fn ensure(plan: &mut Plan, scene: &Scene<'_>, ordinal: i32) -> bool {
    let set = &scene.owner;
    let mut ready = true;
    for (template, name) in expected(scene.spec, &set.name, ordinal) {
        match existing(scene.view, &name) {
            Some(claim) => ready &= !meta::is_deleting(&claim.metadata) && !is_stale(scene, claim),
            None => plan.actions.push(create(scene, template, &name, ordinal)),
        }
    }
    ready
}

/// Whether a claim belongs to an earlier pod of the same name.
fn is_stale(scene: &Scene<'_>, claim: &PersistentVolumeClaim) -> bool {
    let owners = claim.metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| owner.kind == "Pod")
        .any(|owner| scene.pods.iter().all(|pod| meta::uid(&pod.metadata) != owner.uid))
}

fn create(scene: &Scene<'_>, mut claim: PersistentVolumeClaim, name: &str, ordinal: i32) -> Action {
    let set = &scene.owner;
    claim.metadata.name = Some(name.to_owned());
    claim.metadata.namespace = Some(set.namespace.clone());
    let labels = claim.metadata.labels.get_or_insert_default();
    labels.extend(scene.spec.selector.match_labels.clone().unwrap_or_default());
    claim.status = None;
    if retention(scene.spec).deletes_with_set {
        claim.metadata.owner_references = Some(vec![set.controller_reference()]);
    }
    let pod = identity::pod_name(&set.name, ordinal);
    Action::Create {
        object: claim.into(),
        note: Some(Note::normal(
            "SuccessfulCreate",
            format!("Create Claim {name} Pod {pod} in StatefulSet {} success", set.name),
        )),
    }
}

/// Plans the owners of a pod's claims by the policy: the set, the condemned pod, or none.
pub(super) fn retain(plan: &mut Plan, scene: &Scene<'_>, pod: &Pod, ordinal: i32, condemned: bool) {
    let policy = retention(scene.spec);
    for (_, name) in expected(scene.spec, &scene.owner.name, ordinal) {
        let Some(claim) = existing(scene.view, &name).filter(|claim| !meta::is_deleting(&claim.metadata)) else {
            continue;
        };
        let pod_owns = condemned && policy.deletes_with_pod;
        let set_owns = policy.deletes_with_set && !pod_owns;
        let before = claim.metadata.owner_references.clone().unwrap_or_default();
        let mut owners = before.clone();
        own(&mut owners, &scene.owner, set_owns);
        own(&mut owners, &Owner::of(pod), pod_owns);
        if owners != before {
            let mut changed = claim.clone();
            changed.metadata.owner_references = Some(owners);
            plan.update(changed);
        }
    }
}

/// Adds or removes `owner` as controller. Another controller is kept.
fn own(owners: &mut Vec<OwnerReference>, owner: &Owner, owns: bool) {
    let present = owners.iter().any(|reference| reference.uid == owner.uid);
    if owns && !present && owners.iter().all(|reference| reference.controller != Some(true)) {
        owners.push(owner.controller_reference());
    } else if !owns {
        owners.retain(|reference| reference.uid != owner.uid);
    }
}
