//! Errors that end the controller.

use runtime::election::LeadershipLost;
pub(crate) use runtime::error::{brief, is_already_exists, is_conflict, is_not_found, is_too_many_requests};
use runtime::reach::ReachError;

/// Whether the failed request may have been processed nevertheless.
pub(crate) fn has_unknown_outcome(error: &kube::Error) -> bool {
    !matches!(error, kube::Error::Api(status) if status.code < 500)
}

/// An error that ends [`crate::run()`] or prevents its start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The flags contradict each other.
    #[error(transparent)]
    Options(#[from] crate::options::OptionsError),
    /// A kubeconfig is unusable.
    #[error("{flag}={path:?} is not usable: {reason}")]
    Kubeconfig {
        /// The flag.
        flag: &'static str,
        /// Its value.
        path: String,
        /// The cause.
        reason: String,
    },
    /// A cluster does not answer, or refuses the request.
    #[error("the API server of the {cluster} cluster {error}")]
    Unreachable {
        /// `control` or `target`.
        cluster: &'static str,
        /// What happened.
        error: ReachError,
    },
    /// A leader without filled caches does nothing, so it leaves the Lease to another process.
    #[error(
        "the {} cannot be listed for {seconds} s although the API servers respond: correct the permissions of this process; its log has the errors",
        kinds.join(", ")
    )]
    CachesNotFilled {
        /// The kinds without a complete list.
        kinds: Vec<&'static str>,
        /// How many seconds the process waited.
        seconds: u64,
    },
    /// The CRDs are not installed.
    #[error(
        "the API server serves no {missing} of machine.sapcloud.io/v1alpha1: install the CRDs by `mcm crds | kubectl apply -f -`"
    )]
    NotServed {
        /// The missing resources.
        missing: String,
    },
    /// The driver does not answer.
    #[error("no driver answers at {address} within {seconds} s: {reason}; start it, or correct --driver")]
    DriverUnreachable {
        /// The configured address.
        address: String,
        /// How many seconds the check waited.
        seconds: u64,
        /// The last error.
        reason: String,
    },
    /// Another process leads, or this process could not renew its Lease.
    #[error("leadership is lost: {0}")]
    LeadershipLost(String),
    /// `/metrics` or `/healthz` cannot be served.
    #[error("cannot listen on {address}: {reason}; choose another --address, --port or --metrics-address")]
    Listen {
        /// Address and port.
        address: String,
        /// The cause.
        reason: String,
    },
}

impl From<LeadershipLost> for Error {
    fn from(lost: LeadershipLost) -> Self {
        Self::LeadershipLost(lost.0)
    }
}
