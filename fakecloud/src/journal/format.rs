//! The format of `ledger.json` and `changes.log`: lines, checksums, headers and frames.
//!
//! Both files consist of the lines of [`durable::lines`]. The first line is the header. In
//! `ledger.json` one line for each row follows, in `changes.log` one line for each later step. The two headers are equal
//! except for the file's name, so that either shows which file belongs to it, and one can replace the other.

use durable::lines::{Line, LineError, lines, write_line};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::damage::{Damage, Reason};
use super::version::{LaterVersion, PROGRAM, VERSION};
use crate::model::{Change, MAX_NUMBER, RowCounts, Snapshot};

/// The whole ledger.
pub(super) const LEDGER: &str = "ledger.json";
/// The later changes.
pub(super) const CHANGES: &str = "changes.log";
/// The log of the next generation, until `ledger.json` of that generation is complete.
pub(super) const NEXT_CHANGES: &str = "changes.log.new";
/// `ledger.json` while it is being written.
pub(super) const NEXT_LEDGER: &str = "ledger.json.new";

/// Which file a header begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    Ledger,
    Changes,
}

/// The first line of both files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    pub(super) file: Kind,
    pub(super) version: u32,
    /// Version of the program that wrote the file; absent in files of its first versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<String>,
    /// Identifies the ledger: the cloud's instance.
    pub(super) ledger: String,
    /// When the ledger was created.
    pub(super) opened: Timestamp,
    /// Number of this pair of files: 1, 2, 3, ...
    pub(super) generation: u64,
    /// Number of the last frame in `ledger.json`, and its time.
    pub(super) frame: u64,
    pub(super) time: Timestamp,
    /// Number of the last record of the cloud's log at that time.
    pub(super) log: u64,
    /// Numbers of rows in `ledger.json`.
    pub(super) rows: RowCounts,
}

impl Header {
    fn of(snapshot: &Snapshot, generation: u64, frame: u64) -> Self {
        Self {
            file: Kind::Ledger,
            version: VERSION,
            program: Some(PROGRAM.to_owned()),
            ledger: snapshot.instance.clone(),
            opened: snapshot.opened,
            generation,
            frame,
            time: snapshot.time,
            log: snapshot.log,
            rows: snapshot.counts(),
        }
    }

    /// The header of the other file.
    fn as_file(&self, file: Kind) -> Self {
        Self { file, ..self.clone() }
    }

    /// Reads the header in a file's first line.
    pub(super) fn read(file: &'static str, kind: Kind, line: Option<Line<'_>>) -> Result<Self, Damage> {
        let Some(line) = line else {
            return Err(Damage::new(file, 1, 0, Reason::Empty));
        };
        let header: Self = line.decode().map_err(|error| Damage::of(&line, file, error))?;
        if header.version != VERSION {
            let reason = format!(
                "it has the format version {}, and {VERSION} is expected",
                header.version
            );
            return Err(Damage::of(&line, file, LineError::Syntax(reason)));
        }
        if header.file != kind {
            return Err(Damage::of(&line, file, Reason::OtherFile));
        }
        let numbers = [
            ("generation", header.generation),
            ("frame", header.frame),
            ("log", header.log),
        ];
        if let Some((field, number)) = numbers.into_iter().find(|(_, number)| *number > MAX_NUMBER) {
            let reason = format!("{field} is {number}, and {MAX_NUMBER} is the maximum");
            return Err(Damage::of(&line, file, LineError::Syntax(reason)));
        }
        Ok(header)
    }

    /// Checks that `changes.log` with the header `log` belongs to `ledger.json` with this header.
    pub(super) fn owns(&self, log: &Self) -> Result<(), Reason> {
        if log.ledger != self.ledger {
            return Err(Reason::Foreign {
                expected: self.ledger.clone(),
                found: log.ledger.clone(),
            });
        }
        if log.generation != self.generation || *log != self.as_file(Kind::Changes) {
            return Err(Reason::Generation {
                expected: self.generation,
                found: log.generation,
            });
        }
        Ok(())
    }

    /// The state without rows at the time of this header.
    pub(super) fn empty(&self) -> Snapshot {
        let mut state = Snapshot::empty(self.ledger.clone(), self.opened);
        state.time = self.time;
        state.log = self.log;
        state
    }
}

/// The part of a header that all later versions have, too.
#[derive(Debug, Deserialize)]
struct AnyHeader {
    version: u32,
    program: Option<String>,
}

/// The later version of a file; `None`: it has this version or an earlier one, or its header is damaged.
pub(super) fn later_version(file: &'static str, text: &[u8]) -> Option<LaterVersion> {
    let header: AnyHeader = lines(text).next()?.decode().ok()?;
    (header.version > VERSION).then_some(LaterVersion {
        file,
        version: header.version,
        program: header.program,
    })
}

/// The changes of one step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Frame {
    /// 1, 2, 3, ... without gaps.
    pub(super) number: u64,
    pub(super) time: Timestamp,
    /// The number of the log's last record.
    pub(super) log: u64,
    pub(super) changes: Vec<Change>,
}

impl Frame {
    pub(super) fn apply_to(self, state: &mut Snapshot) {
        state.time = self.time;
        state.log = self.log;
        self.changes.into_iter().for_each(|change| state.apply(change));
    }
}

/// The text of the files of a generation, which begins with `snapshot` after the frame with the number `frame`.
/// `changes.log` contains its header only.
pub(super) fn generation(snapshot: Snapshot, generation: u64, frame: u64) -> serde_json::Result<(Vec<u8>, Vec<u8>)> {
    let header = Header::of(&snapshot, generation, frame);
    let (mut ledger, mut changes) = (Vec::new(), Vec::new());
    write_line(&mut ledger, &header)?;
    for change in snapshot.into_changes() {
        write_line(&mut ledger, &change)?;
    }
    write_line(&mut changes, &header.as_file(Kind::Changes))?;
    Ok((ledger, changes))
}
