//! Output of rows.

use std::io::Write;

use anyhow::Context;
use jiff::Timestamp;
use terminal::{Format, Row, render};

/// Prints the rows.
pub(super) fn print<R: Row>(format: Format, rows: &[R], out: &mut impl Write) -> anyhow::Result<()> {
    out.write_all(render(format, rows)?.as_bytes())
        .context("cannot write to standard output")
}

/// A time of a message; empty: none.
pub(super) fn time(nanos: i64) -> String {
    if nanos == 0 {
        return String::new();
    }
    let time = Timestamp::from_nanosecond(i128::from(nanos));
    time.map_or_else(|_| nanos.to_string(), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_milliseconds() {
        assert_eq!(time(1_800_000_000_123_456_789), "2027-01-15T08:00:00.123Z");
        assert_eq!(time(0), "");
    }
}
