//! Failures of machines, alone or together, and user actions on them: annotations that exclude a machine or request its
//! remediation, and requests for preservation.

use std::collections::BTreeMap;

use clock::Stream;
use mcm_api::keys;
use scenario::builder::mcm;
use scenario::step::deferred_target::{Request, UserAction};
use scenario::step::{KubeletAction, ProcessAction, VmAction};
use serde_json::json;

use super::{MINUTE, UserActions, deferred};
use crate::campaign::generate::rollout::{self, CLASSES};

/// Which failures a world has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failures {
    /// Whether a machine may fail for ever: mcm's health timeout replaces it, or its check at the latest in the end.
    pub permanent: bool,
    /// Whether another controller remediates: it does not end a request of a user.
    pub external: bool,
}

/// The failures of one machine and the user actions on it.
pub(super) fn story(machine: u64, failures: Failures, (from, span): (u64, u64), users: &mut Stream) -> UserActions {
    let called = format!("machine-{machine}");
    let nth = users.below(8);
    let mut at = from + users.below(span - from);
    let mut user_actions = UserActions::new();
    let mut then = |at: u64, user_action: UserAction| user_actions.push((at, deferred(&called, nth, user_action)));
    if users.chance(0.15) {
        let value = if users.chance(0.5) { "now" } else { "when-failed" };
        then(
            at.saturating_sub(1 + users.below(4 * MINUTE)),
            preserve(users.chance(0.5), value),
        );
    }
    if users.chance(0.25) {
        annotated(at.saturating_sub(users.below(2 * MINUTE)), EXCLUSIONS, users, &mut then);
    }
    for _ in 0..users.below(4) {
        let (fails, recovers) = failure(failures, users);
        then(at, fails);
        let Some(recovers) = recovers.filter(|_| !failures.permanent || users.chance(0.7)) else {
            break;
        };
        at += 10 + users.below(20 * MINUTE);
        then(at, recovers);
        at += MINUTE + users.below(10 * MINUTE);
    }
    if users.chance(0.25) {
        annotated(at, REQUESTS, users, &mut then);
        if !failures.external && users.chance(0.5) {
            // The user does not withdraw the request.
            user_actions.pop();
        }
    }
    user_actions
}

/// Several machines fail within a minute and recover one after the other.
pub(super) fn wave(replicas: u64, failures: Failures, (from, span): (u64, u64), waves: &mut Stream) -> UserActions {
    let first = from + waves.below(span - from);
    let lasts = 30 + waves.below(20 * MINUTE);
    let mut user_actions = UserActions::new();
    for machine in 0..1 + waves.below(replicas) {
        let called = format!("wave-{machine}");
        let nth = waves.below(8);
        let (fails, recovers) = failure(failures, waves);
        user_actions.push((first + waves.below(MINUTE), deferred(&called, nth, fails)));
        if let Some(recovers) = recovers {
            let at = first + MINUTE + lasts + waves.below(4 * MINUTE);
            user_actions.push((at, deferred(&called, nth, recovers)));
        }
    }
    user_actions
}

/// A user requests the remediation of machines shortly before or after the template of their deployment has changed.
pub(super) fn during_rollout(failures: Failures, (from, span): (u64, u64), stream: &mut Stream) -> UserActions {
    let at = from + stream.below(span - from);
    let class = CLASSES[1 + usize::from(stream.chance(0.5))];
    let change = json!({ "template": { "spec": { "class": { "name": class } } } });
    let mut user_actions = vec![(at, rollout::spec(change))];
    for machine in 0..1 + stream.below(4) {
        let called = format!("rolled-{machine}");
        let nth = stream.below(8);
        let mut then = |at: u64, user_action: UserAction| user_actions.push((at, deferred(&called, nth, user_action)));
        annotated((at + stream.below(30)).saturating_sub(10), REQUESTS, stream, &mut then);
        if !failures.external {
            // The user does not withdraw the request.
            user_actions.pop();
        }
    }
    user_actions
}

/// A user deletes the Node of a machine while mcm is down. mcm then starts without having observed the deletion: the
/// check has to request the replacement, or mcm's health timeout.
pub(super) fn while_mcm_is_down(failures: Failures, (from, span): (u64, u64), stream: &mut Stream) -> UserActions {
    let at = from + stream.below(span - from);
    let lasts = 2 + stream.below(4 * MINUTE);
    let nth = stream.below(8);
    let on_machine = |user_action: UserAction| deferred("while-down", nth, user_action);
    let mut user_actions = vec![
        (at, mcm(ProcessAction::Kill)),
        (at + 1 + stream.below(lasts - 1), on_machine(UserAction::DeleteNode)),
        (at + lasts, mcm(ProcessAction::Start)),
    ];
    if !failures.permanent || stream.chance(0.5) {
        let recovers = at + lasts + stream.below(10 * MINUTE);
        user_actions.push((recovers, on_machine(UserAction::Vm(VmAction::Reboot))));
    }
    user_actions
}

/// A failure of a machine, and its recovery if there is one.
fn failure(failures: Failures, users: &mut Stream) -> (UserAction, Option<UserAction>) {
    let kubelet = |fails, recovers| (UserAction::Kubelet(fails), Some(UserAction::Kubelet(recovers)));
    match users.below(12) {
        0 if failures.permanent => (UserAction::Vm(VmAction::Kill), None),
        1 if failures.permanent => (UserAction::DeleteNode, None),
        // The kubelet registers its Node again when it starts.
        10 | 11 => (UserAction::DeleteNode, Some(UserAction::Vm(VmAction::Reboot))),
        2 => (UserAction::Vm(VmAction::Stop), Some(UserAction::Vm(VmAction::Start))),
        3 | 4 => kubelet(KubeletAction::FillDisk, KubeletAction::FreeDisk),
        5..=7 => kubelet(KubeletAction::Stop, KubeletAction::Start),
        _ => kubelet(KubeletAction::Partition, KubeletAction::Reconnect),
    }
}

const EXCLUSIONS: &[&str] = &[
    keys::SKIP_REMEDIATION_ANNOTATION,
    keys::PAUSED_ANNOTATION,
    keys::CAPI_SKIP_REMEDIATION_ANNOTATION,
    keys::CAPI_PAUSED_ANNOTATION,
];
const REQUESTS: &[&str] = &[
    keys::REMEDIATE_MACHINE_ANNOTATION,
    keys::CAPI_REMEDIATE_MACHINE_ANNOTATION,
];

/// Sets one of the annotations, and later removes it or sets it to `false`.
fn annotated(at: u64, keys: &[&str], users: &mut Stream, then: &mut impl FnMut(u64, UserAction)) {
    let key = keys[usize::try_from(users.below(keys.len() as u64)).unwrap_or_default()];
    let value = match users.below(5) {
        0 => "",
        1 => "false",
        _ => "true",
    };
    let annotate =
        |value: Option<&str>| UserAction::Annotate(BTreeMap::from([(key.to_owned(), value.map(str::to_owned))]));
    then(at, annotate(Some(value)));
    let end = at + MINUTE + users.below(20 * MINUTE);
    then(end, annotate(users.chance(0.5).then_some("false")));
}

fn preserve(node: bool, value: &str) -> UserAction {
    UserAction::Preserve(Request {
        node,
        value: Some(value.to_owned()),
        ..Request::default()
    })
}
