//! The inputs that mutations start from.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Target;

/// The folder with the committed inputs of a target.
pub fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// The committed inputs by file name, in the order of the names.
///
/// # Errors
/// The folder cannot be read.
pub fn files(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let folder = folder(target);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((
            entry.file_name().to_string_lossy().into_owned(),
            fs::read(entry.path())?,
        ));
    }
    files.sort();
    Ok(files)
}

/// All inputs: the committed ones, and those built from types.
///
/// # Errors
/// The folder cannot be read.
pub fn inputs(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let mut inputs: Vec<Vec<u8>> = files(target)?.into_iter().map(|(_, input)| input).collect();
    inputs.extend((target.seeds)());
    Ok(inputs)
}
