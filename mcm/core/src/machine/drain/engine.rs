//! The pods of a node leave: those without volumes side by side, those with volumes one after another, each when the
//! volumes of the one before have left the node and have come up elsewhere.

use super::super::pass::Pass;
use super::super::{Action, Answer, Pod};
use super::round::{Drain, Limit, Step};
use super::volumes;

/// The next step for these pods of the machine's Node, which are all that are concerned.
pub(in super::super) fn step(pass: &Pass, pods: &[Pod], limit: &Limit) -> Step {
    let mut memory = pass.view.drain.clone();
    memory.by_force = None;
    if let Some(Answer::VolumeIds(ids)) = pass.last_answer() {
        memory.volume_ids.extend(ids.clone());
    }
    let there = |uid: &String| pods.iter().any(|pod| pod.uid == *uid);
    // A cache may not show yet whom this drain has asked.
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
            wake: limit.left.min(super::dies_in(pass).unwrap_or(limit.left)),
            errors: Vec::new(),
        },
    };
    drain.judge_refusals();
    let ordered = pass.view.node.present().is_some();
    for pod in pods.iter().filter(|pod| !(ordered && pod.moves_volumes())) {
        drain.ask(pod);
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
    // What a cache does not show may be there all the same.
    if step.is_done()
        && !pass.view.pods_listed
        && let Some(node) = pass.node_name()
    {
        step.actions.push(Action::ListPods { node: node.clone() });
    }
    step
}
