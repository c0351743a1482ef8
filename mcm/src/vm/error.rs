//! Errors of `mcm vm`. Each is one line, and none contains secret data.

use mcm_api::DriverError;
use request_files::FileError;

use crate::OptionsError;

/// Flags or files that do not make a request. Each names the flag, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A required flag is missing.
    #[error("{flag} is missing: {fix}")]
    Missing {
        /// The flag.
        flag: &'static str,
        /// What to give.
        fix: String,
    },
    /// The value of a flag is not usable.
    #[error("{flag}={value}: {reason}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
        /// The error and the fix.
        reason: String,
    },
    /// A file is not usable.
    #[error(transparent)]
    File(#[from] FileError),
    /// The flags of the driver are not usable.
    #[error("{0}")]
    Driver(String),
}

/// Flags in the form of the controller, which reports several violations at once.
impl From<OptionsError> for InputError {
    fn from(error: OptionsError) -> Self {
        Self::Driver(error.0.join("; "))
    }
}

/// An error that ends `mcm vm`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VmError {
    /// Flags or files are not usable.
    #[error(transparent)]
    Input(#[from] InputError),
    /// No connection to the driver.
    #[error("no driver answers at {address}: {reason}; start it, or correct --driver")]
    Unreachable {
        /// The address.
        address: String,
        /// The cause.
        reason: String,
    },
    /// A call of the driver failed.
    #[error("{call} failed: {}: {}", error.code, error.message)]
    Call {
        /// The name of the call.
        call: &'static str,
        /// The error, without secret data.
        error: Box<DriverError>,
    },
    /// The result cannot be written in the format.
    #[error("the result cannot be written: {0}")]
    Print(String),
}

impl VmError {
    /// 2: the input is not usable, or no driver answers. 1: a call failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_) | Self::Unreachable { .. } => 2,
            Self::Call { .. } | Self::Print(_) => 1,
        }
    }
}
