//! Warnings about deprecated kinds, which upstream adds to all their responses.

use http::{HeaderValue, Response};

use super::Body;
use super::path::Target;

/// Adds the warning about the kind of a target, if it is deprecated.
pub(super) fn warn(target: &Target, response: &mut Response<Body>) {
    let warning = match (target.group.as_str(), target.plural.as_str()) {
        ("", "endpoints") => "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"",
        ("", "componentstatuses") => "299 - \"v1 ComponentStatus is deprecated in v1.19+\"",
        _ => return,
    };
    let warning = HeaderValue::from_static(warning);
    response.headers_mut().append(http::header::WARNING, warning);
}
