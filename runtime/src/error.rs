//! Classification and formatting of API errors.

use std::error::Error as _;

use kube::core::Status;
use kube::runtime::watcher;

/// An API error in one line, with its causes, because `ServiceError` alone is not helpful.
pub fn brief(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return described(status);
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

/// The error of a watch in one line, without the terms of the client.
pub fn brief_watch(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(source)
        | watcher::Error::WatchStartFailed(source)
        | watcher::Error::WatchFailed(source) => brief(source),
        watcher::Error::WatchError(status) => described(status),
        other => other.to_string(),
    }
}

fn described(status: &Status) -> String {
    format!("{} ({} {})", status.message, status.code, status.reason)
}

/// Whether the object changed meanwhile.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason != "AlreadyExists")
}

/// Whether an object with that name already exists.
pub fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

/// Whether the object does not exist.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the server temporarily refuses the request (429); an eviction, because of a disruption budget.
pub fn is_too_many_requests(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 429)
}
