//! The folder and the files of a stage.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Errors of writing files of a stage.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The folder cannot be created.
    #[error("cannot create a temporary folder: {0}; set TMPDIR")]
    Folder(#[source] io::Error),
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Creates a folder for the files of a stage. Dropping it removes the files.
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
