//! The temporary folder of a run, and the lock that tells a running owner from a killed one.
//!
//! The owner holds an advisory lock (`flock`) on a file of the folder for its life. The kernel releases the lock when the
//! process ends for any reason, so a folder whose lock is free is a leftover (see [`crate::leftovers`]).

use std::fs::{DirEntry, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use durable::private_files;

/// The prefix of the names of all temporary files and folders.
pub(crate) const PREFIX: &str = "drydock-";
/// The locked file of a folder. Its content is the command of the owner.
pub(crate) const LOCK: &str = ".drydock-lock";
/// The file with the name of the kind cluster that ends together with the folder.
const CLUSTER: &str = ".drydock-cluster";
/// The environment variable of all started programs that contains their run's folder. The programs of a killed run are
/// found by it.
pub(crate) const VARIABLE: &str = "DRYDOCK_RUN_FOLDER";
/// How often the contents are removed until nothing is added meanwhile.
const REMOVALS: usize = 3;
/// How often a new folder is created until no other process locks it first.
const ATTEMPTS: usize = 10;

/// A temporary folder that only this user can read. Dropping it removes it.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// `None`: the file system has no locks. Then no process regards the folder as a leftover.
    _lock: Option<File>,
}

impl RunFolder {
    /// Creates a folder for the files of a run.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn new() -> io::Result<Self> {
        Self::with_prefix(PREFIX)
    }

    /// Creates a folder whose name starts with `prefix`, which starts with `drydock-`.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn with_prefix(prefix: &str) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            if let Some(folder) = Self::attempt(prefix)? {
                return Ok(folder);
            }
        }
        Err(io::Error::other("other processes keep locking its new folders"))
    }

    /// `None`: another process locked or removed the folder before this one could lock it.
    fn attempt(prefix: &str) -> io::Result<Option<Self>> {
        let mode = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(mode.clone())
            .tempdir()?;
        // The umask may have removed a bit.
        std::fs::set_permissions(folder.path(), mode)?;
        let path = folder.path().join(LOCK);
        let mut lock = private_files::open(&path, OpenOptions::new().write(true).create_new(true))?;
        let lock = match lock.try_lock() {
            Ok(()) if is_at(&lock, &path) => {
                lock.write_all(this_command().as_bytes())?;
                Some(lock)
            }
            Ok(()) | Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(_)) => {
                std::fs::remove_file(&path)?;
                None
            }
        };
        Ok(Some(Self {
            path: folder.keep(),
            _lock: lock,
        }))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records a kind cluster that this process is about to create. If the process is killed, the cluster is a leftover
    /// too.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn record_cluster(&self, name: &str) -> io::Result<()> {
        private_files::replace(&self.path.join(CLUSTER), name.as_bytes()).map(drop)
    }

    /// Declares that the recorded cluster outlives this process.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn keep_cluster(&self) -> io::Result<()> {
        match std::fs::remove_file(self.path.join(CLUSTER)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}

/// The kind cluster that is recorded in a folder.
pub(crate) fn recorded_cluster(folder: &Path) -> Option<String> {
    let name = private_files::read(&folder.join(CLUSTER)).ok().flatten()?;
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}

/// Removes a folder. Its lock file goes last, so that a folder of which a part remains stays recognisable.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    // A program that is just ending may add a file.
    let mut removals = 0..REMOVALS;
    while removals.next().is_some() {
        let mut others = std::fs::read_dir(folder)?.filter(|entry| !is_lock(entry)).peekable();
        if others.peek().is_none() {
            break;
        }
        for entry in others {
            remove_entry(&entry?)?;
        }
    }
    if removals.is_empty() && std::fs::read_dir(folder)?.any(|entry| !is_lock(&entry)) {
        return Err(io::Error::other("a program still writes into it"));
    }
    match std::fs::remove_file(folder.join(LOCK)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::remove_dir(folder)
}

fn is_lock(entry: &io::Result<DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| entry.file_name() == LOCK)
}

/// Removes a file, a link or a folder, without following links.
fn remove_entry(entry: &DirEntry) -> io::Result<()> {
    let removed = match entry.file_type()?.is_dir() {
        true => std::fs::remove_dir_all(entry.path()),
        false => std::fs::remove_file(entry.path()),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether `path` is still the open file, which another process may have removed before it was locked.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(open), Ok(found)) => (open.dev(), open.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// The program and the command of this process, without arguments that may be secret.
fn this_command() -> String {
    let mut arguments = std::env::args_os();
    let program = arguments.next().map(PathBuf::from).unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match arguments.next() {
        Some(command) => format!("{program} {}", command.to_string_lossy()),
        None => program,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_removed_with_its_contents() {
        let folder = RunFolder::new().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::create_dir(path.join("nested")).unwrap();
        std::fs::write(path.join("nested/file"), "text").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_link_in_the_folder_is_removed_and_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("precious"), "text").unwrap();
        let folder = RunFolder::new().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        drop(folder);
        assert!(outside.path().join("precious").exists());
    }

    #[test]
    fn a_recorded_cluster_is_forgotten_when_it_is_kept() {
        let folder = RunFolder::new().unwrap();
        assert_eq!(recorded_cluster(folder.path()), None);
        folder.record_cluster("drydock-0a1b2c3d").unwrap();
        assert_eq!(recorded_cluster(folder.path()).as_deref(), Some("drydock-0a1b2c3d"));
        folder.keep_cluster().unwrap();
        assert_eq!(recorded_cluster(folder.path()), None);
    }
}
