//! Whether a new status is similar to the current one, so that it need not be written.
//!
//! Clouds repeat their errors with changing request ids; a write of each error would wake all watchers. So descriptions
//! that are nearly equal count as equal, times do not count, and after half an hour a repeated operation is written
//! again to show that it continues.

use jiff::{SignedDuration, Timestamp};
use mcm_api::MachineStatus;

use super::Stage;

const REFRESH: SignedDuration = SignedDuration::from_mins(30);

/// Whether `new` is similar to `old`, and `old` was written less than half an hour ago.
pub(super) fn similar(old: &MachineStatus, new: &MachineStatus, now: Timestamp) -> bool {
    recent(old, now) && same_text(old, new) && without_text_and_times(old) == without_text_and_times(new)
}

fn recent(old: &MachineStatus, now: Timestamp) -> bool {
    let written = old
        .last_operation
        .as_ref()
        .and_then(|operation| operation.last_update_time.as_ref());
    written.is_some_and(|time| now.duration_since(time.0) < REFRESH)
}

fn same_text(old: &MachineStatus, new: &MachineStatus) -> bool {
    let text = |status: &MachineStatus| {
        status
            .last_operation
            .clone()
            .map(|operation| operation.description)
            .unwrap_or_default()
    };
    let (old, new) = (text(old), text(new));
    old == new || Stage::parse(&old) == Stage::parse(&new) && likeness(&old, &new) > 0.75
}

fn without_text_and_times(status: &MachineStatus) -> MachineStatus {
    let mut status = status.clone();
    if let Some(operation) = &mut status.last_operation {
        operation.description.clear();
        operation.last_update_time = None;
    }
    status.current_status.last_update_time = None;
    status
}

/// One minus the number of edits between the texts divided by their mean length.
fn likeness(left: &str, right: &str) -> f64 {
    let mean = (left.len() + right.len()) as f64 / 2.0;
    1.0 - edits(left.as_bytes(), right.as_bytes()) as f64 / mean.max(1.0)
}

/// The Levenshtein distance.
fn edits(left: &[u8], right: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, byte) in left.iter().enumerate() {
        let mut diagonal = index;
        let mut before = index + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(right) {
            let replaced = diagonal + usize::from(byte != other);
            diagonal = *cell;
            *cell = replaced.min(*cell + 1).min(before + 1);
            before = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use mcm_api::machine::LastOperation;
    use mcm_api::{Operation, State};
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const LONG: &str = "Cloud provider message - machine codes error: code = [Internal] message = [the request failed, request id: 8f14e45f]";
    const LONG_AGAIN: &str = "Cloud provider message - machine codes error: code = [Internal] message = [the request failed, request id: c9f0f895]";

    fn status(description: &str, minutes_ago: i64) -> MachineStatus {
        let written = now().checked_sub(SignedDuration::from_mins(minutes_ago)).unwrap();
        let last_operation = LastOperation {
            description: description.to_owned(),
            error_code: "Internal".to_owned(),
            last_update_time: Some(Time(written)),
            state: Some(State::Failed),
            operation: Some(Operation::Create),
        };
        MachineStatus {
            last_operation: Some(last_operation),
            ..MachineStatus::default()
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_000_000_000).unwrap()
    }

    #[rstest]
    #[case::identical("x", 0, "x", true)]
    #[case::identical_within_half_an_hour("x", 29, "x", true)]
    #[case::identical_after_half_an_hour("x", 31, "x", false)]
    #[case::another_request_id(LONG, 1, LONG_AGAIN, true)]
    #[case::another_request_id_in_a_short_text(
        "failed with request 1. Initiate VM deletion",
        1,
        "failed with request 2. Initiate VM deletion",
        true
    )]
    #[case::another_stage(
        "VM deletion done. Initiate node object deletion",
        1,
        "VM deletion done. Initiate VM deletion",
        false
    )]
    #[case::another_text("quota", 1, "credentials", false)]
    fn statuses_are_similar_if_text_and_stage_nearly_match(
        #[case] old: &str,
        #[case] minutes_ago: i64,
        #[case] new: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(similar(&status(old, minutes_ago), &status(new, 0), now()), expected);
    }

    #[test]
    fn a_new_last_known_state_is_never_similar() {
        let new = MachineStatus {
            last_known_state: "half done".to_owned(),
            ..status("x", 0)
        };
        assert!(!similar(&status("x", 1), &new, now()));
    }

    proptest! {
        #[test]
        fn the_number_of_edits_is_a_metric(a in "[ab]{0,8}", b in "[ab]{0,8}", c in "[ab]{0,8}") {
            let distance = |x: &str, y: &str| edits(x.as_bytes(), y.as_bytes());
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert_eq!(distance(&a, &b) == 0, a == b);
            prop_assert!(distance(&a, &c) <= distance(&a, &b) + distance(&b, &c));
        }
    }
}
