//! Damage of a ledger's files.

use std::fmt;

use durable::lines::{Line, LineError};

/// Damage of a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Name of the file in the ledger's folder.
    pub file: &'static str,
    /// The first damaged line, from 1.
    pub line: usize,
    /// The position of its first byte in the file.
    pub offset: usize,
    /// What is wrong.
    pub reason: Reason,
}

impl Damage {
    pub(super) fn new(file: &'static str, line: usize, offset: usize, reason: impl Into<Reason>) -> Self {
        Self {
            file,
            line,
            offset,
            reason: reason.into(),
        }
    }

    /// Damage of a line.
    pub(super) fn of(line: &Line<'_>, file: &'static str, reason: impl Into<Reason>) -> Self {
        Self::new(file, line.number, line.offset, reason)
    }

    /// A file that does not exist.
    pub(super) fn missing(file: &'static str) -> Self {
        Self::new(file, 1, 0, Reason::Missing)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            offset,
            reason,
        } = self;
        write!(f, "{file} is damaged at byte {offset} (line {line}): {reason}")
    }
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The file does not exist.
    #[error("the file is missing")]
    Missing,
    /// The file has no content.
    #[error("the file is empty")]
    Empty,
    /// The line is damaged.
    #[error(transparent)]
    Line(#[from] LineError),
    /// `ledger.json` in place of `changes.log`, or vice versa.
    #[error("this is the content of another file")]
    OtherFile,
    /// The log of another ledger.
    #[error("it belongs to the ledger {found}, and ledger.json to {expected}")]
    Foreign {
        /// The ledger of `ledger.json`.
        expected: String,
        /// The ledger of the log.
        found: String,
    },
    /// An older or newer log of the same ledger.
    #[error("it has generation {found}, and ledger.json has {expected}: one of them is an old copy")]
    Generation {
        /// The generation of `ledger.json`.
        expected: u64,
        /// The generation of the log.
        found: u64,
    },
    /// A step is missing or repeated.
    #[error("it is step {found}, and step {expected} belongs here")]
    Order {
        /// The number of the frame that belongs there.
        expected: u64,
        /// The number of the frame that is there.
        found: u64,
    },
    /// There are fewer rows than the header says, or more.
    #[error("the file has {found} rows, and its header says {expected}")]
    Rows {
        /// Number of rows by the header.
        expected: u64,
        /// Number of different rows.
        found: u64,
    },
}
