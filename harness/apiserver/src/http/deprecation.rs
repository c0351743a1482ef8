//! Warnings about deprecated kinds, which upstream adds to all their responses.

use http::{HeaderValue, Response};
use serde_json::Value;

use super::Body;
use super::path::Target;
use crate::registry::Catalog;

/// Adds the warning about the kind of a target, if it is deprecated.
pub(super) fn warn(catalog: &Catalog, target: &Target, response: &mut Response<Body>) {
    let warning = match (target.group.as_str(), target.plural.as_str()) {
        ("", "endpoints") => "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"",
        ("", "componentstatuses") => "299 - \"v1 ComponentStatus is deprecated in v1.19+\"",
        _ => {
            let entry = catalog.find(&target.group, &target.version, &target.plural);
            let warning = entry.and_then(|entry| entry.resource.deprecation.as_deref());
            let quoted = |text: &str| HeaderValue::from_str(&format!("299 - {}", Value::from(text)));
            // A text that cannot be a header is left out.
            if let Some(Ok(warning)) = warning.map(quoted) {
                response.headers_mut().append(http::header::WARNING, warning);
            }
            return;
        }
    };
    let warning = HeaderValue::from_static(warning);
    response.headers_mut().append(http::header::WARNING, warning);
}
