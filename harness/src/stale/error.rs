//! Errors of running a controller with an old view.

use std::time::Duration;

use mcm_api::GoDuration;
use runtime::error::brief;
use scenario::kinds::UnknownKind;
use stage::child::ChildError;
use stage::plane::PlaneError;

/// Why a run has no report.
#[derive(Debug, thiserror::Error)]
pub enum StaleError {
    /// The control plane does not start.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// A part of the control plane ended.
    #[error("{0}")]
    PlaneEnded(String),
    /// The controller does not start.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The controller ended before the last step.
    #[error("{0}; `--logs FOLDER` keeps its whole log")]
    ControllerEnded(stage::child::Ended),
    /// A fault rule is invalid.
    #[error(transparent)]
    Rule(#[from] apiserver::faults::Invalid),
    /// The list of built-in controllers is invalid.
    #[error("builtInControllers: {0}")]
    Controllers(#[from] controllers::SelectionError),
    /// A kind is not known.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// An object cannot be written.
    #[error("{step}: {source}")]
    Apply {
        /// The step.
        step: String,
        /// The cause.
        source: stage::ApplyError,
    },
    /// The API server refuses a request of a step.
    #[error("{step}: {}", brief(source))]
    Request {
        /// The step.
        step: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// There are fewer objects than a step deletes.
    #[error("{step}: there are only {found}")]
    TooFew {
        /// The step.
        step: String,
        /// The number of objects.
        found: usize,
    },
    /// A condition is not true in time.
    #[error("{step}: not after {}; {found}", GoDuration(*within))]
    NotReached {
        /// The step.
        step: String,
        /// How long it may take.
        within: Duration,
        /// What there is instead.
        found: String,
    },
    /// The folder of the controller's log cannot be created.
    #[error("cannot create {folder}: {source}")]
    Folder {
        /// The folder.
        folder: String,
        /// The cause.
        source: std::io::Error,
    },
}
