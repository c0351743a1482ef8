//! Failures of single machines and user actions on them: requests with the current annotation and with the one of the
//! first version, changes of expiries, cordons and deletions; and scale-downs by cluster-autoscaler.

use std::time::Duration;

use clock::Stream;
use mcm_api::GoDuration;
use scenario::builder::seconds;
use scenario::step::deferred_target::{Request, UserAction};
use scenario::step::{KubeletAction, VmAction};
use serde_json::json;

use super::pool::Pool;
use super::{MINUTE, SETTLED, UserActions, deferred, request};

/// Minimum of a preserve timeout that a user sets, in seconds.
const LEAST: u64 = 10 * MINUTE;

/// The failures of one machine and the user actions on it.
pub(super) fn story(machine: u64, (from, span): (u64, u64), kept: u64, users: &mut Stream) -> UserActions {
    let called = format!("machine-{machine}");
    let nth = users.below(8);
    let deferred = |user_action: UserAction| deferred(&called, nth, user_action);
    let mut at = from + users.below(span - from);
    let mut user_actions = UserActions::new();
    if users.chance(0.2) && from == SETTLED {
        return new_machine(users)
            .map(|(at, user_action)| (at, deferred(user_action)))
            .collect();
    }
    let mut then = |at: u64, user_action: UserAction| {
        if at < span {
            user_actions.push((at, deferred(user_action)));
        }
    };
    let mut requested = None;
    if users.chance(0.5) {
        let first = any_request(users);
        then(at.saturating_sub(1 + users.below(4 * MINUTE)), first.clone());
        requested = Some(first);
    }
    // It fails and recovers up to three times.
    for _ in 0..users.below(4) {
        let (fails, recovers) = failure(users);
        then(at, fails);
        if users.chance(0.3) {
            at += users.below(20 * MINUTE);
            then(at, any_request(users));
        }
        let Some(recovers) = recovers.filter(|_| users.chance(0.7)) else {
            break;
        };
        let outage = MINUTE + users.below(40 * MINUTE);
        if let Some(requested) = requested.take().filter(|_| users.chance(0.3)) {
            then(at + users.below(outage), withdrawal(&requested, users));
        }
        at += outage;
        then(at, recovers);
        at += MINUTE + users.below(10 * MINUTE);
    }
    if users.chance(0.5) {
        at += MINUTE + users.below(30 * MINUTE);
        let last = match users.below(13) {
            0..=3 => any_request(users),
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

/// A request for a new machine, which often never joins.
fn new_machine(users: &mut Stream) -> impl Iterator<Item = (u64, UserAction)> + use<> {
    let at = 1 + users.below(30);
    let value = if users.chance(0.5) { "now" } else { "when-failed" };
    let request = request(false, Some(value));
    let dies = users
        .chance(0.6)
        .then(|| (1 + users.below(30), UserAction::Vm(VmAction::Kill)));
    [(at, request)].into_iter().chain(dies)
}

/// A request of any kind. Requests for preservation are more frequent than others.
fn any_request(users: &mut Stream) -> UserAction {
    let value = match users.below(12) {
        0..=2 => Some("now"),
        3..=5 => Some("when-failed"),
        6 | 7 => Some("false"),
        8 => None,
        9 => Some("perhaps"),
        // The annotation of the proposal's first version.
        10 => return request_of_first_version(users.chance(0.6), "true"),
        _ => return request_of_first_version(users.chance(0.6), "false"),
    };
    request(users.chance(0.6), value)
}

fn request_of_first_version(node: bool, value: &str) -> UserAction {
    UserAction::Preserve(Request {
        node,
        first_version: true,
        value: Some(value.to_owned()),
    })
}

/// Withdraws a request, with the same annotation.
fn withdrawal(requested: &UserAction, users: &mut Stream) -> UserAction {
    let UserAction::Preserve(requested) = requested else {
        return requested.clone();
    };
    UserAction::Preserve(Request {
        value: users.chance(0.5).then(|| "false".to_owned()),
        ..requested.clone()
    })
}

/// An operator edits the expiry of a preservation: moves it into the future or the past, or removes it.
fn expiry(kept: u64, users: &mut Stream) -> UserAction {
    match users.below(4) {
        0 => UserAction::ExpireAgo(seconds(users.below(kept))),
        1 => UserAction::RemoveExpiry,
        _ => UserAction::Expire(seconds(MINUTE + users.below(kept))),
    }
}

/// A failure of a machine, and its recovery if there is one.
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

/// A user requests the preservation of a running machine, and an operator ends it soon.
pub(super) fn ended_by_operator((from, span): (u64, u64), operators: &mut Stream) -> UserActions {
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
        .map(|(at, user_action)| (at, deferred("soon-over", nth, user_action)))
        .collect()
}

/// Changes of the preserve timeout, of one machine or in the template. It never exceeds the initial one.
pub(super) fn timeout_changes((from, span): (u64, u64), kept: u64, pool: &Pool, operators: &mut Stream) -> UserActions {
    let edit = |number: u64| {
        let at = from + operators.below(span - from);
        let time = LEAST + operators.below(kept - LEAST);
        let step = if operators.chance(0.5) {
            let called = format!("patience-{number}");
            deferred(&called, operators.below(8), UserAction::PreserveTimeout(seconds(time)))
        } else {
            let time = GoDuration(Duration::from_secs(time)).to_string();
            pool.spec(json!({ "template": { "spec": { "machinePreserveTimeout": time } } }))
        };
        (at, step)
    };
    (0..2).map(edit).collect()
}

/// cluster-autoscaler lists a machine and lowers the replicas: any machine, one with other user actions, or one whose
/// preservation a user has just requested.
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
            let requested = at.saturating_sub(5 + scaler.below(5 * MINUTE)).max(from);
            user_actions.push((
                requested,
                deferred(&called, nth, request(scaler.chance(0.6), Some("now"))),
            ));
        }
        user_actions.push((at, deferred(&called, nth, UserAction::ScaleDown)));
    }
    user_actions
}
