//! The folder and the files of a stage.

use std::io;
use std::path::{Path, PathBuf};

use durable::private_files;

use crate::run_folder::RunFolder;

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
pub(super) fn folder() -> Result<RunFolder, FileError> {
    RunFolder::new().map_err(FileError::Folder)
}

/// Writes a new file that only this user can read; an existing file or link of this name is removed first.
///
/// # Errors
/// [`FileError::Write`].
pub fn private_file(path: &Path, text: &str) -> Result<PathBuf, FileError> {
    let path = path.to_owned();
    match private_files::replace(&path, text.as_bytes()) {
        Ok(_) => Ok(path),
        Err(source) => Err(FileError::Write { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folders_and_files_of_a_stage_are_readable_only_by_this_user() {
        let folder = folder().unwrap();
        let file = private_file(&folder.path().join("kubeconfig"), "text").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(folder.path()), mode(&file)), (0o700, 0o600));
    }

    #[test]
    fn a_link_in_place_of_a_file_is_replaced_and_its_target_is_unchanged() {
        let folder = folder().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("kubeconfig"));
        std::fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        private_file(&link, "new").unwrap();
        assert!(link.symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "old");
    }
}
