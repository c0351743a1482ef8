//! The content of a ledger's files, before and after it is read, and the reader of a log's frames.

use durable::lines::Line;

use super::damage::{Damage, Reason};
use super::format::{CHANGES, Frame, LEDGER, NEXT_CHANGES, later_version};
use super::version::LaterVersion;
use crate::model::Snapshot;

/// The content of a folder; `None`: the file does not exist.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    pub(super) ledger: Option<Vec<u8>>,
    pub(super) changes: Option<Vec<u8>>,
    pub(super) next_changes: Option<Vec<u8>>,
    /// Whether the audit log has records.
    pub(super) audit: bool,
}

impl Contents {
    /// The first file of a later version.
    pub(super) fn later_version(&self) -> Option<LaterVersion> {
        let files = [
            (LEDGER, &self.ledger),
            (CHANGES, &self.changes),
            (NEXT_CHANGES, &self.next_changes),
        ];
        files
            .into_iter()
            .find_map(|(name, text)| later_version(name, text.as_deref()?))
    }
}

/// A ledger.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) state: Snapshot,
    /// Number of the last frame.
    pub(super) frame: u64,
    pub(super) generation: u64,
    pub(super) log: LogFile,
}

/// Where the log was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogFile {
    /// `changes.log`.
    Current(Extent),
    /// `changes.log.new`: the process ended between writing `ledger.json` and renaming this file.
    Next(Extent),
    /// `changes.log` in the format of the previous version.
    Earlier(Extent),
}

/// Lengths of the parts of a log, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Complete lines.
    pub(super) valid: usize,
    /// The incomplete last line.
    pub(super) torn: usize,
}

/// Reads the frames of a log in order.
#[derive(Debug)]
pub(super) struct FrameReader {
    file: &'static str,
    /// Number of the last frame.
    pub(super) last: u64,
    torn: usize,
}

impl FrameReader {
    /// A reader of a log that begins after the frame `last`.
    pub(super) fn new(file: &'static str, last: u64) -> Self {
        Self { file, last, torn: 0 }
    }

    /// The frame in the next line; `None`: the line is the incomplete last one.
    pub(super) fn read(&mut self, line: Line<'_>) -> Result<Option<Frame>, Damage> {
        if !line.ended && !line.has_damaged_end() {
            self.torn = line.text.len();
            return Ok(None);
        }
        let frame: Frame = line.decode().map_err(|error| Damage::of(&line, self.file, error))?;
        let expected = self.last.saturating_add(1);
        if frame.number != expected {
            return Err(Damage::of(
                &line,
                self.file,
                Reason::Order {
                    expected,
                    found: frame.number,
                },
            ));
        }
        self.last = expected;
        Ok(Some(frame))
    }

    /// The parts of the log with the content `text`.
    pub(super) fn extent(&self, text: &[u8]) -> Extent {
        Extent {
            valid: text.len() - self.torn,
            torn: self.torn,
        }
    }
}
