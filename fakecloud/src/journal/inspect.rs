//! Checks the files of a ledger, and repairs damaged ones. No process may use the folder at the same time.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use durable::private_files;
use jiff::Timestamp;

use super::damage::Damage;
use super::error::{JournalError, failed};
use super::files::{lock, lock_for_reading, write_generation};
use super::format::{CHANGES, LEDGER, NEXT_CHANGES, NEXT_LEDGER};
use super::load::load;
use super::reader::{Contents, LogFile};
use super::salvage::{Loss, Salvage, Unrecoverable, salvage};
use super::{audit, files};
use crate::model::{Record, RowCounts, Snapshot, StateError, VmState};

/// Why a folder cannot be checked or repaired.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The folder does not exist.
    #[error("there is no folder {}", .0.display())]
    NoFolder(PathBuf),
    /// It contains no ledger.
    #[error("{} contains no ledger", .0.display())]
    NoLedger(PathBuf),
    /// Another process uses it, or a file cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The folder for the repaired files is not empty.
    #[error("{} is not empty: give a new folder by --to", .0.display())]
    NotEmpty(PathBuf),
    /// The folder has no parent for the copy of the damaged files.
    #[error("there is no place beside {} for a copy of the damaged files: give a new folder by --to", .0.display())]
    NoPlace(PathBuf),
    /// All files are damaged, or what is left contradicts itself.
    #[error("{damage}; nothing can be recovered: {cause}")]
    Nothing {
        /// The first damage.
        damage: Box<Damage>,
        /// Why nothing can be recovered.
        cause: Unrecoverable,
    },
}

/// The state in a folder's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Numbers of rows, including terminated VMs.
    pub rows: RowCounts,
    /// VMs that are not terminated.
    pub live_vms: usize,
    /// Number of the last step.
    pub step: u64,
    /// Number of the last record of the cloud's log.
    pub record: u64,
    /// Time of the last step.
    pub time: Timestamp,
}

impl Summary {
    fn of(state: &Snapshot, step: u64) -> Self {
        let live = state.vms().filter(|vm| vm.state != VmState::Terminated);
        Self {
            rows: state.counts(),
            live_vms: live.count(),
            step,
            record: state.log,
            time: state.time,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rows,
            live_vms,
            step,
            record,
            time,
        } = self;
        write!(
            f,
            "{rows} (VMs that are not terminated: {live_vms}); step {step} ({time}); record {record} of the log"
        )
    }
}

/// A property of sound files that is worth knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Note {
    /// The format is that of the previous version.
    #[error("the files have the format of an earlier version, without checksums; `fakecloud serve` rewrites them")]
    Earlier,
    /// The process ended while it wrote a line.
    #[error(
        "{CHANGES} ends with an incomplete line of {0} bytes, of a step that was never acknowledged; \
         `fakecloud serve` removes it"
    )]
    Torn(usize),
    /// The process ended while it wrote the whole ledger.
    #[error("{NEXT_CHANGES} takes the place of {CHANGES} at the next start of `fakecloud serve`")]
    Unfinished,
}

/// The result of a check.
#[derive(Debug)]
pub enum Checked {
    /// The files are sound.
    Sound {
        /// Their content.
        summary: Summary,
        /// What is worth knowing.
        notes: Vec<Note>,
    },
    /// The files are sound, but the rows contradict each other.
    Contradictory {
        /// Their content.
        summary: Summary,
        /// The contradiction.
        error: StateError,
    },
    /// A file is damaged.
    Damaged {
        /// The first damage.
        damage: Damage,
        /// What a repair would do, or why nothing can be recovered.
        plan: Result<Plan, Unrecoverable>,
    },
}

/// What a repair keeps and loses.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The state that it keeps.
    pub kept: Summary,
    /// What it loses.
    pub lost: Vec<Loss>,
    /// The VMs that differ from their last record in the audit log.
    pub vms: Vec<VmLoss>,
}

