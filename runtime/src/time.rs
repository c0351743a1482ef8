//! Time formats of the API: `Time` has whole seconds, `MicroTime` microseconds.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

/// The time without fractions of a second.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The text of a `metav1.Time`, such as `2026-01-31T12:00:00Z`.
pub fn time_text(time: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(0)).timestamp_to_string(&time)
}

/// The text of a `metav1.MicroTime`, such as `2026-01-31T12:00:00.000000Z`.
pub fn micro_time_text(time: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(6)).timestamp_to_string(&time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_truncated_to_their_precision() {
        let time: Timestamp = "2026-01-31T12:00:00.987654999Z".parse().unwrap();
        assert_eq!(whole_seconds(time).to_string(), "2026-01-31T12:00:00Z");
        assert_eq!(time_text(time), "2026-01-31T12:00:00Z");
        assert_eq!(micro_time_text(time), "2026-01-31T12:00:00.987654Z");
    }
}
