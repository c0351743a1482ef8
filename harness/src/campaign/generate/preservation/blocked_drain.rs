//! A machine that fails and is preserved while a budget blocks its drain, and an interruption of the drain: a rollout,
//! a scale-down, the deletion of its Node or VM, or the withdrawal of the request; or a rollout that is in progress
//! when it fails.
//!
//! Other user actions start afterwards, because only one machine at a time fails by its health timeout.

use clock::Stream;
use scenario::step::deferred_target::UserAction;
use scenario::step::{KubeletAction, VmAction};
use serde_json::{Value, json};

use super::super::rollout::CLASSES;
use super::pool::Pool;
use super::{MINUTE, SETTLED, UserActions, deferred, index, request};

/// The health timeout in seconds.
const HEALTH: u64 = 10 * MINUTE;
/// Maximum time from the failure to the interruption: less than the shortest drain timeout.
const DRAINED: u64 = 4 * MINUTE;
/// How long the deployment has no replicas.
const SMALL: u64 = 10 * MINUTE;

/// The interruption of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    /// A rollout of its deployment.
    Rollout,
    /// Its deployment or set has no replicas for some time.
    ScaleDown,
    /// A user deletes its Node.
    NodeGone,
    /// Its VM is deleted in the cloud.
    VmGone,
    /// A user removes the request.
    Removed,
    /// A user sets the request to `false`.
    Refused,
    /// A rollout is in progress when it fails.
    UnderWay,
}

/// A machine whose drain is blocked.
#[derive(Debug)]
pub(super) struct BlockedDrain {
    /// The second at which it becomes unhealthy.
    unhealthy_at: u64,
    interruption: Interruption,
}

impl BlockedDrain {
    pub(super) fn draw(stream: &mut Stream) -> Self {
        let unhealthy_at = SETTLED + stream.below(2 * MINUTE);
        let interruption = match stream.below(10) {
            0 | 1 => Interruption::Rollout,
            2 | 3 => Interruption::ScaleDown,
            4 => Interruption::NodeGone,
            5 => Interruption::VmGone,
            6 => Interruption::Removed,
            7 => Interruption::Refused,
            _ => Interruption::UnderWay,
        };
        Self {
            unhealthy_at,
            interruption,
        }
    }

    /// Replaces rollouts by a scale-down.
    pub(super) fn without_rollouts(self) -> Self {
        match self.interruption {
            Interruption::Rollout | Interruption::UnderWay => Self {
                interruption: Interruption::ScaleDown,
                ..self
            },
            _ => self,
        }
    }

    /// The second after which other user actions may start.
    pub(super) fn over(&self) -> u64 {
        self.unhealthy_at + HEALTH + DRAINED + SMALL
    }

    /// The required strategy of its deployment, if any: all machines at once, or one by one, so that the drains of
    /// other machines delay the rollout.
    pub(super) fn strategy(&self) -> Option<Value> {
        match self.interruption {
            Interruption::Rollout => Some(json!({ "type": "Recreate" })),
            Interruption::UnderWay => {
                let one_by_one = json!({ "maxSurge": 1, "maxUnavailable": 0 });
                Some(json!({ "type": "RollingUpdate", "rollingUpdate": one_by_one }))
            }
            _ => None,
        }
    }

    /// The user actions, for an owner with that number of replicas.
    pub(super) fn user_actions(&self, replicas: u64, pool: &Pool, stream: &mut Stream) -> UserActions {
        let (nth, node) = (stream.below(8), stream.chance(0.5));
        let blocked = |user_action: UserAction| deferred("held", nth, user_action);
        let value = match self.interruption {
            Interruption::UnderWay => "now",
            _ => "when-failed",
        };
        let then = self.unhealthy_at + HEALTH + 20 + stream.below(DRAINED - 20);
        let class = CLASSES[1 + index(stream.below(2))];
        let rollout = pool.spec(json!({ "template": { "spec": { "class": { "name": class } } } }));
        let scale = |replicas: u64| pool.spec(json!({ "replicas": replicas }));
        let mut user_actions = vec![
            (
                self.unhealthy_at - 1 - stream.below(MINUTE),
                blocked(request(node, Some(value))),
            ),
            (self.unhealthy_at, blocked(UserAction::Kubelet(KubeletAction::FillDisk))),
        ];
        user_actions.extend(match self.interruption {
            Interruption::Rollout => vec![(then, rollout)],
            Interruption::ScaleDown => vec![(then, scale(0)), (then + SMALL, scale(replicas))],
            Interruption::NodeGone => vec![(then, blocked(UserAction::DeleteNode))],
            Interruption::VmGone => vec![(then, blocked(UserAction::Vm(VmAction::Delete)))],
            Interruption::Removed => vec![(then, blocked(request(node, None)))],
            Interruption::Refused => vec![(then, blocked(request(node, Some("false"))))],
            Interruption::UnderWay => vec![(self.unhealthy_at + HEALTH - 1 - stream.below(MINUTE), rollout)],
        });
        user_actions
    }
}
