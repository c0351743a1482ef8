//! The decision about one StatefulSet.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;

use super::scene::{Scene, Version, View, delete, is_healthy};
use super::{claims, identity, status, update};
use crate::Kind;
use crate::workloads::claims::claim;
use crate::workloads::hash::template_hash;
use crate::workloads::meta::{self, Owner};
use crate::workloads::plan::{Action, Note, Plan};
use crate::workloads::pods;
use crate::workloads::revisions::{self, Current};
use quantity::Saturating as _;

/// The label with the hash from the revision's name.
const HASH: &str = "controller.kubernetes.io/hash";

/// Decides about one StatefulSet.
pub fn decide(view: &View, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(spec) = &view.set.spec else { return plan };
    let owner = Owner::of(&*view.set);
    if runtime::selector::is_empty(&spec.selector) {
        return plan;
    }
    let owned = claim(
        &mut plan,
        Kind::ControllerRevision,
        &owner,
        &spec.selector,
        &view.revisions,
        |_| true,
    );
    let pods = claim(&mut plan, Kind::Pod, &owner, &spec.selector, &view.pods, |pod| {
        identity::ordinal_of(&owner.name, pod).is_some()
    });
    let Some(versions) = versions(&mut plan, view, spec, &owner, &owned) else {
        return plan;
    };
    let (current, update) = versions;
    let scene = Scene {
        view,
        spec,
        owner,
        current,
        update,
        pods,
        now,
    };
    let status = status::status(&scene);
    if view.set.status.as_ref() != Some(&status) {
        let mut changed = StatefulSet::clone(&view.set);
        changed.status = Some(status.clone());
        plan.update_status(changed);
    }
    if !scene.owner.deleting {
        walk(&mut plan, &scene);
    }
    forget(&mut plan, &scene, &status, &owned);
    let alive = scene.pods.iter().map(AsRef::as_ref);
    plan.wake(pods::next_available(alive, scene.min_ready(), now));
    plan
}

/// The current and the update revision; `None` on a name collision, which increments the collision count.
fn versions(
    plan: &mut Plan,
    view: &View,
    spec: &StatefulSetSpec,
    owner: &Owner,
    owned: &[Arc<ControllerRevision>],
) -> Option<(Version, Version)> {
    let status = view.set.status.clone().unwrap_or_default();
    let name = match revisions::find(owned, &spec.template) {
        Current::Found(revision, number) => {
            if let Some(number) = number {
                let mut moved = ControllerRevision::clone(&revision);
                moved.revision = number;
                plan.update(moved);
            }
            meta::name(&revision.metadata).to_owned()
        }
        // The garbage collector has deleted or orphaned it; a replacement would be deleted as well.
        Current::Missing(_) if owner.deleting => status.update_revision.clone().unwrap_or_default(),
        Current::Missing(number) => {
            let collisions = Some(status.collision_count.unwrap_or_default());
            let hash = template_hash(&revisions::data_of(&spec.template), collisions);
            let revision = revisions::new(owner, &spec.template, number, &hash, HASH, Some(&view.set.metadata));
            let name = meta::name(&revision.metadata).to_owned();
            let taken = |other: &&Arc<ControllerRevision>| meta::name(&other.metadata) == name;
            if view.revisions.iter().any(|other| taken(&other)) {
                let mut changed = StatefulSet::clone(&view.set);
                let status = changed.status.get_or_insert_default();
                status.collision_count.get_or_insert_default().raise(1);
                plan.update_status(changed);
                return None;
            }
            plan.create(revision);
            name
        }
    };
    let update = Version {
        name,
        template: spec.template.clone(),
    };
    let before = status.current_revision.unwrap_or_default();
    let current = owned
        .iter()
        .find(|revision| meta::name(&revision.metadata) == before)
        .and_then(|revision| revisions::template_of(revision))
        .map(|template| Version { name: before, template });
    Some((current.unwrap_or_else(|| update.clone()), update))
}

/// Deletes unused revisions beyond the history limit.
fn forget(plan: &mut Plan, scene: &Scene<'_>, status: &StatefulSetStatus, owned: &[Arc<ControllerRevision>]) {
    let live = |revision: &ControllerRevision| {
        let name = Some(meta::name(&revision.metadata));
        name == status.current_revision.as_deref()
            || name == status.update_revision.as_deref()
            || name == Some(&scene.current.name)
            || scene.pods.iter().any(|pod| Some(identity::revision_of(pod)) == name)
    };
    revisions::clean_up(plan, owned, scene.spec.revision_history_limit.unwrap_or(10), live);
}

