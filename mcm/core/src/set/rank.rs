//! Which machine of a set goes first.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use mcm_api::{Machine, Phase, PreservedBy, keys};

/// Whether a machine counts as one of its set: it is neither being deleted nor Terminating.
pub fn is_active(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_none() && machine.status.current_status.phase != Some(Phase::Terminating)
}

/// Puts those first that are deleted first: not preserved before preserved; then by priority, the smaller first; those
/// that the autoscaler marked before others, the earlier first; by phase, the less useful first; the older first; at
/// last by name.
///
/// Preserved ones among each other: chosen automatically before manually, failed before others, then the earlier expiry,
/// then the older.
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

/// Whether it was asked for by a person, whether it did not fail, when it ends, and when it was made.
fn preservation(machine: &Machine) -> (bool, bool, Option<Timestamp>, Option<Timestamp>) {
    let record = machine.status.preservation.as_ref();
    let automatic = record.is_some_and(|record| record.by == PreservedBy::Auto);
    let failed = machine.status.current_status.base() == Some(&Phase::Failed);
    let expiry = machine.status.current_status.preserve_expiry_time.as_ref();
    (!automatic, !failed, expiry.map(|time| time.0), created(machine))
}

/// The machine's priority; the default where there is none or it is no number.
pub(crate) fn priority(machine: &Machine) -> i64 {
    let default = keys::DEFAULT_PRIORITY.parse().unwrap_or(3);
    annotation(machine, keys::PRIORITY_ANNOTATION)
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// When the autoscaler marked it; unmarked ones come last.
fn mark(machine: &Machine) -> (bool, Option<Timestamp>) {
    let time = marked(machine);
    (time.is_none(), time)
}

/// When the autoscaler marked it.
pub(crate) fn marked(machine: &Machine) -> Option<Timestamp> {
    annotation(machine, keys::MARKED_ANNOTATION)?.parse().ok()
}

fn usefulness(machine: &Machine) -> u8 {
    match machine.status.current_status.base() {
        Some(Phase::Terminating) => 0,
        Some(Phase::Failed) => 1,
        Some(Phase::CrashLoopBackOff) => 2,
        // One that never joined holds no pods, and one that nobody has looked at yet serves nobody either.
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
