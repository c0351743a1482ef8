//! Changes of objects by mutating policies.

use std::sync::Arc;

use serde_json::Value;

use super::Context;
use super::bound::Bound;
use super::effect::Effect;
use super::equivalent::Equivalent;
use super::refusal::forbidden;
use super::request::Request;
use super::values::Values;
use crate::apply;
use crate::cel::{self, Budget};
use crate::patch;
use crate::policies::{Binding, MutatingPolicy, Mutation, Parsed, Reason, Target};
use crate::resource::Shape;
use crate::reviewer::Subject;
use crate::status::ApiError;

/// The object with the mutations of a policy, once for each parameter of its bindings.
///
/// # Errors
/// A failed mutation, if the policy fails closed.
pub(crate) fn apply(
    context: &Arc<dyn Context>,
    (policy, bindings): (&MutatingPolicy, &[Binding]),
    (request, subject): (&Request, &Subject<'_>),
) -> Result<Effect, ApiError> {
    let Some(before) = subject.new else {
        return Ok(Effect::None);
    };
    let mut effect = Effect::None;
    for binding in bindings {
        // The next binding sees the object that this one changes.
        let object = match &effect {
            Effect::Changed(changed) => changed.clone(),
            _ => before.clone(),
        };
        let current = Subject {
            new: Some(&object),
            ..*subject
        };
        let Some(bound) = Bound::of(context.registry(), (&policy.base, binding), (request, &current))? else {
            continue;
        };
        // The policy sees the version for which it has a rule.
        let seen = match &bound.equivalent {
            Some(equivalent) => equivalent.seen(&current)?[0].take().unwrap_or_default(),
            None => object.clone(),
        };
        let mut changed = seen.clone();
        for values in bound.values(context, (&policy.base, binding), (request, &current))? {
            if matches!(effect, Effect::None) {
                effect = Effect::Seen;
            }
            let possible = bound.equivalent.as_ref().map_or(Ok(()), Equivalent::check_changes);
            let (mutated, errors) = match values.and_then(|values| possible.map(|()| values)) {
                Ok(values) => mutated(context, policy, &values, (bound.target(), &changed)),
                Err(why) => (changed.clone(), vec![why]),
            };
            changed = mutated;
            let Some(why) = errors.into_iter().next() else { continue };
            if policy.base.fails_closed {
                let why = format!(
                    "policy '{}' with binding '{}' denied request: {why}",
                    policy.base.name, binding.name
                );
                return Err(failed(request, subject, why));
            }
            tracing::warn!(policy = %policy.base.name, why, "a failed mutation is ignored");
        }
        if changed != seen {
            effect = Effect::Changed(match &bound.equivalent {
                Some(equivalent) => equivalent.requested(&changed)?,
                None => changed,
            });
        }
    }
    Ok(effect)
}

/// The error of a failed mutation. As upstream, its code and its reason do not fit together.
fn failed(request: &Request, subject: &Subject<'_>, why: String) -> ApiError {
    let error = ApiError {
        reason: Reason::Invalid.name().into(),
        message: why.clone(),
        ..forbidden(request, subject, &why, Reason::Forbidden)
    };
    error.with_cause("", &why, "")
}

/// The object with the mutations of a policy, and the errors of those that fail.
fn mutated(
    context: &Arc<dyn Context>,
    policy: &MutatingPolicy,
    values: &Values,
    (target, object): (&Target, &Value),
) -> (Value, Vec<String>) {
    let catalog = context.registry().catalog();
    let entry = catalog.find(&target.group, &target.version, &target.resource);
    // An object of a subresource has the type of that, which has no lists.
    let shape = entry
        .map(|entry| &entry.resource.shape)
        .filter(|_| target.subresource.is_empty());
    let mut object = object.clone();
    let mut errors = Vec::new();
    let mut budget = Budget::new();
    for mutation in &policy.mutations {
        let values = values.with_object(&object);
        // The variables depend on the object.
        let mut lazy = policy.base.variables.lazy();
        match mutation.apply(&object, shape, |expression| {
            let value = values.evaluate(expression, &mut lazy, &mut budget)?;
            cel::to_json(&value).ok_or_else(|| {
                format!(
                    "expression '{}' has a value that is no JSON, or that is too large",
                    expression.text
                )
            })
        }) {
            Ok(changed) => object = changed,
            Err(why) => errors.push(why),
        }
    }
    (object, errors)
}

impl Mutation {
    /// The object with this mutation.
    fn apply(
        &self,
        object: &Value,
        shape: Option<&Shape>,
        mut evaluate: impl FnMut(&Parsed) -> Result<Value, String>,
    ) -> Result<Value, String> {
        match self {
            Self::Apply(expression) => merged(shape, object, &evaluate(expression)?)
                .map_err(|why| format!("error applying patch: invalid ApplyConfiguration: {why}")),
            Self::Patch(expression) => {
                let operations = evaluate(expression)?;
                let mut patched = object.clone();
                // If a test does not hold, the patch does nothing.
                patch::json_if_tests_hold(&mut patched, operations.to_string().as_bytes())
                    .map_err(|error| format!("JSON Patch: {}", error.message))?;
                Ok(patched)
            }
        }
    }
}

fn merged(shape: Option<&Shape>, object: &Value, configuration: &Value) -> Result<Value, String> {
    match shape {
        Some(shape) => apply::merge_into(shape, object, configuration),
        None => {
            let mut merged = object.clone();
            patch::merge(&mut merged, configuration);
            Ok(merged)
        }
    }
}
