//! The files of a ledger's folder.
//!
//! `ledger.json` contains the whole ledger, `changes.log` the later frames; `format` defines both. `audit.jsonl`
//! contains the records of the cloud's log. `lock` excludes other processes. Only their owner can read the files,
//! because they contain user data.
//!
//! A pair of `ledger.json` and `changes.log` is a generation. The next one is written in this order, each step durable
//! before the following one: `changes.log.new`, `ledger.json.new`, rename of the latter, rename of the former. The
//! second-last step is the one that counts: after it, `changes.log.new` replaces the log of the previous generation.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use durable::lines::write_line;
use durable::private_files;

use super::audit::{self, Audit, AuditLimits};
use super::damage::Damage;
use super::error::{JournalError, failed};
use super::format::{self, CHANGES, Frame, LEDGER, NEXT_CHANGES, NEXT_LEDGER};
use super::load::load;
use super::reader::{Contents, Extent, Loaded, LogFile};
use super::salvage::{Salvage, salvage};
use crate::model::{Record, Snapshot};

const LOCK: &str = "lock";
/// Minimum length of the log of changes, in bytes, before the whole ledger is written.
const LONG: u64 = 8 << 20;

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
    audit: Audit,
    /// `None`: the folder is new.
    pair: Option<Pair>,
    /// The lock, until the process ends.
    _lock: File,
}

/// The current generation.
#[derive(Debug)]
pub(super) struct Pair {
    generation: u64,
    changes: File,
    /// Lengths of the log of changes and of the whole ledger, in bytes.
    length: u64,
    whole: u64,
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

impl Files {
    pub(super) fn open(folder: &Path, limits: AuditLimits) -> Result<Opened, JournalError> {
        private_files::create_folder(folder).map_err(failed("create the folder", folder))?;
        let lock = lock(folder)?;
        let contents = Contents::read(folder)?;
        let loaded = load(&contents).map_err(|damage| damaged(folder, &contents, damage))?;
        // Nothing has been written yet, so a contradictory ledger stays unchanged.
        if let Some(Loaded { state, .. }) = &loaded {
            state.check().map_err(|error| JournalError::Contradictory {
                folder: folder.to_owned(),
                error,
            })?;
        }
        let audit = Audit::open(folder, limits)?;
        let Some(Loaded {
            state,
            frame,
            generation,
            log,
        }) = loaded
        else {
            let files = Self {
                folder: folder.to_owned(),
                audit,
                pair: None,
                _lock: lock,
            };
            return Ok(Opened {
                files,
                state: None,
                records: Vec::new(),
                number: 0,
            });
        };
        let records = audit::read(folder, state.log)?;
        let whole = contents.ledger.map_or(0, |ledger| ledger.len() as u64);
        let (LogFile::Current(extent) | LogFile::Next(extent) | LogFile::Earlier(extent)) = log;
        if extent.torn > 0 {
            tracing::warn!(
                folder = %folder.display(),
                bytes = extent.torn,
                "removing the incomplete last line of the ledger's log, which was being written when the process ended; \
                 no client got its reply"
            );
        }
        let pair = match log {
            LogFile::Earlier(_) => {
                tracing::info!(
                    folder = %folder.display(),
                    "the ledger has the format of an earlier version, without checksums; writing it in the current format"
                );
                write_generation(folder, state.clone(), 1, frame, &[])?
            }
            LogFile::Next(_) => {
                rename(folder, NEXT_CHANGES, CHANGES)?;
                Pair::continued(folder, generation, extent, whole)?
            }
            LogFile::Current(_) => Pair::continued(folder, generation, extent, whole)?,
        };
        let files = Self {
            folder: folder.to_owned(),
            audit,
            pair: Some(pair),
            _lock: lock,
        };
        Ok(Opened {
            files,
            state: Some(state),
            records,
            number: frame,
        })
    }

