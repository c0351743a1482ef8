//! Reads a record of any origin.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::limits::{MOST_ACTORS, MOST_LINES, MOST_LOGS, MOST_POINTS, MOST_SPANS, MOST_STEPS};
use crate::model::{Point, RunRecord};
use crate::{FILE, VERSION};

/// The maximum size of a record in bytes. A record with the maximum number of points, each with the largest change, is
/// smaller.
pub const MOST_BYTES: u64 = 128 << 20;

/// Why a text is not a record that can be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is too large.
    #[error("it has {bytes} bytes; a record has at most {MOST_BYTES}: it is not a {file}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The name of files with such records.
        file: &'static str,
    },
    /// It has no content.
    #[error("it is empty: it was not written or copied completely; run the scenario again")]
    Empty,
    /// A newer program wrote it.
    #[error(
        "version: it has version {found}, and this program reads up to {VERSION}: use the drydock that wrote it, or a newer one"
    )]
    Newer {
        /// Its version.
        found: u64,
    },
    /// It is no record.
    #[error("it is not a record: {source}; drydock writes such records as {file}")]
    NoRecord {
        /// The name of files with such records.
        file: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// It ends too early.
    #[error("it ends in the middle ({source}): it was not written or copied completely; run the scenario again")]
    Truncated {
        /// The cause.
        source: serde_json::Error,
    },
    /// A list is too long.
    #[error("{field}: it has {count} {what}; a record has at most {most}")]
    TooMany {
        /// The field.
        field: String,
        /// What it lists.
        what: &'static str,
        /// Their number.
        count: usize,
        /// The maximum.
        most: usize,
    },
    /// An event has the number of another one.
    #[error("points[{index}].number: another event has the number {number}")]
    Duplicate {
        /// The index of the event.
        index: usize,
        /// The number.
        number: u32,
    },
    /// An event is its own cause.
    #[error("{field}: event {number} cannot lead to itself")]
    OwnCause {
        /// The field.
        field: String,
        /// The number.
        number: u32,
    },
    /// An event violates a check that the record does not have.
    #[error("points[{index}].violates: there is no check {check}; the record has {checks}, counted from 0")]
    NoCheck {
        /// The index of the event.
        index: usize,
        /// The index of the check.
        check: usize,
        /// The number of checks.
        checks: usize,
    },
    /// The previous write of an object is no earlier event.
    #[error("{field}: event {number} is not an earlier one")]
    NotEarlier {
        /// The field.
        field: String,
        /// The number.
        number: u32,
    },
    /// A part of the record belongs to an actor that it does not list.
    #[error("{field}: there is no actor {actor:?} in actors")]
    NoActor {
        /// The field.
        field: String,
        /// The id of the actor.
        actor: String,
    },
    /// A number refers to an event that does not exist.
    #[error("{field}: there is no event {number}")]
    Dangling {
        /// The field.
        field: String,
        /// The number.
        number: u32,
    },
}

/// The field that is read before all others.
#[derive(Deserialize)]
struct Head {
    version: u64,
}

/// Parses a record.
///
/// # Errors
/// See [`ReadError`].
pub fn read(text: &[u8]) -> Result<RunRecord, ReadError> {
    let record: RunRecord = checked(text, FILE)?;
    check_lengths(&record)?;
    check_actors(&record)?;
    check_references(&record)?;
    Ok(record)
}

/// Checks the lengths of lists: a page of longer ones would not answer for a long time.
fn check_lengths(record: &RunRecord) -> Result<(), ReadError> {
    let check = |field: &str, what, count: usize, most| match count > most {
        true => Err(ReadError::TooMany {
            field: field.to_owned(),
            what,
            count,
            most,
        }),
        false => Ok(()),
    };
    check("points", "events", record.points.len(), MOST_POINTS)?;
    check("spans", "states", record.spans.len(), MOST_SPANS)?;
    check("actors", "actors", record.actors.len(), MOST_ACTORS)?;
    check("checks", "checks", record.checks.len(), MOST_POINTS)?;
    check("logs", "logs", record.logs.len(), MOST_LOGS)?;
    for (index, log) in record.logs.iter().enumerate() {
        check(&format!("logs[{index}].lines"), "lines", log.lines.len(), MOST_LINES)?;
    }
    check("counters", "counters", record.counters.len(), MOST_POINTS)?;
    for (index, counter) in record.counters.iter().enumerate() {
        let field = format!("counters[{index}].steps");
        check(&field, "changes", counter.steps.len(), MOST_STEPS)?;
    }
    Ok(())
}

