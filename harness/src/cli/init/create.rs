//! Creates the files: all of them, or none.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::super::Stop;

/// A file to be created, relative to the folder of the project.
pub(super) struct NewFile {
    pub(super) path: &'static str,
    pub(super) text: String,
}

/// Creates the files and the folders above them. If one cannot be created, those before it are removed.
///
/// # Errors
/// A file exists, or cannot be written.
pub(super) fn create(folder: &Path, files: &[NewFile]) -> Result<(), Stop> {
    let mut created = Created::default();
    for file in files {
        let path = folder.join(file.path);
        created.add(&path, &file.text).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(&path),
            _ => Stop::Usage(format!("cannot write {}: {error}", path.display())),
        })?;
    }
    created.keep();
    Ok(())
}

/// The error of a file that exists.
fn exists(path: &Path) -> Stop {
    Stop::Usage(format!(
        "{} exists, and init overwrites no file: remove it, or name another folder; nothing was written",
        path.display()
    ))
}

/// What was created so far; it is removed when dropped, unless it is kept.
#[derive(Default)]
pub(super) struct Created {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Created {
    fn add(&mut self, path: &Path, text: &str) -> std::io::Result<()> {
        if let Some(parent) = path.parent() {
            self.add_folder(parent)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        self.files.push(path.to_owned());
        file.write_all(text.as_bytes())
    }

    /// Creates a folder and those above it, unless they exist.
    pub(super) fn add_folder(&mut self, folder: &Path) -> std::io::Result<()> {
        let missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder)?;
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }

    pub(super) fn keep(mut self) {
        self.files.clear();
        self.folders.clear();
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        for file in self.files.drain(..) {
            let _ = fs::remove_file(file);
        }
        for folder in self.folders.drain(..).rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}
