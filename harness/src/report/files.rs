//! The files of reports.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::{fs, io};

use ::record::{MOST_BYTES, ReadError, check_size};

/// The file with the result.
pub(super) const RESULT: &str = "result.json";

/// Writes a file, and the folders above it.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content)
}

/// Reads a file with a record, after a check of its size. `name`: the name of such files.
///
/// # Errors
/// The outer error is of the file, the inner one of its size.
pub(super) fn read_record(path: &Path, name: &'static str) -> io::Result<Result<Vec<u8>, ReadError>> {
    let file = File::open(path)?;
    if let Err(error) = check_size(file.metadata()?.len(), name) {
        return Ok(Err(error));
    }
    let mut text = Vec::new();
    // The size of a pipe is not known in advance.
    file.take(MOST_BYTES + 1).read_to_end(&mut text)?;
    Ok(Ok(text))
}
