//! Why the controller ends, in one clear line each.

use std::error::Error as _;

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

/// An API error in one line, with its cause: `ServiceError` alone helps nobody.
pub(crate) fn brief(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("{} ({} {})", status.message, status.code, status.reason);
    }
    let mut text = match error {
        kube::Error::Service(cause) => cause.to_string(),
        other => other.to_string(),
    };
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// Whether somebody else wrote the object meanwhile.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason != "AlreadyExists")
}

/// Whether an object of that name is there already.
pub(crate) fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

/// Whether the object is not there.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the server does not allow it now (429): of an eviction, that a disruption budget does not.
pub(crate) fn is_too_many_requests(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 429)
}
