//! Finds and removes what a run leaves behind when it is killed by SIGKILL: temporary folders, programs, and kind
//! clusters.
//!
//! A leftover is a folder or lock file of this user whose lock is free: its owner has ended. Links are not followed, and
//! a folder without a lock file, which some other program may have created, is never touched.

mod processes;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use durable::private_files;
use jiff::Timestamp;
use nix::unistd::geteuid;

use self::processes::end_programs_of;
use crate::kind::{self, KindError};
use crate::run_folder::{self, LOCK, PREFIX, is_at, recorded_cluster};

/// The end of the names of files that reserve a named kind cluster.
const CLUSTER_LOCK: &str = ".lock";

/// Errors of removing a leftover.
#[derive(Debug, thiserror::Error)]
pub enum LeftoverError {
    /// The folder or file cannot be removed.
    #[error("cannot remove {}: {source}", path.display())]
    Remove {
        /// The folder or file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The kind cluster cannot be deleted. Its folder stays, so that the deletion is tried again.
    #[error(transparent)]
    Cluster(#[from] KindError),
}

/// What a leftover is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The folder of a run.
    Folder {
        /// The command that created it, such as `drydock up`.
        command: String,
        /// The kind cluster that the run created.
        cluster: Option<String>,
    },
    /// The reservation of a named kind cluster.
    Reservation,
}

/// Something that a killed run left. While this value exists, no other process removes it.
#[derive(Debug)]
pub struct Leftover {
    /// The folder or file.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// The size of its files.
    pub bytes: u64,
    /// When the run started; `None`: the file system does not say.
    pub since: Option<Timestamp>,
    _lock: File,
}

/// All leftovers in a folder for temporary files, sorted by path.
pub fn find(temporary: &Path) -> Vec<Leftover> {
    let entries = std::fs::read_dir(temporary).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let mut found: Vec<Leftover> = ours.filter_map(|entry| inspect(entry.path())).collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// Whether the folder's owner runs.
pub fn has_owner(folder: &Path) -> bool {
    let Ok(lock) = private_files::open_unchanged(&folder.join(LOCK)) else {
        return false;
    };
    lock.try_lock_shared().is_err()
}

fn inspect(path: PathBuf) -> Option<Leftover> {
    let metadata = path.symlink_metadata().ok()?;
    if metadata.uid() != geteuid().as_raw() {
        return None;
    }
    let is_reservation = path.to_string_lossy().ends_with(CLUSTER_LOCK);
    let lock_path = match (metadata.is_dir(), metadata.is_file() && is_reservation) {
        (true, _) => path.join(LOCK),
        (_, true) => path.clone(),
        _ => return None,
    };
    let lock = private_files::open_unchanged(&lock_path).ok()?;
    let own = lock.metadata().ok()?.uid() == metadata.uid();
    if !own || lock.try_lock().is_err() || !is_at(&lock, &lock_path) {
        return None;
    }
    let since = lock.metadata().and_then(|metadata| metadata.modified()).ok();
    let kind = match metadata.is_dir() {
        false => Kind::Reservation,
        true => Kind::Folder {
            command: std::fs::read_to_string(&lock_path).unwrap_or_default(),
            cluster: recorded_cluster(&path),
        },
    };
    Some(Leftover {
        bytes: size(&path),
        kind,
        since: since.and_then(|time| Timestamp::try_from(time).ok()),
        path,
        _lock: lock,
    })
}

/// The size of the files at `path`, without following links.
fn size(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else {
        return 0;
    };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).fold(0, u64::saturating_add)
}

impl Leftover {
    /// The kind cluster to be deleted with it.
    pub fn cluster(&self) -> Option<&str> {
        match &self.kind {
            Kind::Folder { cluster, .. } => cluster.as_deref(),
            Kind::Reservation => None,
        }
    }

