//! Times and durations as the contract has them: nanoseconds.

use std::time::Duration;

use jiff::Timestamp;

pub(super) fn time(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

pub(super) fn span(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