/// Processes the desired pods in ascending order, then the surplus pods in descending order, then the update.
/// In an ordered set the first pod that is not ready ends the pass.
fn walk(plan: &mut Plan, scene: &Scene<'_>) {
    let last = scene.start().saturating_add(scene.replicas());
    let by_ordinal: BTreeMap<i32, &Arc<Pod>> = scene
        .pods
        .iter()
        .filter_map(|pod| Some((identity::ordinal_of(&scene.owner.name, pod)?, pod)))
        .collect();
    let wanted = scene.start()..last;
    let condemned: Vec<(i32, &Arc<Pod>)> = by_ordinal
        .iter()
        .rev()
        .filter(|(ordinal, _)| !wanted.contains(ordinal))
        .map(|(ordinal, pod)| (*ordinal, *pod))
        .collect();
    for ordinal in wanted.clone() {
        if visit(plan, scene, ordinal, by_ordinal.get(&ordinal).copied()) == Next::Wait {
            return;
        }
    }
    for (ordinal, pod) in &condemned {
        claims::retain(plan, scene, pod, *ordinal, true);
    }
    let missing = |ordinal: i32| by_ordinal.get(&ordinal).is_none_or(|pod| !is_healthy(pod));
    let first_unhealthy = wanted.clone().find(|ordinal| missing(*ordinal)).or_else(|| {
        condemned
            .iter()
            .rev()
            .find(|(_, pod)| !is_healthy(pod))
            .map(|(ordinal, _)| *ordinal)
    });
    for (ordinal, pod) in &condemned {
        if condemn(plan, scene, *ordinal, pod, first_unhealthy) == Next::Wait {
            return;
        }
    }
    let staying: BTreeMap<i32, Arc<Pod>> = by_ordinal
        .into_iter()
        .filter(|(ordinal, _)| wanted.contains(ordinal))
        .map(|(ordinal, pod)| (ordinal, Arc::clone(pod)))
        .collect();
    update::roll(plan, scene, &staying);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    Wait,
}

fn visit(plan: &mut Plan, scene: &Scene<'_>, ordinal: i32, pod: Option<&Arc<Pod>>) -> Next {
    let stop_if = |condition: bool| if condition { Next::Wait } else { Next::GoOn };
    let Some(pod) = pod else {
        if !claims::ensure(plan, scene, ordinal) {
            return Next::Wait;
        }
        create(plan, scene, ordinal);
        return stop_if(scene.is_ordered());
    };
    if pods::is_terminal(pod) {
        // The pod is deleted first, because its replacement needs the name.
        if !meta::is_deleting(&pod.metadata) {
            delete(plan, scene, pod);
        }
        return Next::Wait;
    }
    if pods::phase(pod) == "Pending" {
        claims::ensure(plan, scene, ordinal);
    }
    if scene.is_ordered() && !scene.is_settled(pod) {
        return Next::Wait;
    }
    if !identity::has_identity(pod, scene.spec, &scene.owner.name, ordinal) {
        let mut changed = Pod::clone(pod);
        identity::set_identity(&mut changed, scene.spec, &scene.owner.name, ordinal);
        plan.update(changed);
    }
    claims::retain(plan, scene, pod, ordinal, false);
    Next::GoOn
}

fn create(plan: &mut Plan, scene: &Scene<'_>, ordinal: i32) {
    let version = version_of(scene, ordinal);
    let pod = identity::new(&scene.view.set, scene.spec, &version.template, &version.name, ordinal);
    let message = format!(
        "Create Pod {} in StatefulSet {} successful",
        meta::name(&pod.metadata),
        scene.owner.name
    );
    plan.actions.push(Action::Create {
        object: pod.into(),
        note: Some(Note::normal("SuccessfulCreate", message)),
    });
}

/// The revision for a new pod of this ordinal.
fn version_of<'a>(scene: &'a Scene<'_>, ordinal: i32) -> &'a Version {
    if update::keeps_old(scene, ordinal) {
        &scene.current
    } else {
        &scene.update
    }
}

/// Deletes a surplus pod. An ordered set first waits until the pod's predecessors are healthy, unless the pod
/// itself is the unhealthy one.
fn condemn(plan: &mut Plan, scene: &Scene<'_>, ordinal: i32, pod: &Pod, first_unhealthy: Option<i32>) -> Next {
    let ordered = scene.is_ordered();
    if meta::is_deleting(&pod.metadata) {
        return if ordered { Next::Wait } else { Next::GoOn };
    }
    if ordered && !scene.is_available(pod) && first_unhealthy != Some(ordinal) {
        return Next::Wait;
    }
    delete(plan, scene, pod);
    if ordered { Next::Wait } else { Next::GoOn }
}
