//! Records in the formats of other tools. Pure, as everything in this crate.

mod otlp;
mod perfetto;
mod summary;
mod track_event;

#[cfg(test)]
pub(crate) mod fixture;

use serde::Serialize;

pub use self::otlp::otlp;
pub use self::perfetto::perfetto;
pub use self::summary::{SummaryRow, summary};

/// The name of a variant in a record.
fn word(variant: &impl Serialize) -> String {
    let value = serde_json::to_value(variant).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
