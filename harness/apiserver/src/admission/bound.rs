//! Policies with their bindings: whether they concern a request, and with which values.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Context;
use super::equivalent::{Equivalent, Seen};
use super::matching::matched;
use super::params;
use super::request::{Kind, Request};
use super::values::{Values, hold};
use crate::policies::{Base, Binding, Target};
use crate::registry::Registry;
use crate::reviewer::Subject;
use crate::status::ApiError;

/// A policy that concerns a request, in the version for which it has a rule.
pub(crate) struct Bound {
    seen: (Kind, Target),
    pub(super) equivalent: Option<Equivalent>,
}

impl Bound {
    /// `None` if the policy or its binding does not concern the request.
    ///
    /// # Errors
    /// If the namespace of the request does not exist.
    pub(crate) fn of(
        registry: &Registry,
        (policy, binding): (&Base, &Binding),
        (request, subject): (&Request, &Subject<'_>),
    ) -> Result<Option<Self>, ApiError> {
        let Some(seen) = matched(&policy.constraints, registry, request, subject)? else {
            return Ok(None);
        };
        if matched(&binding.constraints, registry, request, subject)?.is_none() {
            return Ok(None);
        }
        let equivalent = Equivalent::of(registry, request, &seen.1);
        Ok(Some(Self { seen, equivalent }))
    }

    /// The resource in the version of the policy's rule.
    pub(super) fn target(&self) -> &Target {
        &self.seen.1
    }

    /// The values with which a policy is evaluated: one for each parameter of a binding for which its conditions hold.
    ///
    /// # Errors
    /// If the namespace of the request does not exist, or its objects cannot be converted to the version of the policy.
    pub(crate) fn values(
        &self,
        context: &Arc<dyn Context>,
        (policy, binding): (&Base, &Binding),
        (request, subject): (&Request, &Subject<'_>),
    ) -> Result<Vec<Result<Values, String>>, ApiError> {
        let objects = Seen::of(self.equivalent.as_ref(), subject)?;
        let subject = objects.subject(subject);
        values(context, (policy, binding), (request, &subject), &self.seen)
    }
}

fn values(
    context: &Arc<dyn Context>,
    (policy, binding): (&Base, &Binding),
    (request, subject): (&Request, &Subject<'_>),
    seen: &(Kind, Target),
) -> Result<Vec<Result<Values, String>>, ApiError> {
    let registry = context.registry();
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
    let values = Values::of(context, request, subject, seen).with_namespace(context.as_ref(), subject)?;
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
