//! Why the controller ends, in one clear line each.

use runtime::election::LeadershipLost;
pub(crate) use runtime::error::{brief, is_already_exists, is_conflict, is_not_found, is_too_many_requests};

/// What ends [`crate::run()`] or keeps it from starting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The flags contradict each other.
    #[error(transparent)]
    Options(#[from] crate::options::OptionsError),
    /// A kubeconfig is not usable.
    #[error("{flag}={path:?} is not usable: {reason}")]
    Kubeconfig {
        /// The flag.
        flag: &'static str,
        /// Its value.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A cluster does not answer.
    #[error("the API server of the {cluster} cluster does not answer within {seconds} s: {reason}")]
    Unreachable {
        /// Which one: `control` or `target`.
        cluster: &'static str,
        /// How long it was tried.
        seconds: u64,
        /// The last error.
        reason: String,
    },
    /// The CRDs are not there.
    #[error(
        "the API server serves no {missing} of machine.sapcloud.io/v1alpha1: install the CRDs by `mcm crds | kubectl apply -f -`"
    )]
    NotServed {
        /// The resources that lack.
        missing: String,
    },
    /// The driver does not answer.
    #[error("no driver answers at {address} within {seconds} s: {reason}; start it, or mend --driver")]
    DriverUnreachable {
        /// Where it should be.
        address: String,
        /// How long it was tried.
        seconds: u64,
        /// The last error.
        reason: String,
    },
    /// Another process works now, or this one could not prove that none does.
    #[error("leadership is lost: {0}")]
    LeadershipLost(String),
    /// `/metrics` and `/healthz` cannot be served.
    #[error("cannot listen on {address}: {reason}; choose another --address or --port")]
    Listen {
        /// Address and port.
        address: String,
        /// What is wrong.
        reason: String,
    },
}

impl From<LeadershipLost> for Error {
    fn from(lost: LeadershipLost) -> Self {
        Self::LeadershipLost(lost.0)
    }
}
