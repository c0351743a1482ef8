//! The reservation of a named cluster.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;

use durable::private_files;

use super::error::ClusterError;
use crate::run_folder::is_at;

/// A lock on a named cluster, so that two sessions do not use the cluster at the same time. The end of the process
/// releases it.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Reserves the cluster for this process.
    ///
    /// # Errors
    /// Another session uses the cluster, or the file cannot be created.
    pub(super) fn take(cluster: &str) -> Result<Self, ClusterError> {
        Self::at(
            std::env::temp_dir().join(format!("drydock-kind-{cluster}.lock")),
            cluster,
        )
    }

    /// The temporary folder is usually shared by all users, so a link in place of the file is refused.
    fn at(path: PathBuf, cluster: &str) -> Result<Self, ClusterError> {
        let options = OpenOptions::new().create(true).truncate(false).write(true).clone();
        loop {
            let file = match private_files::open(&path, &options) {
                Ok(file) => file,
                Err(source) => return Err(ClusterError::Create { path, source }),
            };
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Self { path, _file: file }),
                // Its last owner removed it meanwhile.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(ClusterError::InUse {
                        name: cluster.to_owned(),
                    });
                }
                Err(TryLockError::Error(source)) => return Err(ClusterError::Create { path, source }),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_cluster_is_used_by_one_session_at_a_time() {
        let name = format!("test-{}", std::process::id());
        let lock = Lock::take(&name).unwrap();
        assert!(Lock::take(&name).unwrap_err().to_string().contains("another session"));
        let path = lock.path.clone();
        drop(lock);
        assert!(!path.exists());
    }

    #[test]
    fn a_link_in_place_of_the_lock_is_refused_and_its_target_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let (target, path) = (folder.path().join("target"), folder.path().join("lock"));
        std::fs::write(&target, "content").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let error = Lock::at(path, "mine").unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "content");
    }
}
