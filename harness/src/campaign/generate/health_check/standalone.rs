//! A machine without a set that the check selects: it is marked when it fails, and no controller replaces it.

use clock::Stream;
use scenario::Step;
use scenario::builder::apply;
use scenario::step::deferred_target::{DeferredTarget, UserAction};
use scenario::step::{KubeletAction, VmAction};
use serde_json::json;

use super::{MINUTE, UserActions};
use crate::campaign::generate::rollout::CLASSES;

/// The name of the machine and of its Node, and its label `name`: no deferred target and no deployment has it.
pub(super) const SINGLE: &str = "single";

/// A user creates the machine, which fails, and deletes it before the end.
pub(super) fn story((from, span): (u64, u64), stream: &mut Stream) -> UserActions {
    let mut at = from + stream.below(span - from);
    let mut user_actions = vec![(at, create())];
    at += 3 * MINUTE;
    let (fails, recovers) = match stream.below(3) {
        0 => (UserAction::Vm(VmAction::Kill), None),
        1 => (UserAction::DeleteNode, None),
        _ => (
            UserAction::Kubelet(KubeletAction::Stop),
            Some(UserAction::Kubelet(KubeletAction::Start)),
        ),
    };
    user_actions.push((at, acting(fails)));
    // Some are Failed by then, because mcm's own health timeout has ended.
    at += MINUTE + stream.below(20 * MINUTE);
    if let Some(recovers) = recovers.filter(|_| stream.chance(0.5)) {
        user_actions.push((at, acting(recovers)));
        at += MINUTE + stream.below(5 * MINUTE);
    }
    user_actions.push((at, acting(UserAction::Delete)));
    user_actions
}

fn create() -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": SINGLE, "labels": { "name": SINGLE } },
        "spec": { "class": { "kind": "MachineClass", "name": CLASSES[0] }, "drainTimeout": "5m0s" },
    }))
}

/// An action on the machine, which another fault may have prevented or ended.
fn acting(user_action: UserAction) -> Step {
    Step::Deferred(DeferredTarget {
        called: SINGLE.to_owned(),
        among: SINGLE.to_owned(),
        nth: 0,
        user_action,
        may_miss: true,
    })
}