    /// Kills the programs of the run that still run, deletes its kind cluster, and removes its files. Blocks.
    ///
    /// # Errors
    /// What could not be removed; the rest stays for the next attempt.
    pub fn remove(&self) -> Result<(), LeftoverError> {
        let cannot = |source| LeftoverError::Remove {
            path: self.path.clone(),
            source,
        };
        match &self.kind {
            Kind::Reservation => std::fs::remove_file(&self.path).map_err(cannot),
            Kind::Folder { cluster, .. } => {
                end_programs_of(&self.path);
                if let Some(cluster) = cluster {
                    kind::delete_left(cluster, &self.path)?;
                }
                run_folder::remove(&self.path).map_err(cannot)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    /// A folder for temporary files with `drydock-old`, which a killed run has left.
    fn temporary_with_leftover() -> (TempDir, PathBuf) {
        let temporary = tempfile::tempdir().unwrap();
        let old = temporary.path().join("drydock-old");
        std::fs::create_dir(&old).unwrap();
        std::fs::write(old.join(LOCK), "drydock up").unwrap();
        std::fs::write(old.join("mcm.log"), "0123456789").unwrap();
        (temporary, old)
    }

    #[test]
    fn a_folder_with_a_free_lock_is_found_and_removed() {
        let (temporary, old) = temporary_with_leftover();
        let found = find(temporary.path());
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].path, found[0].bytes), (&old, 20));
        let kind = Kind::Folder {
            command: "drydock up".to_owned(),
            cluster: None,
        };
        assert_eq!(found[0].kind, kind);
        assert!(found[0].since.is_some());
        found[0].remove().unwrap();
        assert!(!old.exists());
        assert!(find(temporary.path()).is_empty());
    }

    #[test]
    fn the_folder_of_a_living_run_stays() {
        let (temporary, old) = temporary_with_leftover();
        let owner = File::open(old.join(LOCK)).unwrap();
        owner.lock().unwrap();
        assert!(has_owner(&old));
        assert!(find(temporary.path()).is_empty());
        drop(owner);
        assert!(!has_owner(&old));
    }

    #[test]
    fn two_cleaners_do_not_remove_the_same_folder() {
        let (temporary, _) = temporary_with_leftover();
        let first = find(temporary.path());
        assert!(find(temporary.path()).is_empty());
        drop(first);
        assert_eq!(find(temporary.path()).len(), 1);
    }

    #[test]
    fn links_and_folders_of_other_programs_stay() {
        let (temporary, old) = temporary_with_leftover();
        let elsewhere = tempfile::tempdir().unwrap();
        let target = elsewhere.path().join("drydock-target");
        std::fs::rename(&old, &target).unwrap();
        symlink(&target, temporary.path().join("drydock-link")).unwrap();
        std::fs::create_dir(temporary.path().join("drydock-backup")).unwrap();
        std::fs::write(temporary.path().join("drydock-notes"), "text").unwrap();
        // A lock that is a link to a free lock.
        let linked = temporary.path().join("drydock-linked");
        std::fs::create_dir(&linked).unwrap();
        symlink(target.join(LOCK), linked.join(LOCK)).unwrap();
        assert!(find(temporary.path()).is_empty());
        assert!(target.join("mcm.log").exists());
    }

    /// Only root can create a folder of another user.
    #[test]
    fn the_folder_of_another_user_stays() {
        let (temporary, old) = temporary_with_leftover();
        if std::os::unix::fs::chown(&old, Some(geteuid().as_raw() + 1), None).is_ok() {
            assert!(find(temporary.path()).is_empty());
        }
    }

    #[test]
    fn a_folder_that_cannot_be_removed_is_found_again() {
        let (temporary, old) = temporary_with_leftover();
        let closed = old.join("closed");
        std::fs::create_dir(&closed).unwrap();
        std::fs::write(closed.join("file"), "").unwrap();
        std::fs::set_permissions(&closed, Permissions::from_mode(0o500)).unwrap();
        let removed = find(temporary.path())[0].remove();
        // Root ignores the mode.
        if let Err(error) = removed {
            assert!(error.to_string().contains("cannot remove"), "{error}");
            assert_eq!(find(temporary.path()).len(), 1);
            std::fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
        }
    }

    #[test]
    fn the_reservation_of_a_cluster_is_removed_when_it_is_free() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("drydock-kind-mine.lock");
        let owner = File::create(&path).unwrap();
        owner.lock().unwrap();
        assert!(find(temporary.path()).is_empty());
        drop(owner);
        let found = find(temporary.path());
        assert_eq!(found[0].kind, Kind::Reservation);
        found[0].remove().unwrap();
        assert!(!path.exists());
    }
}
