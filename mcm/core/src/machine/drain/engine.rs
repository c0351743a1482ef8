//! Evicts the pods of a node: pods without volumes in parallel, pods with volumes sequentially, each once the volumes
//! of the previous pod are detached from the node and attached to another one.

use super::super::pass::Pass;
use super::super::{Action, Answer, Pod};
use super::round::{Drain, Limit, Step};
use super::volumes;

/// The next step of a drain; `pods` are all pods of the machine's Node that must leave.
pub(in super::super) fn step(pass: &Pass, pods: &[Pod], limit: &Limit) -> Step {
    let mut memory = pass.view.drain.clone();
    memory.by_force = None;
    if let Some(Answer::VolumeIds(ids)) = pass.last_answer() {
        memory.volume_ids.extend(ids.clone());
    }
    let there = |uid: &String| pods.iter().any(|pod| pod.uid == *uid);
    // A cache may not show all pods that this drain has evicted.
    if pass.view.pods_listed {
        memory.attempts.retain(|uid, _| there(uid));
        memory.given_up.retain(there);
    }
    let mut drain = Drain {
        pass,
        limit,
        pods,
        step: Step {
            actions: Vec::new(),
            memory,
            waiting: pods.len(),
            wake: limit.left.min(super::dead_in(pass).unwrap_or(limit.left)),
            errors: Vec::new(),
        },
    };
    drain.judge_refusals();
    let ordered = pass.view.node.present().is_some();
    for pod in pods.iter().filter(|pod| !(ordered && pod.moves_volumes())) {
        drain.evict(pod);
    }
    if ordered {
        volumes::move_on(&mut drain);
    } else {
        drain.step.memory.moving = None;
    }
    drain.step.waiting += usize::from(
        drain
            .step
            .memory
            .moving
            .as_ref()
            .is_some_and(|moving| !there(&moving.uid)),
    );
    let mut step = drain.step;
    // A pod may exist although the cache does not show it.
    if step.is_done()
        && !pass.view.pods_listed
        && let Some(node) = pass.node_name()
    {
        step.actions.push(Action::ListPods { node: node.clone() });
    }
    step
}
