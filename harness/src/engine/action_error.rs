//! Why an action of a step cannot be performed.

use std::time::Duration;

use apiserver::faults::Invalid;
use judge::evaluate::short;
use scenario::kinds::UnknownKind;
use stage::cloud::CloudError;
use stage::clusters::UserNameError;
use stage::{ApplyError, LeaderError, StageError};

/// Why an action cannot be performed, or is not answered as the step says.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActionError {
    /// fakecloud does not do it.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// An object is not written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The stage does not do it.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The leader of mcm is not known.
    #[error(transparent)]
    Leader(#[from] LeaderError),
    /// The kind of an object is none that a scenario can name.
    #[error(transparent)]
    UnknownKind(#[from] UnknownKind),
    /// No user can have that name.
    #[error(transparent)]
    User(#[from] UserNameError),
    /// The API server does not do it.
    #[error("cannot {attempt}: {source}")]
    Api {
        /// What is asked of it.
        attempt: String,
        /// Its answer.
        source: Box<kube::Error>,
    },
    #[error("machine {machine} has no node; expect one before this step")]
    NoNode { machine: String },
    #[error("machine {machine} has no VM; expect one before this step")]
    NoVm { machine: String },
    #[error("{user} may do what must be refused")]
    NotRefused { user: String },
    #[error("{user} is not refused, but fails: {source}")]
    FailsOtherwise { user: String, source: Box<ActionError> },
    #[error("{kind} {name} is deleted, which must not be there")]
    Deleted { kind: String, name: String },
    #[error("{kind} {name} may be deleted, which must be refused")]
    NotForbidden { kind: String, name: String },
    #[error("node {node} is not empty after {}: there are still {pods}", short(*limit))]
    NotEmpty {
        node: String,
        limit: Duration,
        pods: String,
    },
    #[error("the API server of this stage is not ours to disturb")]
    NoApiFaults,
    /// The rule of a fault is wrong.
    #[error(transparent)]
    Rule(#[from] Invalid),
    #[error("there is no API fault {rule:?}")]
    NoRule { rule: String },
}

/// Adds to an error what was asked of the API server: the rest of a sentence that begins with "cannot".
pub(super) fn cannot(attempt: impl Into<String>) -> impl FnOnce(kube::Error) -> ActionError {
    let attempt = attempt.into();
    move |source| ActionError::Api {
        attempt,
        source: Box::new(source),
    }
}
