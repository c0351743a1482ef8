//! Pods with volumes are evicted sequentially: a volume is attached to one node at a time, and clouds attach and detach
//! slowly.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::super::drain_memory::{EvictionOutcome, MovingPod};
use super::super::{Action, Pod};
use super::round::Drain;

/// The state of the pod whose volumes are moving.
enum MoveState {
    /// The drain waits for it.
    Still(MovingPod),
    /// The next pod may be evicted.
    Over,
    /// Its volumes did not detach in time; the status reports that before the next pod is evicted.
    Late,
}

/// Continues with the moving pod, or evicts the next one.
pub(super) fn move_on(drain: &mut Drain) {
    let order = in_order(drain.pods);
    if drain.step.memory.moving.is_none() && adopt(drain, &order) == Adopted::WaitsForDriver {
        return;
    }
    if let Some(moving) = drain.step.memory.moving.take() {
        match wait_for(drain, moving, &order) {
            MoveState::Still(moving) => {
                drain.step.memory.moving = Some(moving);
                return;
            }
            MoveState::Late => return,
            MoveState::Over => {}
        }
    }
    for pod in &order {
        let attempted = pod.ends.is_some() || !drain.left_to_retry(pod).is_zero();
        let given_up = drain.step.memory.given_up.contains(&pod.uid);
        if attempted && !given_up {
            drain.evict(pod);
        }
        if attempted {
            continue;
        }
        let Some(volumes) = volumes_of(drain, pod, &order) else {
            return;
        };
        if drain.evict(pod) {
            drain.begin(pod, volumes);
            return;
        }
    }
}

/// The pods that move volumes: those of the highest priority first, then by name.
fn in_order(pods: &[Pod]) -> Vec<&Pod> {
    let mut order: Vec<&Pod> = pods.iter().filter(|pod| pod.moves_volumes()).collect();
    order.sort_by_key(|pod| (Reverse(pod.priority), &pod.namespace, &pod.name));
    order
}

#[derive(PartialEq, Eq)]
enum Adopted {
    WaitsForDriver,
    OneOrNone,
}

/// A pod that is already terminating comes first, whatever caused that: its volumes are moving.
fn adopt(drain: &mut Drain, order: &[&Pod]) -> Adopted {
    let given_up = &drain.step.memory.given_up;
    let terminating = order
        .iter()
        .find(|pod| pod.ends.is_some() && !given_up.contains(&pod.uid));
    let Some(pod) = terminating else {
        return Adopted::OneOrNone;
    };
    let Some(volumes) = volumes_of(drain, pod, order) else {
        return Adopted::WaitsForDriver;
    };
    drain.begin(pod, volumes);
    Adopted::OneOrNone
}

fn wait_for(drain: &mut Drain, moving: MovingPod, order: &[&Pod]) -> MoveState {
    let settings = drain.pass.settings;
    let pod = order.iter().find(|pod| pod.uid == moving.uid);
    if let Some(pod) = pod.filter(|pod| pod.ends.is_none()) {
        return not_terminating(drain, moving, pod);
    }
    if pod.is_some() || is_attached(drain, &moving) {
        let left = drain.left(moving.since, moving.grace.saturating_add(settings.detach_timeout));
        if !left.is_zero() {
            drain.wake(left);
            return MoveState::Still(moving);
        }
        drain.step.memory.given_up.insert(moving.uid);
        drain
            .step
            .errors
            .push("timeout while waiting for PVs to detach from node".to_owned());
        drain.wake(settings.retry.short);
        return MoveState::Late;
    }
    let detached = moving.detached.unwrap_or(drain.pass.now);
    let elsewhere = &drain.pass.view.attached_elsewhere;
    let left = drain.left(detached, settings.reattach_timeout);
    if left.is_zero() || moving.volumes.keys().all(|volume| elsewhere.contains(volume)) {
        return MoveState::Over;
    }
    drain.wake(left);
    MoveState::Still(MovingPod {
        detached: Some(detached),
        ..moving
    })
}

/// The eviction was requested, and the pod is not observed as terminating yet.
fn not_terminating(drain: &mut Drain, moving: MovingPod, pod: &Pod) -> MoveState {
    let attempt = drain.step.memory.attempts.get(&pod.uid);
    let accepted =
        attempt.is_some_and(|attempt| attempt.last >= moving.since && attempt.outcome == EvictionOutcome::Accepted);
    let left = drain.left_to_retry(pod);
    if !accepted || left.is_zero() {
        return MoveState::Over;
    }
    drain.wake(left);
    MoveState::Still(moving)
}

/// Whether a volume of the pod is still attached to the node.
fn is_attached(drain: &Drain, moving: &MovingPod) -> bool {
    let node = drain.pass.view.node.present();
    let attached = node
        .and_then(|node| node.status.as_ref())
        .and_then(|status| status.volumes_attached.as_ref());
    attached.into_iter().flatten().any(|volume| {
        let mut ids = moving.volumes.values();
        ids.any(|id| volume.name.contains(id.as_str()))
    })
}

/// The cloud volumes that only this pod uses, with the cloud's volume IDs; `None`: the driver must be asked first.
fn volumes_of(drain: &mut Drain, pod: &Pod, order: &[&Pod]) -> Option<BTreeMap<String, String>> {
    let used_by_others = |volume: &String| {
        order
            .iter()
            .any(|other| other.uid != pod.uid && other.volumes.contains(volume))
    };
    let own: Vec<&String> = pod
        .volumes
        .iter()
        .filter(|volume| !used_by_others(volume) && drain.pass.view.volumes.contains_key(*volume))
        .collect();
    let known = &drain.step.memory.volume_ids;
    let unknown: BTreeMap<_, _> = own
        .iter()
        .filter(|volume| !known.contains_key(**volume))
        .filter_map(|volume| Some(((*volume).clone(), drain.pass.view.volumes.get(*volume)?.clone())))
        .collect();
    if unknown.is_empty() {
        let ids = own
            .into_iter()
            .filter_map(|volume| Some((volume.clone(), known.get(volume)?.clone())));
        return Some(ids.filter(|(_, id)| !id.is_empty()).collect());
    }
    drain.step.actions.push(Action::AskVolumeIds(unknown));
    None
}
