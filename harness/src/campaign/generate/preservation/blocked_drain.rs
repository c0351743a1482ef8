//! A machine that fails and is kept while a budget holds up its drain, and what comes between: a rollout, a scale-down, the
//! end of its Node or VM, a person who thinks better of it; or a rollout that is under way when it fails once more.
//!
//! The world waits with its other stories until this one is over: one machine at a time fails by its health timeout.

use clock::Stream;
use scenario::step::deferred_target::UserAction;
use scenario::step::{KubeletAction, VmAction};
use serde_json::{Value, json};

use super::super::rollout::CLASSES;
use super::pool::Pool;
use super::{MINUTE, SETTLED, UserActions, index, request, someone};

/// How long a machine may be unhealthy.
const HEALTH: u64 = 10 * MINUTE;
/// What comes between comes so long after the machine has failed at the latest: less than the shortest drain.
const DRAINED: u64 = 4 * MINUTE;
/// For how long the deployment is as small as may be.
const SMALL: u64 = 10 * MINUTE;

/// What comes between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    /// Its deployment makes it anew, and all others.
    Rollout,
    /// Its deployment wants none for a while.
    ScaleDown,
    /// A person deletes its Node.
    NodeGone,
    /// Its VM is deleted behind everybody's back.
    VmGone,
    /// A person takes the request away.
    Removed,
    /// A person writes `false`.
    Refused,
    /// A rollout is under way when it fails.
    UnderWay,
}

/// One such machine.
#[derive(Debug)]
pub(super) struct BlockedDrain {
    /// When it becomes unhealthy.
    ill: u64,
    interruption: Interruption,
}

impl BlockedDrain {
    pub(super) fn draw(stream: &mut Stream) -> Self {
        let ill = SETTLED + stream.below(2 * MINUTE);
        let interruption = match stream.below(10) {
            0 | 1 => Interruption::Rollout,
            2 | 3 => Interruption::ScaleDown,
            4 => Interruption::NodeGone,
            5 => Interruption::VmGone,
            6 => Interruption::Removed,
            7 => Interruption::Refused,
            _ => Interruption::UnderWay,
        };
        Self { ill, interruption }
    }

    /// The same where nothing is rolled out.
    pub(super) fn without_rollouts(self) -> Self {
        match self.interruption {
            Interruption::Rollout | Interruption::UnderWay => Self {
                interruption: Interruption::ScaleDown,
                ..self
            },
            _ => self,
        }
    }

    /// When the story is over, in seconds.
    pub(super) fn over(&self) -> u64 {
        self.ill + HEALTH + DRAINED + SMALL
    }

    /// How its deployment must roll, if that matters: at once, or one by one, so that the drains of others hold it up.
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

    /// What happens, of so many replicas.
    pub(super) fn user_actions(&self, replicas: u64, pool: &Pool, stream: &mut Stream) -> UserActions {
        let (nth, node) = (stream.below(8), stream.chance(0.5));
        let blocked = |user_action: UserAction| someone("held", nth, user_action);
        let asked = match self.interruption {
            Interruption::UnderWay => "now",
            _ => "when-failed",
        };
        let then = self.ill + HEALTH + 20 + stream.below(DRAINED - 20);
        let class = CLASSES[1 + index(stream.below(2))];
        let rollout = pool.spec(json!({ "template": { "spec": { "class": { "name": class } } } }));
        let scale = |replicas: u64| pool.spec(json!({ "replicas": replicas }));
        let mut user_actions = vec![
            (self.ill - 1 - stream.below(MINUTE), blocked(request(node, Some(asked)))),
            (self.ill, blocked(UserAction::Kubelet(KubeletAction::FillDisk))),
        ];
        user_actions.extend(match self.interruption {
            Interruption::Rollout => vec![(then, rollout)],
            Interruption::ScaleDown => vec![(then, scale(0)), (then + SMALL, scale(replicas))],
            Interruption::NodeGone => vec![(then, blocked(UserAction::DeleteNode))],
            Interruption::VmGone => vec![(then, blocked(UserAction::Vm(VmAction::Delete)))],
            Interruption::Removed => vec![(then, blocked(request(node, None)))],
            Interruption::Refused => vec![(then, blocked(request(node, Some("false"))))],
            Interruption::UnderWay => vec![(self.ill + HEALTH - 1 - stream.below(MINUTE), rollout)],
        });
        user_actions
    }
}
