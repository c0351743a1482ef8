//! The files of a ledger's folder.
//!
//! `ledger.json` contains the whole ledger in two lines: the number of the last frame in it, and the state.
//! `changes.log` contains the later frames, one per line: a checksum, a space, and JSON. `audit.jsonl` contains all
//! records of the cloud's log, one per line; it is never truncated. `lock` excludes other processes. Only their owner
//! can read the files, because they contain user data.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::{Change, Record, Snapshot};

const LEDGER: &str = "ledger.json";
const CHANGES: &str = "changes.log";
const AUDIT: &str = "audit.jsonl";
const LOCK: &str = "lock";
/// Minimum length of the log of changes, in bytes, before the whole ledger is written.
const LONG: u64 = 8 << 20;
/// Length of the end of the audit file that is read at the start, in bytes.
const AUDIT_READ: u64 = 64 << 20;

/// Why a folder is unusable.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file cannot be read or written.
    #[error("cannot {what} {path}: {cause}")]
    File {
        /// What was attempted.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// Another process uses it.
    #[error("{0} is in use by another fakecloud: end it, or give another folder by --data")]
    InUse(PathBuf),
    /// A file is damaged.
    #[error(
        "{path}, line {line}, is damaged: {reason}; restore the folder from a copy, or give an empty one by --data"
    )]
    Damaged {
        /// The file's path.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The damage.
        reason: String,
    },
    /// The writing thread has ended.
    #[error("the ledger's files are no longer written: {0}")]
    Interrupted(String),
}

/// The changes of one step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Frame {
    pub(super) number: u64,
    pub(super) time: Timestamp,
    /// The number of the log's last record.
    pub(super) log: u64,
    pub(super) changes: Vec<Change>,
}

/// A group of frames that is written together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) frames: Vec<Frame>,
    pub(super) records: Vec<Record>,
    /// The whole ledger after the frame with this number.
    pub(super) snapshot: Option<(u64, Box<Snapshot>)>,
}

/// The open files.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    changes: File,
    audit: File,
    /// Lengths of the log of changes and of the last whole ledger, in bytes.
    length: u64,
    whole: u64,
    /// The lock, until the process ends.
    _lock: File,
}

/// The content of a folder at the start.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) files: Files,
    pub(super) state: Option<Snapshot>,
    pub(super) records: Vec<Record>,
    /// Number of the last frame.
    pub(super) number: u64,
}

fn failed<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> JournalError + 'a {
    move |cause| JournalError::File {
        what,
        path: path.to_owned(),
        cause,
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

impl Files {
    pub(super) fn open(folder: &Path) -> Result<Opened, JournalError> {
        std::fs::create_dir_all(folder).map_err(failed("create the folder", folder))?;
        let lock_path = folder.join(LOCK);
        let lock = private().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(failed("open", &lock_path))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => JournalError::InUse(folder.to_owned()),
            TryLockError::Error(cause) => failed("lock", &lock_path)(cause),
        })?;
        let (mut state, mut number, whole) = read_whole(&folder.join(LEDGER))?;
        let path = folder.join(CHANGES);
        let changes = private()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path);
        let mut changes = changes.map_err(failed("open", &path))?;
        let (frames, length) = read_frames(&mut changes, &path)?;
        let written = number;
        for frame in frames.into_iter().filter(|frame| frame.number > written) {
            number = frame.number;
            if let Some(state) = &mut state {
                state.time = frame.time;
                state.log = frame.log;
                frame.changes.into_iter().for_each(|change| state.apply(change));
            }
        }
        // A frame that was being written when the process died is truncated: no caller got its response.
        changes.set_len(length).map_err(failed("cut", &path))?;
        changes.seek(SeekFrom::End(0)).map_err(failed("read", &path))?;
        let path = folder.join(AUDIT);
        let audit = private().create(true).read(true).append(true).open(&path);
        let mut audit = audit.map_err(failed("open", &path))?;
        let records = match &state {
            Some(state) => read_audit(&mut audit, state.log).map_err(failed("read", &path))?,
            None => Vec::new(),
        };
        let files = Self {
            folder: folder.to_owned(),
            changes,
            audit,
            length,
            whole,
            _lock: lock,
        };
        Ok(Opened {
            files,
            state,
            records,
            number,
        })
    }

    /// Writes a batch so that it survives a crash of the host; returns whether the log has become long.
    pub(super) fn write(&mut self, batch: Batch) -> Result<bool, JournalError> {
        let path = self.folder.join(AUDIT);
        let mut lines = Vec::new();
        for record in &batch.records {
            serde_json::to_writer(&mut lines, record).map_err(|error| failed("write", &path)(error.into()))?;
            lines.push(b'\n');
        }
        self.audit.write_all(&lines).map_err(failed("write", &path))?;
        let path = self.folder.join(CHANGES);
        let mut lines = Vec::new();
        let mut later = Vec::new();
        let snapshot_at = batch.snapshot.as_ref().map(|(number, _)| *number);
        for frame in &batch.frames {
            let line = line_of(frame).map_err(|error| failed("write", &path)(error.into()))?;
            if snapshot_at.is_some_and(|number| frame.number > number) {
                later.extend_from_slice(&line);
            }
            lines.extend(line);
        }
        self.changes.write_all(&lines).map_err(failed("write", &path))?;
        self.changes.sync_data().map_err(failed("write", &path))?;
        self.length += lines.len() as u64;
        if let Some((number, snapshot)) = batch.snapshot {
            self.write_whole(number, &snapshot, &later)?;
        }
        Ok(self.length > LONG.max(2 * self.whole))
    }

    /// Writes the whole ledger, and restarts the log of changes with `later`.
    fn write_whole(&mut self, number: u64, snapshot: &Snapshot, later: &[u8]) -> Result<(), JournalError> {
        let path = self.folder.join(LEDGER);
        let mut text = format!("{number}\n").into_bytes();
        serde_json::to_writer(&mut text, snapshot).map_err(|error| failed("write", &path)(error.into()))?;
        text.push(b'\n');
        self.whole = text.len() as u64;
        self.replace(LEDGER, &text)?;
        self.changes = self.replace(CHANGES, later)?;
        self.length = later.len() as u64;
        Ok(())
    }

    /// Replaces a file atomically.
    fn replace(&self, name: &str, text: &[u8]) -> Result<File, JournalError> {
        let path = self.folder.join(name);
        let new = self.folder.join(format!("{name}.new"));
        let file = private().create(true).truncate(true).read(true).write(true).open(&new);
        let mut file = file.map_err(failed("open", &new))?;
        file.write_all(text)
            .and_then(|()| file.sync_all())
            .map_err(failed("write", &new))?;
        std::fs::rename(&new, &path).map_err(failed("replace", &path))?;
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(failed("write", &self.folder))?;
        Ok(file)
    }
}

