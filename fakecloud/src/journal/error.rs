//! Errors of a ledger's folder.

use std::io;
use std::path::{Path, PathBuf};

use super::damage::Damage;
use super::version::LaterVersion;
use crate::model::StateError;

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
    #[error("{}/{damage}; {recoverable}", folder.display())]
    Damaged {
        /// The ledger's folder.
        folder: PathBuf,
        /// The damage, with its place.
        damage: Box<Damage>,
        /// What a repair keeps, and what it loses.
        recoverable: String,
    },
    /// A later version wrote the files.
    #[error("{}/{later}", folder.display())]
    Later {
        /// The ledger's folder.
        folder: PathBuf,
        /// The file with its version.
        later: LaterVersion,
    },
    /// The files are sound, but their rows contradict each other.
    #[error("{}: {error}", folder.display())]
    Contradictory {
        /// The ledger's folder.
        folder: PathBuf,
        /// The contradiction.
        error: StateError,
    },
    /// The writing thread has ended.
    #[error("the ledger's files are no longer written: {0}")]
    Interrupted(String),
}

pub(super) fn failed<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> JournalError + 'a {
    move |cause| JournalError::File {
        what,
        path: path.to_owned(),
        cause,
    }
}
