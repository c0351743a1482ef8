//! The decision about one DaemonSet.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::Pod;

use super::eligible::{Eligibility, eligibility};
use super::pod::{self, HASH};
use super::scene::{Changes, Scene, View, oldest_first};
use super::{status, update};
use crate::Kind;
use crate::workloads::claims::claim;
use crate::workloads::hash::template_hash;
use crate::workloads::meta::{self, Owner};
use crate::workloads::plan::{Note, Plan};
use crate::workloads::pods;
use crate::workloads::revisions::{self, Current};
use quantity::Saturating as _;

/// The maximum number of creations and of deletions per pass.
const BURST: usize = 250;
/// The result of a decision.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The plan.
    pub plan: Plan,
    /// The nodes whose failed pods the plan replaces.
    pub failed_on: Vec<String>,
}

/// Decides about one DaemonSet.
pub fn decide(view: &View, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let Some(spec) = &view.set.spec else { return decision };
    let owner = Owner::of(&*view.set);
    let plan = &mut decision.plan;
    if runtime::selector::is_empty(&spec.selector) {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        let observed = view.set.status.as_ref().and_then(|status| status.observed_generation);
        if observed < view.set.metadata.generation {
            plan.record(Note::warning("SelectingAll", message));
            let mut changed = DaemonSet::clone(&view.set);
            changed.status.get_or_insert_default().observed_generation = view.set.metadata.generation;
            plan.update_status(changed);
        }
        return decision;
    }
    if owner.deleting {
        return decision;
    }
    let owned = claim(
        plan,
        Kind::ControllerRevision,
        &owner,
        &spec.selector,
        &view.revisions,
        |_| true,
    );
    let Some(hash) = current_hash(plan, view, spec, &owner, &owned) else {
        return decision;
    };
    let mine = claim(plan, Kind::Pod, &owner, &spec.selector, &view.pods, |_| true);
    let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
    // A finished terminating pod no longer occupies its node.
    let present = |pod: &&Arc<Pod>| !(pods::is_terminal(pod) && meta::is_deleting(&pod.metadata));
    for pod in mine.iter().filter(present) {
        if let Some(node) = pod::node_of(pod) {
            by_node.entry(node.to_owned()).or_default().push(Arc::clone(pod));
        }
    }
    let pod_spec = pod::spec_of(&spec.template);
    let nodes = view.nodes.iter().map(|node| {
        let name = meta::name(&node.metadata).to_owned();
        (name, eligibility(&pod_spec, node))
    });
    let scene = Scene {
        set: &view.set,
        spec,
        nodes: nodes.collect(),
        pod_spec,
        hash,
        pods: by_node,
        backoffs: &view.backoffs,
        now,
    };
    let status = status::status(&scene);
    if view.set.status.as_ref() != Some(&status) {
        let mut changed = DaemonSet::clone(&view.set);
        changed.status = Some(status);
        plan.update_status(changed);
    }
    manage(&scene, &mut decision);
    let plan = &mut decision.plan;
    let live = |revision: &ControllerRevision| {
        let hash = meta::label(&revision.metadata, HASH);
        hash == Some(&scene.hash) || mine.iter().any(|pod| meta::label(&pod.metadata, HASH) == hash)
    };
    revisions::clean_up(plan, &owned, spec.revision_history_limit.unwrap_or(10), live);
    let min_ready = spec.min_ready_seconds.unwrap_or_default();
    plan.wake(pods::next_available(mine.iter().map(AsRef::as_ref), min_ready, now));
    decision
}

