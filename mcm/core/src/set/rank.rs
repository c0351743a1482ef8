//! The order in which a set deletes its machines.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use mcm_api::{Machine, Phase, PreservedBy, keys};

/// Whether a machine counts for its set: it is neither being deleted nor Terminating.
pub fn is_active(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_none() && machine.status.current_status.phase != Some(Phase::Terminating)
}

/// Sorts machines, the first candidate for deletion first: not preserved before preserved; lower priority first;
/// machines that the autoscaler marked before others, the earlier mark first; less useful phase first; older first; by
/// name.
///
/// Among preserved machines: automatically before manually preserved, failed before others, earlier expiry first, older
/// first.
pub fn rank(machines: &mut [Arc<Machine>]) {
    machines.sort_by(|a, b| compare(a, b));
}

fn compare(a: &Machine, b: &Machine) -> Ordering {
    let kept = |machine: &Machine| machine.status.is_kept();
    kept(a)
        .cmp(&kept(b))
        .then_with(|| {
            if kept(a) {
                preservation(a).cmp(&preservation(b))
            } else {
                Ordering::Equal
            }
        })
        .then_with(|| priority(a).cmp(&priority(b)))
        .then_with(|| mark(a).cmp(&mark(b)))
        .then_with(|| usefulness(a).cmp(&usefulness(b)))
        .then_with(|| created(a).cmp(&created(b)))
        .then_with(|| a.metadata.name.cmp(&b.metadata.name))
}

/// The sort key of preserved machines: requested by a user, not failed, expiry, creation time.
fn preservation(machine: &Machine) -> (bool, bool, Option<Timestamp>, Option<Timestamp>) {
    let record = machine.status.preservation.as_ref();
    let automatic = record.is_some_and(|record| record.by == PreservedBy::Auto);
    let failed = machine.status.current_status.base() == Some(&Phase::Failed);
    let expiry = machine.status.current_status.preserve_expiry_time.as_ref();
    (!automatic, !failed, expiry.map(|time| time.0), created(machine))
}

/// The machine's priority; the default if there is none or it is no number.
pub(crate) fn priority(machine: &Machine) -> i64 {
    let default = keys::DEFAULT_PRIORITY.parse().unwrap_or(3);
    annotation(machine, keys::PRIORITY_ANNOTATION)
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// The sort key of the autoscaler's mark; unmarked machines come last.
fn mark(machine: &Machine) -> (bool, Option<Timestamp>) {
    let time = marked(machine);
    (time.is_none(), time)
}

/// When the autoscaler marked the machine.
pub(crate) fn marked(machine: &Machine) -> Option<Timestamp> {
    annotation(machine, keys::MARKED_ANNOTATION)?.parse().ok()
}

fn usefulness(machine: &Machine) -> u8 {
    match machine.status.current_status.base() {
        Some(Phase::Terminating) => 0,
        Some(Phase::Failed) => 1,
        Some(Phase::CrashLoopBackOff) => 2,
        // A machine that never joined runs no pods, and neither does one without a phase.
        Some(Phase::Pending) | None => 3,
        Some(Phase::Unknown) => 4,
        Some(Phase::InPlaceUpdateFailed) => 5,
        Some(Phase::Available) => 6,
        Some(Phase::InPlaceUpdating | Phase::InPlaceUpdateSuccessful) => 7,
        Some(Phase::Running | Phase::RunningPreserved | Phase::FailedPreserved | Phase::Other(_)) => 8,
    }
}

fn created(machine: &Machine) -> Option<Timestamp> {
    machine.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

fn annotation<'a>(machine: &'a Machine, key: &str) -> Option<&'a str> {
    machine.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