/// A VM whose last known state is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmLoss {
    /// Its id.
    pub id: String,
    /// `NAMESPACE/NAME` of its machine.
    pub machine: String,
    /// Its last state in the audit log.
    pub was: VmState,
    /// When it was in that state.
    pub at: Timestamp,
    /// Its state in the repaired ledger; `None`: it does not exist there.
    pub now: Option<VmState>,
}

impl fmt::Display for VmLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            machine,
            was,
            at,
            now,
        } = self;
        write!(f, "VM {id} of {machine}, {was} at {at}, ")?;
        match now {
            None => f.write_str("does not exist any more"),
            Some(now) => write!(f, "is {now} again"),
        }
    }
}

/// A finished repair.
#[derive(Debug)]
pub struct Repaired {
    /// The damage.
    pub damage: Damage,
    /// What is kept and lost.
    pub plan: Plan,
    /// The folder with the repaired files.
    pub folder: PathBuf,
    /// The folder with the copies of the damaged files; `None`: they are unchanged.
    pub backup: Option<PathBuf>,
}

/// Checks a ledger's files; changes nothing.
///
/// # Errors
/// The folder has no ledger, is in use, cannot be read, or contains files of a later version. Damage is no error but a
/// result.
pub fn check(folder: &Path) -> Result<Checked, InspectError> {
    if !folder.is_dir() {
        return Err(InspectError::NoFolder(folder.to_owned()));
    }
    let _lock = lock_for_reading(folder)?;
    let contents = Contents::read(folder)?;
    let loaded = match load(&contents) {
        Ok(Some(loaded)) => loaded,
        Ok(None) => return Err(InspectError::NoLedger(folder.to_owned())),
        Err(damage) => {
            let plan = match salvage(&contents) {
                Ok(salvage) => Ok(Plan::of(folder, &salvage)?),
                Err(cause) => Err(cause),
            };
            return Ok(Checked::Damaged { damage, plan });
        }
    };
    let summary = Summary::of(&loaded.state, loaded.frame);
    let (LogFile::Current(extent) | LogFile::Next(extent) | LogFile::Earlier(extent)) = loaded.log;
    let mut notes = match loaded.log {
        LogFile::Current(_) => Vec::new(),
        LogFile::Next(_) => vec![Note::Unfinished],
        LogFile::Earlier(_) => vec![Note::Earlier],
    };
    if extent.torn > 0 {
        notes.push(Note::Torn(extent.torn));
    }
    match loaded.state.check() {
        Ok(()) => Ok(Checked::Sound { summary, notes }),
        Err(error) => Ok(Checked::Contradictory { summary, error }),
    }
}

/// Writes what can be recovered of a damaged ledger: into the new folder `to`, or in place, after the damaged files were
/// copied into a new folder beside `folder`. `None`: the files are sound, and nothing is written.
///
/// # Errors
/// The folder has no ledger, is in use, cannot be written, or contains files of a later version; nothing can be recovered;
/// the rows contradict each other. Then the files of the ledger are unchanged.
pub fn repair(folder: &Path, to: Option<&Path>) -> Result<Option<Repaired>, InspectError> {
    if !folder.is_dir() {
        return Err(InspectError::NoFolder(folder.to_owned()));
    }
    let _lock = lock(folder)?;
    let contents = Contents::read(folder)?;
    let damage = match load(&contents) {
        Ok(Some(loaded)) => match loaded.state.check() {
            Ok(()) => return Ok(None),
            Err(error) => return Err(contradictory(folder, error)),
        },
        Ok(None) => return Err(InspectError::NoLedger(folder.to_owned())),
        Err(damage) => damage,
    };
    let salvage = match salvage(&contents) {
        Ok(salvage) => salvage,
        Err(cause) => {
            return Err(InspectError::Nothing {
                damage: Box::new(damage),
                cause,
            });
        }
    };
    let plan = Plan::of(folder, &salvage)?;
    let backup = match to {
        Some(to) => {
            create_empty(to)?;
            copy_audit(folder, to)?;
            None
        }
        None => Some(back_up(folder)?),
    };
    let target = to.unwrap_or(folder);
    // The logs of all generations so far are old from now on.
    let generation = salvage.generation.saturating_add(2);
    write_generation(target, salvage.state, generation, salvage.frame, &[])?;
    Ok(Some(Repaired {
        damage,
        plan,
        folder: target.to_owned(),
        backup,
    }))
}

