//! Times as the API writes them.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

/// A `metav1.Time`: whole seconds.
pub(super) fn seconds(time: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(0)).timestamp_to_string(&time)
}

/// A `metav1.MicroTime`.
pub(super) fn micros(time: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(6)).timestamp_to_string(&time)
}
