//! `audit.jsonl`: all records of the cloud's log, one per line, in files of bounded size. `audit.jsonl.1` is the file
//! before it, `audit.jsonl.2` the one before that.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use durable::private_files;

use super::error::{JournalError, failed};
use crate::model::Record;

const AUDIT: &str = "audit.jsonl";
/// Length of the end of the files that is read at the start, in bytes.
const READ: u64 = 64 << 20;

/// Limits of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditLimits {
    /// Size of a file, in bytes, before the next one begins.
    pub file_size: u64,
    /// Number of older files that are kept.
    pub files: u32,
}

/// The open file.
#[derive(Debug)]
pub(super) struct Audit {
    folder: PathBuf,
    file: File,
    length: u64,
    limits: AuditLimits,
}

impl Audit {
    pub(super) fn open(folder: &Path, limits: AuditLimits) -> Result<Self, JournalError> {
        let path = folder.join(AUDIT);
        let file = append_to(&path).map_err(failed("open", &path))?;
        let mut audit = Self {
            folder: folder.to_owned(),
            file,
            length: 0,
            limits,
        };
        audit.end_line().map_err(failed("read", &path))?;
        Ok(audit)
    }

    /// Ends a torn last line, so that it does not swallow the next one.
    fn end_line(&mut self) -> io::Result<()> {
        self.length = self.file.metadata()?.len();
        let mut end = [b'\n'];
        if self.length > 0 {
            self.file.seek(SeekFrom::End(-1))?;
            self.file.read_exact(&mut end)?;
        }
        if end != [b'\n'] {
            self.file.write_all(b"\n")?;
            self.length += 1;
        }
        Ok(())
    }

    /// Appends records, after a rotation if the file would become too long.
    pub(super) fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
        let path = self.folder.join(AUDIT);
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, record).map_err(|error| failed("write", &path)(error.into()))?;
            lines.push(b'\n');
        }
        let length = lines.len() as u64;
        if self.length > 0 && self.length.saturating_add(length) > self.limits.file_size {
            self.rotate().map_err(failed("rotate", &path))?;
        }
        self.file.write_all(&lines).map_err(failed("write", &path))?;
        self.length += length;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let kept = self.limits.files;
        // More of them exist if the limit was higher before.
        let mut oldest = kept;
        while oldest < u32::MAX && remove(&numbered(&self.folder, oldest))? {
            oldest += 1;
        }
        for number in (0..kept).rev() {
            match std::fs::rename(numbered(&self.folder, number), numbered(&self.folder, number + 1)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = append_to(&self.folder.join(AUDIT))?;
        self.length = 0;
        Ok(())
    }
}

/// The path of a file; 0 is the current one.
fn numbered(folder: &Path, number: u32) -> PathBuf {
    match number {
        0 => folder.join(AUDIT),
        _ => folder.join(format!("{AUDIT}.{number}")),
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    private_files::open(path, OpenOptions::new().create(true).read(true).append(true))
}

/// Removes a file; returns whether it existed.
fn remove(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a file in a folder has records. The current one is empty after a rotation.
pub(super) fn has_records(folder: &Path) -> Result<bool, JournalError> {
    for path in files_in(folder)? {
        let metadata = path.symlink_metadata().map_err(failed("read", &path))?;
        if metadata.len() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The files in a folder, the newest first.
pub(super) fn files_in(folder: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed("read", folder))? {
        let name = entry.map_err(failed("read", folder))?.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(AUDIT));
        match rest {
            Some("") => numbers.push(0),
            Some(rest) => numbers.extend(rest.strip_prefix('.').and_then(|number| number.parse::<u32>().ok())),
            None => {}
        }
    }
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|number| numbered(folder, number)).collect())
}

/// The last records, up to the number `last`.
pub(super) fn read(folder: &Path, last: u64) -> Result<Vec<Record>, JournalError> {
    let mut parts = Vec::new();
    let mut budget = READ;
    for path in files_in(folder)? {
        if budget == 0 {
            break;
        }
        let file = private_files::open_unchanged(&path).map_err(failed("open", &path))?;
        let length = file.metadata().map_err(failed("read", &path))?.len();
        let part = length.min(budget);
        budget -= part;
        parts.push((path, file, length - part));
    }
    let mut records = VecDeque::new();
    for (path, file, from) in parts.into_iter().rev() {
        collect(file, from, last, &mut records).map_err(failed("read", &path))?;
    }
    Ok(records.into())
}

/// Appends the records of a file.
fn collect(mut file: File, from: u64, last: u64, records: &mut VecDeque<Record>) -> io::Result<()> {
    file.seek(SeekFrom::Start(from))?;
    for line in BufReader::new(file).split(b'\n') {
        // The first line may be incomplete, and lines may be torn where a process died.
        let Ok(record) = serde_json::from_slice::<Record>(&line?) else {
            continue;
        };
        // A number that repeats replaces the earlier record, which no client has seen.
        while records.back().is_some_and(|before| before.sequence >= record.sequence) {
            records.pop_back();
        }
        if records
            .back()
            .is_some_and(|before| before.sequence.checked_add(1) != Some(record.sequence))
        {
            records.clear();
        }
        if record.sequence <= last {
            records.push_back(record);
        }
    }
    Ok(())
}
