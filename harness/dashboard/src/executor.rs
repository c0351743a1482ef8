//! Performs the steps of faults.

use futures::future::BoxFuture;
use scenario::Step;

/// Why a step cannot be performed.
#[derive(Debug, thiserror::Error)]
pub enum PerformError {
    /// The world refuses it.
    #[error("{0}")]
    Refused(String),
    /// This world has no such part.
    #[error("this world cannot {what}: {reason}")]
    Unsupported {
        /// The step.
        what: String,
        /// The reason.
        reason: &'static str,
    },
}

/// Performs steps in the world that the dashboard shows.
pub trait Executor: Send + Sync + 'static {
    /// Performs a step. `vm` is the id of the VM that it acts on, if it acts on one.
    fn perform(&self, step: Step, vm: Option<String>) -> BoxFuture<'static, Result<(), PerformError>>;
}
