//! Durations in human-readable form: `5m`, `3d4h`, with the steps of `k8s.io/apimachinery/pkg/util/duration`.

use serde_json::Value;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A duration in seconds, formatted with at most two units and a precision that depends on its length.
pub fn human(seconds: i64) -> String {
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(seconds, MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(seconds, HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(seconds, DAY, "d", HOUR, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => pair(seconds, YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "the divisors are constants above 0")]
fn pair(seconds: i64, large: i64, large_name: &str, small: i64, small_name: &str) -> String {
    match seconds % large / small {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest}{small_name}", seconds / large),
    }
}

/// The age of a time; `None` if the value is not a time.
pub(super) fn since(time: Option<&Value>, now_unix: i64) -> Option<String> {
    seconds_of(time).map(|time| human(now_unix.saturating_sub(time)))
}

/// A time in seconds since 1970.
pub(super) fn seconds_of(time: Option<&Value>) -> Option<i64> {
    let time: jiff::Timestamp = time?.as_str()?.parse().ok()?;
    Some(time.as_second())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(-2, "<invalid>")]
    #[case(-1, "0s")]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(125, "2m5s")]
    #[case(10 * MINUTE, "10m")]
    #[case(179 * MINUTE, "179m")]
    #[case(3 * HOUR, "3h")]
    #[case(3 * HOUR + 61, "3h1m")]
    #[case(8 * HOUR, "8h")]
    #[case(47 * HOUR, "47h")]
    #[case(2 * DAY, "2d")]
    #[case(3 * DAY + 4 * HOUR, "3d4h")]
    #[case(8 * DAY, "8d")]
    #[case(729 * DAY, "729d")]
    #[case(2 * YEAR, "2y")]
    #[case(2 * YEAR + 5 * DAY, "2y5d")]
    #[case(8 * YEAR, "8y")]
    fn durations_lose_precision_as_they_grow(#[case] seconds: i64, #[case] expected: &str) {
        assert_eq!(human(seconds), expected);
    }
}
