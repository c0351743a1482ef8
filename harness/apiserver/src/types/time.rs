//! Times in the two formats of Kubernetes: whole seconds and microseconds, always UTC.

use jiff::fmt::temporal::Pieces;
use jiff::{SignedDuration, Timestamp};

/// Reads an RFC 3339 time.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    is_separated(text).then(|| text.parse().ok())?
}

/// Whether the text is an RFC 3339 time, including times that [`Timestamp`] cannot represent: its maximum is a day
/// and two hours before the end of the year 9999.
pub(crate) fn is_time(text: &str) -> bool {
    let whole = |pieces: Pieces| pieces.time().is_some() && pieces.offset().is_some();
    is_separated(text) && Pieces::parse(text).is_ok_and(whole)
}

/// Checks a time with microseconds: exactly six digits, as upstream requires.
///
/// # Errors
/// The message of Go's parser.
pub(crate) fn check_micros(text: &str) -> Result<(), String> {
    let layout = "2006-01-02T15:04:05.000000Z07:00";
    let cannot = |rest: &str, part: &str| {
        Err(format!(
            "parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}"
        ))
    };
    let Some((seconds, rest)) = text.split_at_checked(19) else {
        return cannot(text, "2006");
    };
    if parse(&format!("{seconds}Z")).is_none() {
        return cannot(text, "2006");
    }
    let Some((fraction, zone)) = rest.split_at_checked(7) else {
        return cannot(rest, ".000000");
    };
    if !fraction.starts_with('.') || !fraction.bytes().skip(1).all(|byte| byte.is_ascii_digit()) {
        return cannot(rest, ".000000");
    }
    if parse(text).is_none() || zone.starts_with(|first: char| first.is_ascii_digit()) {
        return cannot(zone, "Z07:00");
    }
    Ok(())
}

fn is_separated(text: &str) -> bool {
    text.as_bytes().get(10) == Some(&b'T')
}

/// `2026-01-31T12:00:00Z`, the format of `Time`.
pub(crate) fn seconds(time: Timestamp) -> String {
    let whole = Timestamp::from_second(floor_seconds(time)).unwrap_or(time);
    format!("{whole:.0}")
}

/// `2026-01-31T12:00:00.000000Z`, the format of `MicroTime`.
pub(crate) fn micros(time: Timestamp) -> String {
    let seconds = floor_seconds(time);
    let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
    let micros = i64::try_from(nanos / 1000).unwrap_or_default();
    let cut = Timestamp::from_microsecond(seconds.saturating_mul(1_000_000).saturating_add(micros)).unwrap_or(time);
    format!("{cut:.6}")
}

/// The time after a duration, within the range of times.
pub(crate) fn after(time: Timestamp, duration: SignedDuration) -> Timestamp {
    let limit = if duration.is_negative() {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    time.saturating_add(duration).unwrap_or(limit)
}

fn floor_seconds(time: Timestamp) -> i64 {
    let seconds = time.as_nanosecond().div_euclid(1_000_000_000);
    i64::try_from(seconds).unwrap_or_else(|_| time.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lose_fractions_and_offsets() {
        let time = parse("2026-01-31T13:00:00.123456789+01:00").unwrap();
        assert_eq!(seconds(time), "2026-01-31T12:00:00Z");
        assert_eq!(micros(time), "2026-01-31T12:00:00.123456Z");
    }

    #[test]
    fn micro_times_have_six_digits() {
        for text in ["2026-08-11T19:37:19.103000Z", "2026-08-11T19:37:19.103000+02:00"] {
            assert_eq!(check_micros(text), Ok(()), "{text}");
        }
        for (text, reason) in [
            ("2026-08-11T19:37:19.103Z", "cannot parse \".103Z\" as \".000000\""),
            ("2026-08-11T19:37:19Z", "cannot parse \"Z\" as \".000000\""),
            ("2026-08-11T19:37:19.103000000Z", "cannot parse \"000Z\" as \"Z07:00\""),
            ("yesterday", "cannot parse \"yesterday\" as \"2006\""),
            ("2026-02-31T19:37:19.103000Z", "cannot parse"),
            ("", "cannot parse"),
        ] {
            let error = check_micros(text).unwrap_err();
            assert!(
                error.starts_with("parsing time") && error.contains(reason),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn times_before_1970_are_rounded_towards_the_past() {
        let time = parse("1969-12-31T23:59:59.5Z").unwrap();
        assert_eq!(seconds(time), "1969-12-31T23:59:59Z");
        assert_eq!(micros(time), "1969-12-31T23:59:59.500000Z");
    }

    #[test]
    fn the_last_second_is_a_valid_time_that_cannot_be_parsed() {
        let text = "9999-12-31T23:59:59Z";
        assert_eq!((is_time(text), parse(text)), (true, None));
    }

    #[test]
    fn text_that_is_not_an_rfc_3339_time_is_rejected() {
        for text in [
            "",
            "2026-01-31",
            "2026-01-31 12:00:00Z",
            "yesterday",
            "2026-01-31T12:00:00",
        ] {
            assert_eq!((is_time(text), parse(text)), (false, None), "{text}");
        }
    }
}
