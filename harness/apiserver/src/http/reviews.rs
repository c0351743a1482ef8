//! Questions a client asks about itself. They are answered and not stored.
//!
//! This server lets everybody who is known do everything, and says so.

use serde_json::{Value, json};

use super::Exchange;
use super::body::decode;
use crate::status::ApiError;

/// The answer to a review of that kind.
///
/// # Errors
/// 422 for one that asks nothing.
pub(super) fn answer(exchange: &Exchange<'_>, kind: &str) -> Result<Value, ApiError> {
    let mut review = decode(exchange.headers, exchange.body, false, None)?;
    if kind == "SelfSubjectReview" {
        let (user, own) = (exchange.client, exchange.groups);
        let groups: Vec<&str> = own.iter().map(String::as_str).chain(["system:authenticated"]).collect();
        return Ok(json!({
            "kind": kind, "apiVersion": "authentication.k8s.io/v1", "metadata": {},
            "status": { "userInfo": { "username": user, "groups": groups } },
        }));
    }
    let asks = |field: &str| review.pointer(&format!("/spec/{field}")).is_some_and(Value::is_object);
    if asks("resourceAttributes") == asks("nonResourceAttributes") {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let error = crate::status::FieldError::invalid("spec.resourceAttributes", Value::Null, detail);
        return Err(ApiError::invalid("authorization.k8s.io", kind, "", &[error]));
    }
    let spec = review["spec"].take();
    Ok(json!({
        "kind": kind, "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": spec,
        "status": { "allowed": true, "reason": "everybody who is known may do everything here" },
    }))
}
