//! What becomes of single machines, and what people do about them: requests, in today's word and the first version's, ends
//! that are moved or removed, cordons, deletions; and cluster-autoscaler, which names some.

use std::time::Duration;

use clock::Stream;
use mcm_api::GoDuration;
use scenario::builder::seconds;
use scenario::step::deferred_target::{Request, UserAction};
use scenario::step::{KubeletAction, VmAction};
use serde_json::json;

use super::pool::Pool;
use super::{MINUTE, SETTLED, UserActions, request, someone};

/// For how long machines are kept at least when people change that.
const LEAST: u64 = 10 * MINUTE;

/// What becomes of one machine, and what people do about it.
pub(super) fn story(machine: u64, (from, span): (u64, u64), kept: u64, users: &mut Stream) -> UserActions {
    let called = format!("machine-{machine}");
    let nth = users.below(8);
    let someone = |user_action: UserAction| someone(&called, nth, user_action);
    let mut at = from + users.below(span - from);
    let mut user_actions = UserActions::new();
    if users.chance(0.2) && from == SETTLED {
        return young(users)
            .map(|(at, user_action)| (at, someone(user_action)))
            .collect();
    }
    let mut then = |at: u64, user_action: UserAction| {
        if at < span {
            user_actions.push((at, someone(user_action)));
        }
    };
    let mut asked = None;
    if users.chance(0.5) {
        let first = ask(users);
        then(at.saturating_sub(1 + users.below(4 * MINUTE)), first.clone());
        asked = Some(first);
    }
    // It fails, and recovers, up to three times.
    for _ in 0..users.below(4) {
        let (fails, recovers) = failure(users);
        then(at, fails);
        if users.chance(0.3) {
            at += users.below(20 * MINUTE);
            then(at, ask(users));
        }
        let Some(recovers) = recovers.filter(|_| users.chance(0.7)) else {
            break;
        };
        let away = MINUTE + users.below(40 * MINUTE);
        if let Some(asked) = asked.take().filter(|_| users.chance(0.3)) {
            then(at + users.below(away), taken_back(&asked, users));
        }
        at += away;
        then(at, recovers);
        at += MINUTE + users.below(10 * MINUTE);
    }
    if users.chance(0.5) {
        at += MINUTE + users.below(30 * MINUTE);
        let last = match users.below(13) {
            0..=3 => ask(users),
            4..=6 => expiry(kept, users),
            7 => UserAction::Cordon,
            8 => UserAction::Delete,
            9 | 10 => UserAction::DeleteNode,
            11 => UserAction::Vm(VmAction::Delete),
            _ => UserAction::Uncordon,
        };
        let cordoned = last == UserAction::Cordon;
        then(at, last);
        if cordoned && users.chance(0.5) {
            then(at + MINUTE + users.below(30 * MINUTE), UserAction::Uncordon);
        }
    }
    user_actions
}

/// What becomes of a machine that is asked for as soon as it is made: many of them never join.
fn young(users: &mut Stream) -> impl Iterator<Item = (u64, UserAction)> + use<> {
    let asked = 1 + users.below(30);
    let value = if users.chance(0.5) { "now" } else { "when-failed" };
    let request = request(false, Some(value));
    let dies = users
        .chance(0.6)
        .then(|| (1 + users.below(30), UserAction::Vm(VmAction::Kill)));
    [(asked, request)].into_iter().chain(dies)
}

/// A request of any kind, those that ask for something more often than others.
fn ask(users: &mut Stream) -> UserAction {
    let value = match users.below(12) {
        0..=2 => Some("now"),
        3..=5 => Some("when-failed"),
        6 | 7 => Some("false"),
        8 => None,
        9 => Some("perhaps"),
        // In the word of the proposal's first version.
        10 => return first_word(users.chance(0.6), "true"),
        _ => return first_word(users.chance(0.6), "false"),
    };
    request(users.chance(0.6), value)
}

fn first_word(node: bool, value: &str) -> UserAction {
    UserAction::Preserve(Request {
        node,
        first_version: true,
        value: Some(value.to_owned()),
    })
}