    /// Writes a batch so that it survives a crash of the host; returns whether the log has become long.
    pub(super) fn write(&mut self, batch: Batch) -> Result<bool, JournalError> {
        // Records without a ledger are damage.
        let is_new = self.pair.is_none();
        if !is_new {
            self.audit.append(&batch.records)?;
        }
        let path = self.folder.join(CHANGES);
        let included = batch.snapshot.as_ref().map_or(0, |(number, _)| *number);
        let mut lines = Vec::new();
        for frame in batch.frames.iter().filter(|frame| frame.number > included) {
            write_line(&mut lines, frame).map_err(|error| failed("write", &path)(error.into()))?;
        }
        let pair = match (batch.snapshot, &mut self.pair) {
            (Some((number, snapshot)), pair) => {
                let generation = pair.as_ref().map_or(0, |pair| pair.generation).saturating_add(1);
                let written = write_generation(&self.folder, *snapshot, generation, number, &lines)?;
                pair.insert(written)
            }
            (None, Some(pair)) => {
                let written = pair.changes.write_all(&lines).and_then(|()| pair.changes.sync_data());
                written.map_err(failed("write", &path))?;
                pair.length += lines.len() as u64;
                pair
            }
            // The first batch of a new folder contains the whole ledger.
            (None, None) => return Err(failed("write", &path)(ErrorKind::NotFound.into())),
        };
        let long = pair.length > LONG.max(pair.whole.saturating_mul(2));
        if is_new {
            self.audit.append(&batch.records)?;
        }
        Ok(long)
    }
}

impl Pair {
    /// Opens the log after its valid part.
    fn continued(folder: &Path, generation: u64, extent: Extent, whole: u64) -> Result<Self, JournalError> {
        let path = folder.join(CHANGES);
        let changes = private_files::open(&path, OpenOptions::new().read(true).write(true));
        let mut changes = changes.map_err(failed("open", &path))?;
        let length = extent.valid as u64;
        changes.set_len(length).map_err(failed("cut", &path))?;
        changes.seek(SeekFrom::End(0)).map_err(failed("read", &path))?;
        Ok(Self {
            generation,
            changes,
            length,
            whole,
        })
    }
}

impl Contents {
    /// Reads the files; changes nothing.
    ///
    /// # Errors
    /// A file cannot be read, or a later version wrote it.
    pub(super) fn read(folder: &Path) -> Result<Self, JournalError> {
        let file = |name: &str| {
            let path = folder.join(name);
            private_files::read(&path).map_err(failed("read", &path))
        };
        let contents = Self {
            ledger: file(LEDGER)?,
            changes: file(CHANGES)?,
            next_changes: file(NEXT_CHANGES)?,
            audit: audit::has_records(folder)?,
        };
        match contents.later_version() {
            None => Ok(contents),
            Some(later) => Err(JournalError::Later {
                folder: folder.to_owned(),
                later,
            }),
        }
    }
}

/// Takes the lock of a folder.
pub(super) fn lock(folder: &Path) -> Result<File, JournalError> {
    let path = folder.join(LOCK);
    let options = OpenOptions::new().create(true).truncate(false).write(true).clone();
    let lock = private_files::open(&path, &options).map_err(failed("open", &path))?;
    taken(lock.try_lock(), folder, &path)?;
    Ok(lock)
}

/// Takes the lock of a folder for reading; `None`: the folder has none.
pub(super) fn lock_for_reading(folder: &Path) -> Result<Option<File>, JournalError> {
    let path = folder.join(LOCK);
    match private_files::open_unchanged(&path) {
        Ok(lock) => {
            taken(lock.try_lock_shared(), folder, &path)?;
            Ok(Some(lock))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("open", &path)(error)),
    }
}

fn taken(result: Result<(), TryLockError>, folder: &Path, path: &Path) -> Result<(), JournalError> {
    result.map_err(|error| match error {
        TryLockError::WouldBlock => JournalError::InUse(folder.to_owned()),
        TryLockError::Error(cause) => failed("lock", path)(cause),
    })
}

fn damaged(folder: &Path, contents: &Contents, damage: Damage) -> JournalError {
    let recoverable = match salvage(contents) {
        Ok(salvage) => format!(
            "`fakecloud ledger repair {}` keeps {} and loses {}",
            folder.display(),
            salvage.kept(),
            salvage.lost()
        ),
        Err(cause) => format!("nothing can be recovered: {cause}"),
    };
    JournalError::Damaged {
        folder: folder.to_owned(),
        damage: Box::new(damage),
        recoverable,
    }
}

impl Salvage {
    /// What is kept, in one line.
    fn kept(&self) -> String {
        format!("{} of step {} ({})", self.state.counts(), self.frame, self.state.time)
    }

    /// What is lost, in one line.
    fn lost(&self) -> String {
        let losses: Vec<String> = self.losses.iter().map(ToString::to_string).collect();
        if losses.is_empty() {
            return "nothing".to_owned();
        }
        losses.join("; ")
    }
}

/// Writes the whole ledger after the frame with the number `frame`, and a log with the lines `later`.
pub(super) fn write_generation(
    folder: &Path,
    snapshot: Snapshot,
    generation: u64,
    frame: u64,
    later: &[u8],
) -> Result<Pair, JournalError> {
    let path = folder.join(LEDGER);
    let text = format::generation(snapshot, generation, frame);
    let (ledger, mut changes) = text.map_err(|error| failed("write", &path)(error.into()))?;
    changes.extend_from_slice(later);
    let file = write_new(folder, NEXT_CHANGES, &changes)?;
    write_new(folder, NEXT_LEDGER, &ledger)?;
    rename(folder, NEXT_LEDGER, LEDGER)?;
    rename(folder, NEXT_CHANGES, CHANGES)?;
    Ok(Pair {
        generation,
        changes: file,
        length: changes.len() as u64,
        whole: ledger.len() as u64,
    })
}

/// Writes a new file that survives a crash of the host.
pub(super) fn write_new(folder: &Path, name: &str, text: &[u8]) -> Result<File, JournalError> {
    let path = folder.join(name);
    let file = private_files::replace(&path, text).and_then(|file| file.sync_all().map(|()| file));
    let file = file.map_err(failed("write", &path))?;
    sync(folder)?;
    Ok(file)
}

fn rename(folder: &Path, from: &str, to: &str) -> Result<(), JournalError> {
    let path = folder.join(to);
    std::fs::rename(folder.join(from), &path).map_err(failed("replace", &path))?;
    sync(folder)
}

fn sync(folder: &Path) -> Result<(), JournalError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(failed("write", folder))
}