fn contradictory(folder: &Path, error: StateError) -> InspectError {
    let folder = folder.to_owned();
    InspectError::Journal(JournalError::Contradictory { folder, error })
}

impl Plan {
    fn of(folder: &Path, salvage: &Salvage) -> Result<Self, InspectError> {
        let records = audit::read(folder, u64::MAX)?;
        Ok(Self {
            kept: Summary::of(&salvage.state, salvage.frame),
            lost: salvage.losses.clone(),
            vms: differences(&records, &salvage.state),
        })
    }
}

/// The VMs whose last record differs from the state: they are missing, or changed after the state's last record.
fn differences(records: &[Record], state: &Snapshot) -> Vec<VmLoss> {
    let mut last = BTreeMap::new();
    for record in records.iter().filter(|record| !record.vm.is_empty()) {
        if let Some(was) = record.state {
            last.insert(record.vm.as_str(), (was, record));
        }
    }
    let kept: BTreeMap<&str, VmState> = state.vms().map(|vm| (vm.id.as_str(), vm.state)).collect();
    let differs = |id: &str, was: VmState, record: &Record| match kept.get(id) {
        None => was != VmState::Terminated,
        Some(now) => record.sequence > state.log && *now != was,
    };
    last.into_iter()
        .filter(|(id, (was, record))| differs(id, *was, record))
        .map(|(id, (was, record))| VmLoss {
            id: id.to_owned(),
            machine: record.machine.clone(),
            was,
            at: record.time,
            now: kept.get(id).copied(),
        })
        .collect()
}

/// Creates a folder, which may exist if it is empty.
fn create_empty(folder: &Path) -> Result<(), InspectError> {
    private_files::create_folder(folder).map_err(failed("create the folder", folder))?;
    let mut entries = std::fs::read_dir(folder).map_err(failed("read", folder))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(InspectError::NotEmpty(folder.to_owned())),
    }
}

fn copy_audit(from: &Path, to: &Path) -> Result<(), JournalError> {
    for path in audit::files_in(from)? {
        let Some(name) = path.file_name() else { continue };
        let new = to.join(name);
        let mut file = private_files::open_unchanged(&path).map_err(failed("read", &path))?;
        let mut copy = private_files::replace(&new, b"").map_err(failed("write", &new))?;
        io::copy(&mut file, &mut copy).map_err(failed("write", &new))?;
    }
    Ok(())
}

/// Copies the files that a repair replaces or removes into a new folder `NAME.damaged-NUMBER` beside `folder`.
fn back_up(folder: &Path) -> Result<PathBuf, InspectError> {
    let whole = folder.canonicalize().map_err(failed("read", folder))?;
    let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else {
        return Err(InspectError::NoPlace(folder.to_owned()));
    };
    let numbered = (1_u32..).map(|number| {
        let mut name = name.to_owned();
        name.push(format!(".damaged-{number}"));
        parent.join(name)
    });
    let backup = numbered.into_iter().find(|path| path.symlink_metadata().is_err());
    let backup = backup.ok_or_else(|| InspectError::NoPlace(folder.to_owned()))?;
    // `ledger.json.new` is never read, but it is replaced.
    let mut copied = Vec::new();
    for name in [LEDGER, CHANGES, NEXT_CHANGES, NEXT_LEDGER] {
        let path = folder.join(name);
        if let Some(content) = private_files::read(&path).map_err(failed("read", &path))? {
            copied.push((name, content));
        }
    }
    private_files::create_folder(&backup).map_err(failed("create the folder", &backup))?;
    for (name, content) in copied {
        files::write_new(&backup, name, &content)?;
    }
    Ok(backup)
}
