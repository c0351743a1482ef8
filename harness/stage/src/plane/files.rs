//! The folder and the files of a stage.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Why a file of a stage is not written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no folder for it.
    #[error("cannot make a temporary folder: {0}; set TMPDIR")]
    Folder(#[source] io::Error),
    /// The file is not written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A folder for files that end with a stage.
///
/// # Errors
/// [`FileError::Folder`].
pub(super) fn folder() -> Result<TempDir, FileError> {
    tempfile::Builder::new()
        .prefix("drydock-")
        .tempdir()
        .map_err(FileError::Folder)
}

/// Writes a file that only this user can read.
///
/// # Errors
/// [`FileError::Write`].
pub fn private_file(path: &Path, text: &str) -> Result<PathBuf, FileError> {
    let path = path.to_owned();
    match apiserver::serve::write_private(&path, text) {
        Ok(()) => Ok(path),
        Err(source) => Err(FileError::Write { path, source }),
    }
}
