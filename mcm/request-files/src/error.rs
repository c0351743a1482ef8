//! Errors of files.

/// A file is missing or not usable. The text is one line that names the flag and the fix, and contains no secret data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A required flag is missing.
    #[error("{flag} is missing: {fix}")]
    Missing {
        /// The flag.
        flag: &'static str,
        /// What to give.
        fix: String,
    },
    /// The file is not usable.
    #[error("{flag}={path}: {reason}")]
    File {
        /// The flag.
        flag: &'static str,
        /// Its file.
        path: String,
        /// The error and the fix.
        reason: String,
    },
    /// A field of the file is not usable.
    #[error("{flag}={path}: {field}: {reason}")]
    Field {
        /// The flag.
        flag: &'static str,
        /// Its file.
        path: String,
        /// The path of the field.
        field: String,
        /// The error and the fix.
        reason: String,
    },
}
