//! Why an action of a step cannot be performed.

use std::time::Duration;

use apiserver::faults::Invalid;
use judge::evaluate::short;
use runtime::error::brief;
use scenario::kinds::UnknownKind;
use stage::cloud::CloudError;
use stage::clusters::UserNameError;
use stage::{ApplyError, LeaderError, StageError};

/// Why an action cannot be performed, or has another result than the step expects.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActionError {
    /// A call to fakecloud failed.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// An object cannot be written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The stage cannot perform it.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The leader of mcm is unknown.
    #[error(transparent)]
    Leader(#[from] LeaderError),
    /// Scenarios cannot use the kind of an object.
    #[error(transparent)]
    UnknownKind(#[from] UnknownKind),
    /// The user name is invalid.
    #[error(transparent)]
    User(#[from] UserNameError),
    /// A request to the API server failed.
    #[error("cannot {attempt}: {}", brief(source))]
    Api {
        /// Description of the request, which follows "cannot".
        attempt: String,
        /// The error.
        source: Box<kube::Error>,
    },
    #[error("machine {machine} has no node; expect one before this step")]
    NoNode { machine: String },
    #[error("machine {machine} has no VM; expect one before this step")]
    NoVm { machine: String },
    #[error("{user} is allowed to perform a step that must be refused")]
    NotRefused { user: String },
    #[error("the step of {user} must be refused, but fails with another error: {source}")]
    FailsOtherwise { user: String, source: Box<ActionError> },
    #[error("{kind} {name} was deleted, but must not exist")]
    Deleted { kind: String, name: String },
    #[error("the deletion of {kind} {name} is allowed, but must be forbidden")]
    NotForbidden { kind: String, name: String },
    #[error("node {node} is not drained after {}: pods {pods} remain", short(*limit))]
    NotEmpty {
        node: String,
        limit: Duration,
        pods: String,
    },
    #[error("the API server of this stage does not support fault rules")]
    NoApiFaults,
    /// A fault rule is invalid.
    #[error(transparent)]
    Rule(#[from] Invalid),
    #[error("there is no API fault {rule:?}")]
    NoRule { rule: String },
}

/// Adds a description of the failed request to an error. It follows "cannot".
pub(super) fn cannot(attempt: impl Into<String>) -> impl FnOnce(kube::Error) -> ActionError {
    let attempt = attempt.into();
    move |source| ActionError::Api {
        attempt,
        source: Box::new(source),
    }
}
