//! Policies with their bindings: whether they concern a request, and with which values.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Context;
use super::matching::matched;
use super::params;
use super::request::Request;
use super::values::{Values, hold};
use crate::policies::{Base, Binding};
use crate::reviewer::Subject;
use crate::status::ApiError;

/// The values with which a policy is evaluated: one for each parameter of a binding for which its conditions hold.
///
/// # Errors
/// If the namespace of the request does not exist.
pub(crate) fn values(
    context: &Arc<dyn Context>,
    (policy, binding): (&Base, &Binding),
    (request, subject): (&Request, &Subject<'_>),
) -> Result<Vec<Result<Values, String>>, ApiError> {
    let registry = context.registry();
    let Some(seen) = matched(&policy.constraints, registry, request, subject)? else {
        return Ok(Vec::new());
    };
    if matched(&binding.constraints, registry, request, subject)?.is_none() {
        return Ok(Vec::new());
    }
    if let Some(why) = &policy.error {
        return Ok(vec![Err(why.clone())]);
    }
    let found: Vec<Option<Json>> = match (&policy.param_kind, &binding.params) {
        (Some(kind), Some(reference)) => match params::find(registry, kind, reference, subject) {
            Ok(found) => found.into_iter().map(Some).collect(),
            Err(why) => return Ok(vec![Err(format!("failed to configure binding: {why}"))]),
        },
        _ => vec![None],
    };
    let values = Values::of(context, request, subject, &seen).with_namespace(context.as_ref(), subject)?;
    let bound = found.into_iter().filter_map(|params| {
        let values = values.with_params(params.as_ref());
        match hold(&policy.conditions, &values) {
            Ok(true) => Some(Ok(values)),
            Ok(false) => None,
            Err(why) => Some(Err(why)),
        }
    });
    Ok(bound.collect())
}
