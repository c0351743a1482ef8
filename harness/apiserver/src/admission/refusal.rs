//! The errors of refused requests.

use serde_json::Map;

use super::request::Request;
use crate::policies::Reason;
use crate::reviewer::Subject;
use crate::status::ApiError;

/// The error of a request that a policy refuses.
pub(crate) fn refused(request: &Request, subject: &Subject<'_>, message: &str, reason: Reason) -> ApiError {
    forbidden(request, subject, message, reason).with_cause("", message, "")
}

/// The error of a refused request, without a cause.
pub(crate) fn forbidden(request: &Request, subject: &Subject<'_>, message: &str, reason: Reason) -> ApiError {
    let target = &request.target;
    let qualified = if target.group.is_empty() {
        target.resource.clone()
    } else {
        format!("{}.{}", target.resource, target.group)
    };
    let name = match subject.name {
        "" => generated_name(subject),
        name => name.to_owned(),
    };
    let mut details = Map::new();
    for (field, value) in [
        ("name", name.as_str()),
        ("group", &target.group),
        ("kind", &target.resource),
    ] {
        if !value.is_empty() {
            details.insert(field.to_owned(), value.into());
        }
    }
    ApiError {
        details: Some(details.into()),
        ..ApiError::new(
            reason.code(),
            reason.name(),
            format!("{qualified} {name:?} is forbidden: {message}"),
        )
    }
}

/// How upstream shows an object whose name is generated later.
fn generated_name(subject: &Subject<'_>) -> String {
    let prefix = subject
        .new
        .and_then(|new| new.pointer("/metadata/generateName")?.as_str());
    prefix.map_or_else(|| "Unknown".to_owned(), |prefix| format!("{prefix}-"))
}
