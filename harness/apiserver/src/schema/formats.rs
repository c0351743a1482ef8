//! The string and number formats that are checked; like upstream, ignores others.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::Number;

use crate::types::time;

/// Whether a string has the format.
pub(super) fn text_fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => time::is_time(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => matches(&DURATION, text),
        "byte" => STANDARD.decode(text).is_ok(),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => matches(&UUID, text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => matches(&MAC, text),
        "email" => matches(&EMAIL, text),
        "hostname" => text.len() <= 255 && matches(&HOSTNAME, text),
        "uri" => matches(&URI, text),
        _ => true,
    }
}

/// Whether a number has the format.
pub(super) fn number_fits(format: &str, number: &Number) -> bool {
    match format {
        "int32" => number
            .as_f64()
            .is_some_and(|number| (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number)),
        "int64" => number.is_i64() || number.as_f64().is_some_and(|number| number.abs() < 9.2e18),
        _ => true,
    }
}

type Pattern = LazyLock<Option<Regex>>;

fn matches(pattern: &Pattern, text: &str) -> bool {
    pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
}

/// A pattern compiled on first use; a test checks that all compile.
macro_rules! pattern {
    ($text:expr $(,)?) => {
        LazyLock::new(|| Regex::new($text).ok())
    };
}

static DURATION: Pattern = pattern!(
    r"^[+-]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+) ?(ns|us|µs|μs|ms|s|m|h|d|w|seconds?|minutes?|hours?|days?|weeks?))+$",
);
static UUID: Pattern = pattern!(r"^(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
static MAC: Pattern = pattern!(r"^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$");
static EMAIL: Pattern = pattern!(r"^[^@\s]+@[^@\s]+$");
static HOSTNAME: Pattern =
    pattern!(r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?$");
static URI: Pattern = pattern!(r"^([A-Za-z][A-Za-z0-9+.-]*:\S+|/\S*)$");

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let Ok(length) = length.parse::<u8>() else { return false };
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => length <= 32,
        Ok(std::net::IpAddr::V6(_)) => length <= 128,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn all_patterns_compile() {
        for pattern in [&DURATION, &UUID, &MAC, &EMAIL, &HOSTNAME, &URI] {
            assert!(pattern.is_some());
        }
    }

    #[rstest]
    #[case("date-time", "2026-01-31T12:00:00Z", "2026-01-31")]
    #[case("date", "2026-01-31", "2026-02-31")]
    #[case("duration", "1h30m", "soon")]
    #[case("duration", "3 days", "3 dogs")]
    #[case("byte", "AP8=", "%%")]
    #[case("uuid", "6c84fb90-12c4-11e1-840d-7b25c5ee775a", "6c84fb90")]
    #[case("ipv4", "10.0.0.1", "10.0.0.256")]
    #[case("ipv6", "::1", "10.0.0.1")]
    #[case("cidr", "10.0.0.0/8", "10.0.0.0/33")]
    #[case("mac", "00:11:22:33:44:55", "00:11")]
    #[case("email", "a@example.com", "a")]
    #[case("hostname", "a.example.com", "a_b")]
    #[case("uri", "https://example.com", "example")]
    fn texts(#[case] format: &str, #[case] good: &str, #[case] bad: &str) {
        assert!(text_fits(format, good), "{good}");
        assert!(!text_fits(format, bad), "{bad}");
        assert!(text_fits("unknown", bad));
    }

    #[test]
    fn numbers() {
        assert!(number_fits("int32", &i32::MAX.into()));
        assert!(!number_fits("int32", &(i64::from(i32::MAX) + 1).into()));
        assert!(number_fits("int64", &i64::MAX.into()));
        assert!(!number_fits("int64", &u64::MAX.into()));
    }
}