/// Parses a record of any kind, after its size and its version. `file`: the name of files with such records.
pub(crate) fn checked<T: DeserializeOwned>(text: &[u8], file: &'static str) -> Result<T, ReadError> {
    check_size(text.len() as u64, file)?;
    if text.trim_ascii().is_empty() {
        return Err(ReadError::Empty);
    }
    let failed = |source: serde_json::Error| match source.is_eof() {
        true => ReadError::Truncated { source },
        false => ReadError::NoRecord { file, source },
    };
    let head: Head = serde_json::from_slice(text).map_err(failed)?;
    if head.version > u64::from(VERSION) {
        return Err(ReadError::Newer { found: head.version });
    }
    serde_json::from_slice(text).map_err(failed)
}

/// Checks the size of a record before it is read. `file`: the name of files with such records.
///
/// # Errors
/// When it is too large.
pub fn check_size(bytes: u64, file: &'static str) -> Result<(), ReadError> {
    match bytes > MOST_BYTES {
        true => Err(ReadError::TooLarge { bytes, file }),
        false => Ok(()),
    }
}

/// Checks that every actor is listed.
fn check_actors(record: &RunRecord) -> Result<(), ReadError> {
    let known: BTreeSet<&str> = record.actors.iter().map(|actor| actor.id.as_str()).collect();
    let check = |actor: &str, field: &dyn Fn() -> String| match known.contains(actor) {
        true => Ok(()),
        false => Err(ReadError::NoActor {
            field: field(),
            actor: actor.to_owned(),
        }),
    };
    for (index, actor) in record.actors.iter().enumerate() {
        for (name, other) in [("parent", &actor.parent), ("zone", &actor.zone)] {
            let field = || format!("actors[{index}].{name}");
            other.as_ref().map_or(Ok(()), |other| check(other, &field))?;
        }
    }
    for (index, span) in record.spans.iter().enumerate() {
        check(&span.actor, &|| format!("spans[{index}].actor"))?;
    }
    for (index, point) in record.points.iter().enumerate() {
        check(&point.actor, &|| format!("points[{index}].actor"))?;
    }
    Ok(())
}

/// Checks that every number of an event exists.
fn check_references(record: &RunRecord) -> Result<(), ReadError> {
    let mut numbers = BTreeSet::new();
    for (index, Point { number, .. }) in record.points.iter().enumerate() {
        if !numbers.insert(*number) {
            let number = *number;
            return Err(ReadError::Duplicate { index, number });
        }
    }
    let check = |number: Option<u32>, field: &dyn Fn() -> String| match number {
        Some(number) if !numbers.contains(&number) => Err(ReadError::Dangling { field: field(), number }),
        _ => Ok(()),
    };
    for (index, point) in record.points.iter().enumerate() {
        check(point.cause, &|| format!("points[{index}].cause"))?;
        check(point.previous, &|| format!("points[{index}].previous"))?;
        for number in &point.seen {
            check(Some(*number), &|| format!("points[{index}].seen"))?;
        }
        if let Some(number) = point.cause.filter(|cause| *cause == point.number) {
            let field = format!("points[{index}].cause");
            return Err(ReadError::OwnCause { field, number });
        }
        let checks = record.checks.len();
        if let Some(check) = point.violates.filter(|check| *check >= checks) {
            return Err(ReadError::NoCheck { index, check, checks });
        }
        if let Some(number) = point.previous.filter(|previous| *previous >= point.number) {
            let field = format!("points[{index}].previous");
            return Err(ReadError::NotEarlier { field, number });
        }
    }
    for (index, span) in record.spans.iter().enumerate() {
        check(span.cause, &|| format!("spans[{index}].cause"))?;
    }
    for (index, of) in record.checks.iter().enumerate() {
        check(of.violated, &|| format!("checks[{index}].violated"))?;
    }
    check(record.meta.verdict.point, &|| "meta.verdict.point".to_owned())
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
