//! Durations in Go's syntax: `2h0m0s`, `1.5h`, `300ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A non-negative duration with the syntax of Go's `time.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub Duration);

/// Why a string is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The string does not follow Go's syntax.
    #[error("{0:?} is not a duration: write for example 300ms, 90s, 10m or 1h30m")]
    Syntax(String),
    /// Drydock's durations are limits and periods; they are never negative.
    #[error("{0:?} is negative: a duration must be zero or more")]
    Negative(String),
    /// Beyond 292 years.
    #[error("{0:?} is too long for a duration")]
    Overflow(String),
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let syntax = || DurationError::Syntax(text.to_owned());
        let overflow = || DurationError::Overflow(text.to_owned());
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(syntax());
        }
        let mut total: u128 = 0;
        while !rest.is_empty() {
            let number_end = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .ok_or_else(syntax)?;
            let (number, tail) = rest.split_at(number_end);
            let unit_end = tail
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let scale = UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, scale)| *scale)
                .ok_or_else(syntax)?;
            total = total
                .checked_add(nanoseconds(number, scale).ok_or_else(syntax)?)
                .ok_or_else(overflow)?;
            rest = tail;
        }
        if total > i64::MAX as u128 {
            return Err(overflow());
        }
        if negative && total > 0 {
            return Err(DurationError::Negative(text.to_owned()));
        }
        Ok(Self(Duration::from_nanos(total as u64)))
    }
}

/// `number` (digits with at most one point) times `scale`, truncated to whole nanoseconds.
fn nanoseconds(number: &str, scale: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits = fraction.get(..fraction.len().min(18))?;
    let part: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let below = part * u128::from(scale) / 10u128.pow(digits.len() as u32);
    whole.checked_mul(u128::from(scale))?.checked_add(below)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(nanos, 3)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(nanos, 6)),
            _ => {
                let minutes = nanos / 60_000_000_000;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                write!(f, "{}s", decimal(nanos % 60_000_000_000, 9))
            }
        }
    }
}

/// `value` with the decimal point moved left by `places`, without trailing zeros.
fn decimal(value: u128, places: usize) -> String {
    let scale = 10u128.pow(places as u32);
    let fraction = format!("{:0places$}", value % scale);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        format!("{}", value / scale)
    } else {
        format!("{}.{fraction}", value / scale)
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::zero("0", "0s")]
    #[case::hours("2h", "2h0m0s")]
    #[case::mixed("1h30m", "1h30m0s")]
    #[case::minutes("10m", "10m0s")]
    #[case::fraction_of_an_hour("1.5h", "1h30m0s")]
    #[case::milliseconds("300ms", "300ms")]
    #[case::seconds_with_fraction("90.25s", "1m30.25s")]
    #[case::microseconds("1500ns", "1.5µs")]
    fn a_duration_parses_and_prints_as_in_go(#[case] text: &str, #[case] printed: &str) {
        assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), printed);
    }

    #[rstest]
    #[case::empty("")]
    #[case::no_unit("10")]
    #[case::unknown_unit("3d")]
    #[case::no_number("h")]
    #[case::only_a_point(".s")]
    #[case::negative("-5s")]
    #[case::beyond_292_years("9999999h")]
    fn an_invalid_duration_is_rejected(#[case] text: &str) {
        let error = text.parse::<GoDuration>().unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }

    proptest! {
        #[test]
        fn printing_and_parsing_round_trips(nanos in 0..=i64::MAX as u64) {
            let duration = GoDuration(Duration::from_nanos(nanos));
            prop_assert_eq!(duration.to_string().parse::<GoDuration>().unwrap(), duration);
        }
    }
}
