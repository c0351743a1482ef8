//! The files of reports.

use std::path::Path;
use std::{fs, io};

/// The file with the result.
pub(super) const RESULT: &str = "result.json";

/// Writes a file, and the folders above it.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content)
}
