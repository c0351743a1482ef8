//! Files and folders that only their owner can use: files have mode 0600, folders 0700, whatever the umask of the
//! process is. A file is never opened through a symbolic link in its place.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Creates a folder and its missing parents with mode 0700. An existing folder keeps its mode.
///
/// # Errors
/// The error of the operating system.
pub fn create_folder(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_folder(parent)?;
    }
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE)),
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(io::Error::other("it is not a folder; name a folder"))
        }
        Err(error) => Err(error),
    }
}

/// Creates a folder as [`create_folder`] does, and gives an existing one mode 0700.
///
/// # Errors
/// The path is a symbolic link or no folder, or the error of the operating system.
pub fn restrict_folder(path: &Path) -> io::Result<()> {
    create_folder(path)?;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_DIRECTORY);
    // With O_DIRECTORY, Linux reports a link as "not a directory".
    let folder = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENOTDIR) => io::Error::other("it is a symbolic link or no folder; put a folder there"),
        _ => error,
    })?;
    if folder.metadata()?.permissions().mode() & 0o777 != FOLDER_MODE {
        folder.set_permissions(Permissions::from_mode(FOLDER_MODE))?;
    }
    Ok(())
}

/// Opens a regular file with `options`; a new file and an existing one get mode 0600.
///
/// # Errors
/// The path is a symbolic link or no regular file, or the error of the operating system.
pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let file = open_regular(path, options)?;
    if file.metadata()?.permissions().mode() & 0o777 != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Opens a regular file for reading; its mode stays as it is.
///
/// # Errors
/// The path is a symbolic link or no regular file, or the error of the operating system.
pub fn open_unchanged(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true))
}

/// Reads a regular file; its mode stays as it is. `None`: it does not exist.
///
/// # Errors
/// The path is a symbolic link or no regular file, or the error of the operating system.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = match open_unchanged(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(Some(content))
}

/// Writes a new file with mode 0600 and returns it, open for reading and writing. An existing file or link of this name
/// is removed first: a process with the old file open does not see the new content.
///
/// # Errors
/// The error of the operating system.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = open(path, OpenOptions::new().read(true).write(true).create_new(true))?;
    file.write_all(content)?;
    Ok(file)
}

fn open_regular(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let mut options = options.clone();
    // A pipe in place of the file must not block.
    options
        .mode(FILE_MODE)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => {
            io::Error::other("it is a symbolic link, which is not followed; put the file itself there")
        }
        _ => error,
    })?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        (folder, path)
    }

    #[test]
    fn new_folders_and_files_are_private_and_existing_folders_stay_as_they_are() {
        let (folder, _) = folder();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let nested = folder.path().join("a/b");
        create_folder(&nested).unwrap();
        create_folder(&nested).unwrap();
        replace(&nested.join("file"), b"content").unwrap();
        assert_eq!((mode(folder.path()), mode(&folder.path().join("a"))), (0o755, 0o700));
        assert_eq!((mode(&nested), mode(&nested.join("file"))), (0o700, 0o600));
    }

    #[test]
    fn a_restricted_folder_is_private_although_it_existed_and_a_link_in_its_place_is_refused() {
        let (outer, path) = folder();
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        restrict_folder(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        restrict_folder(&outer.path().join("new")).unwrap();
        assert_eq!(mode(&outer.path().join("new")), 0o700);

        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let link = outer.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = restrict_folder(&link).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(mode(&path), 0o755);
    }

    #[test]
    fn the_mode_of_an_existing_file_is_corrected_when_it_is_opened_but_not_when_it_is_read() {
        let (_folder, path) = folder();
        std::fs::write(&path, "content").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"content");
        assert_eq!(mode(&path), 0o644);
        open(&path, OpenOptions::new().read(true)).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_link_in_place_of_a_file_is_refused_and_its_target_is_unchanged() {
        let (folder, path) = folder();
        let target = folder.path().join("target");
        std::fs::write(&target, "target").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let error = open(&path, OpenOptions::new().write(true).create(true).truncate(true)).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert!(read(&path).unwrap_err().to_string().contains("symbolic link"));
        replace(&path, b"new").unwrap();
        assert!(path.symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read(&target).unwrap(), b"target");
    }

    #[test]
    fn a_folder_or_a_missing_file_is_not_read() {
        let (folder, path) = folder();
        assert!(read(&path).unwrap().is_none());
        assert!(
            read(folder.path())
                .unwrap_err()
                .to_string()
                .contains("not a regular file")
        );
    }
}
