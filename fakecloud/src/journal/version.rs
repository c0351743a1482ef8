//! Versions of the files' format, and of the programs that write them.

use std::fmt;

/// Version of the format. The previous one had no headers.
pub(super) const VERSION: u32 = 2;
/// Version of this program, which is written into headers.
pub(super) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A file of a later version of `fakecloud`. It is not damaged, and this version changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterVersion {
    /// Name of the file in the ledger's folder.
    pub file: &'static str,
    /// Version of its format.
    pub version: u32,
    /// Version of the program that wrote it, if the file says so.
    pub program: Option<String>,
}

impl fmt::Display for LaterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, version, program } = self;
        let writer = match program {
            Some(program) => format!("fakecloud {program}"),
            None => "a later version of fakecloud".to_owned(),
        };
        write!(
            f,
            "{file} was written by {writer}, in version {version} of the format; this is fakecloud {PROGRAM}, which reads \
             versions up to {VERSION}: use {writer} for this folder, or give another one by --data"
        )
    }
}