fn checksum(text: &[u8]) -> String {
    let digest = Sha256::digest(text);
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn line_of(frame: &Frame) -> Result<Vec<u8>, serde_json::Error> {
    let text = serde_json::to_vec(frame)?;
    let mut line = checksum(&text).into_bytes();
    line.push(b' ');
    line.extend(text);
    line.push(b'\n');
    Ok(line)
}

/// The frame of a line without its line end; `None`: damaged.
fn frame_of(line: &[u8]) -> Option<Frame> {
    let (sum, text) = line.split_at_checked(16)?;
    let text = text.strip_prefix(b" ")?;
    if sum != checksum(text).as_bytes() {
        return None;
    }
    serde_json::from_slice(text).ok()
}

/// The whole ledger, the number of its last frame, and its length.
fn read_whole(path: &Path) -> Result<(Option<Snapshot>, u64, u64), JournalError> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, 0, 0)),
        Err(error) => return Err(failed("read", path)(error)),
    };
    let damaged = |line, reason: String| JournalError::Damaged {
        path: path.to_owned(),
        line,
        reason,
    };
    let (number, state) = text
        .iter()
        .position(|byte| *byte == b'\n')
        .map(|end| (&text[..end], &text[end + 1..]))
        .ok_or_else(|| damaged(1, "it has no second line".to_owned()))?;
    let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
    let number = number.ok_or_else(|| damaged(1, "it is not a number".to_owned()))?;
    let state = serde_json::from_slice(state).map_err(|error| damaged(2, error.to_string()))?;
    Ok((Some(state), number, text.len() as u64))
}

/// The frames of the log, and the length of its valid part. A damaged end was being written when the process died;
/// damage before a valid line is an error.
fn read_frames(file: &mut File, path: &Path) -> Result<(Vec<Frame>, u64), JournalError> {
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(failed("read", path))?;
    let (mut frames, mut good, mut place) = (Vec::new(), 0, 0);
    let mut bad = None;
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        place += line.len();
        let frame = line.strip_suffix(b"\n").and_then(frame_of);
        match (frame, bad) {
            (Some(frame), None) => {
                frames.push(frame);
                good = place;
            }
            (None, None) => bad = Some(index + 1),
            (Some(_), Some(line)) => {
                return Err(JournalError::Damaged {
                    path: path.to_owned(),
                    line,
                    reason: "its checksum is wrong, and later lines are valid".to_owned(),
                });
            }
            (None, Some(_)) => {}
        }
    }
    Ok((frames, good as u64))
}

/// The last records, up to the number `last`.
fn read_audit(file: &mut File, last: u64) -> io::Result<Vec<Record>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(AUDIT_READ)))?;
    let mut records = VecDeque::<Record>::new();
    for line in BufReader::new(&mut *file).split(b'\n') {
        // The first line may be incomplete, and lines may be torn where a process died.
        let Ok(record) = serde_json::from_slice::<Record>(&line?) else {
            continue;
        };
        // A number that repeats replaces the earlier record, which no caller has seen.
        while records.back().is_some_and(|before| before.sequence >= record.sequence) {
            records.pop_back();
        }
        if records
            .back()
            .is_some_and(|before| before.sequence + 1 != record.sequence)
        {
            records.clear();
        }
        if record.sequence <= last {
            records.push_back(record);
        }
    }
    // A torn last line must not swallow the next one.
    let mut end = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut end)?;
    }
    if end != [b'\n'] {
        file.write_all(b"\n")?;
    }
    Ok(records.into())
}