/// Who asked thinks better of it, in the same word.
fn taken_back(asked: &UserAction, users: &mut Stream) -> UserAction {
    let UserAction::Preserve(asked) = asked else {
        return asked.clone();
    };
    UserAction::Preserve(Request {
        value: users.chance(0.5).then(|| "false".to_owned()),
        ..asked.clone()
    })
}

/// An operator edits the end of a preservation: it is moved ahead, or into the past, or removed.
fn expiry(kept: u64, users: &mut Stream) -> UserAction {
    match users.below(4) {
        0 => UserAction::ExpireAgo(seconds(users.below(kept))),
        1 => UserAction::RemoveExpiry,
        _ => UserAction::Expire(seconds(MINUTE + users.below(kept))),
    }
}

/// How a machine fails, and how it recovers, if it can.
pub(super) fn failure(users: &mut Stream) -> (UserAction, Option<UserAction>) {
    match users.below(6) {
        0 => (UserAction::Vm(VmAction::Kill), None),
        1 => (UserAction::Vm(VmAction::Stop), Some(UserAction::Vm(VmAction::Start))),
        2 | 3 => (
            UserAction::Kubelet(KubeletAction::FillDisk),
            Some(UserAction::Kubelet(KubeletAction::FreeDisk)),
        ),
        _ => (
            UserAction::Kubelet(KubeletAction::Stop),
            Some(UserAction::Kubelet(KubeletAction::Start)),
        ),
    }
}

/// Somebody keeps a machine that runs, and an operator ends that soon.
pub(super) fn ended_by_hand((from, span): (u64, u64), operators: &mut Stream) -> UserActions {
    let (nth, node) = (operators.below(8), operators.chance(0.5));
    let at = from + operators.below(span - from);
    let then = at + MINUTE + operators.below(20 * MINUTE);
    let ends = if operators.chance(0.5) {
        UserAction::RemoveExpiry
    } else {
        UserAction::ExpireAgo(seconds(operators.below(MINUTE)))
    };
    let user_actions = [(at, request(node, Some("now"))), (then, ends)];
    let user_actions = user_actions.into_iter().filter(|(at, _)| *at < span);
    user_actions
        .map(|(at, user_action)| (at, someone("soon-over", nth, user_action)))
        .collect()
}

/// For how long machines are kept is changed, for one machine, or in the template for all. Never for longer than at first.
pub(super) fn patience((from, span): (u64, u64), kept: u64, pool: &Pool, operators: &mut Stream) -> UserActions {
    let edit = |number: u64| {
        let at = from + operators.below(span - from);
        let time = LEAST + operators.below(kept - LEAST);
        let step = if operators.chance(0.5) {
            let called = format!("patience-{number}");
            someone(&called, operators.below(8), UserAction::PreserveTimeout(seconds(time)))
        } else {
            let time = GoDuration(Duration::from_secs(time)).to_string();
            pool.spec(json!({ "template": { "spec": { "machinePreserveTimeout": time } } }))
        };
        (at, step)
    };
    (0..2).map(edit).collect()
}

/// cluster-autoscaler names a machine and lowers the number: any of them, one of which there is a story, or one that
/// somebody has just asked to keep.
pub(super) fn autoscaler((from, span): (u64, u64), scaler: &mut Stream) -> UserActions {
    let mut user_actions = UserActions::new();
    for number in 0..1 + scaler.below(2) {
        let at = from + scaler.below(span - from);
        let nth = scaler.below(8);
        let called = match scaler.below(3) {
            0 => format!("machine-{}", scaler.below(2)),
            _ => format!("chosen-{number}"),
        };
        if scaler.chance(0.4) {
            let asked = at.saturating_sub(5 + scaler.below(5 * MINUTE)).max(from);
            user_actions.push((asked, someone(&called, nth, request(scaler.chance(0.6), Some("now")))));
        }
        user_actions.push((at, someone(&called, nth, UserAction::ScaleDown)));
    }
    user_actions
}