/// The hash of the current template, from its revision; `None` on a hash collision, which increments the
/// collision count.
fn current_hash(
    plan: &mut Plan,
    view: &View,
    spec: &DaemonSetSpec,
    owner: &Owner,
    owned: &[Arc<ControllerRevision>],
) -> Option<String> {
    match revisions::find(owned, &spec.template) {
        Current::Found(revision, number) => {
            if let Some(number) = number {
                let mut moved = ControllerRevision::clone(&revision);
                moved.revision = number;
                plan.update(moved);
            }
            meta::label(&revision.metadata, HASH).map(str::to_owned)
        }
        Current::Missing(number) => {
            let collisions = view.set.status.as_ref().and_then(|status| status.collision_count);
            let hash = template_hash(&spec.template, collisions);
            let name = format!("{}-{hash}", owner.name);
            if view
                .revisions
                .iter()
                .any(|revision| meta::name(&revision.metadata) == name)
            {
                let mut changed = DaemonSet::clone(&view.set);
                let status = changed.status.get_or_insert_default();
                status.collision_count.get_or_insert_default().raise(1);
                plan.update_status(changed);
                return None;
            }
            let described = Some(&view.set.metadata);
            plan.create(revisions::new(owner, &spec.template, number, &hash, HASH, described));
            Some(hash)
        }
    }
}

/// Creates missing pods and deletes surplus ones; if all nodes are in order, continues the update.
fn manage(scene: &Scene<'_>, decision: &mut Decision) {
    let mut changes = Changes::default();
    for (node, eligibility) in &scene.nodes {
        let pods = scene.on(node);
        match eligibility {
            Eligibility::Wanted if pods.is_empty() => changes.create_on.push(node.clone()),
            Eligibility::Wanted | Eligibility::Kept => keep_one(scene, node, decision, &mut changes),
            Eligibility::Excluded => {
                let staying = pods.iter().filter(|pod| !meta::is_deleting(&pod.metadata));
                changes.delete.extend(staying.cloned());
            }
        }
    }
    // Unscheduled pods whose node was deleted.
    for (node, pods) in &scene.pods {
        if !scene.nodes.contains_key(node) {
            let unbound = pods
                .iter()
                .filter(|pod| pods::node(pod).is_none() && !meta::is_deleting(&pod.metadata));
            changes.delete.extend(unbound.cloned());
        }
    }
    if changes.create_on.is_empty() && changes.delete.is_empty() {
        update::roll(scene, &mut changes);
    }
    let template = &scene.spec.template;
    for node in changes.create_on.iter().take(BURST) {
        let pod = pod::new(scene.set, &scene.pod_spec, template, &scene.hash, node);
        decision.plan.create_pod(pod);
    }
    for pod in changes.delete.iter().take(BURST) {
        decision.plan.delete_pod(pod);
    }
}

/// Deletes finished pods (failed ones after a backoff), and surplus running ones: the oldest stays, during a
/// surge one per template.
fn keep_one(scene: &Scene<'_>, node: &str, decision: &mut Decision, changes: &mut Changes) {
    let mut running = Vec::new();
    for pod in scene.on(node) {
        let name = meta::name(&pod.metadata);
        match pods::phase(pod) {
            _ if meta::is_deleting(&pod.metadata) => {}
            "Failed" => {
                let until = scene.backoffs.get(node).map(|backoff| backoff.until());
                if let Some(until) = until.filter(|until| *until > scene.now) {
                    decision.plan.wake(Some(until));
                    continue;
                }
                let message = format!(
                    "Found failed daemon pod {}/{name} on node {node}, will try to kill it",
                    scene.namespace()
                );
                decision.plan.record(Note::warning("FailedDaemonPod", message));
                decision.failed_on.push(node.to_owned());
                changes.delete.push(Arc::clone(pod));
            }
            "Succeeded" => {
                let message = format!(
                    "Found succeeded daemon pod {}/{name} on node {node}, will try to delete it",
                    scene.namespace()
                );
                decision.plan.record(Note::normal("SucceededDaemonPod", message));
                changes.delete.push(Arc::clone(pod));
            }
            _ => running.push(pod),
        }
    }
    running.sort_by_key(|pod| oldest_first(pod));
    if update::max_surge(scene) == 0 {
        changes.delete.extend(running.into_iter().skip(1).cloned());
        return;
    }
    let (current, old): (Vec<_>, Vec<_>) = running.into_iter().partition(|pod| scene.is_current(pod));
    for surplus in current.iter().skip(1).chain(old.iter().skip(1)) {
        changes.delete.push(Arc::clone(surplus));
    }
    if let (Some(current), Some(old)) = (current.first(), old.first())
        && (!pods::is_ready(old) || scene.is_available(current))
    {
        changes.delete.push(Arc::clone(old));
    }
}
