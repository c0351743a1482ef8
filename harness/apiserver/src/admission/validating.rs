//! Decisions of validating policies.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Context;
use super::matching::matched;
use super::params;
use super::refusal::refused;
use super::request::{Kind, Request};
use super::values::{Values, hold};
use crate::cel::{Budget, Lazy, Value};
use crate::policies::{Action, Binding, Policy, Reason, Target, Validation};
use crate::reviewer::Subject;
use crate::status::ApiError;

/// The longest message that an expression can produce.
const MAX_MESSAGE: usize = 5 * 1024;

/// Why a policy does not let a request pass.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failed {
    message: String,
    reason: Reason,
}

/// Decides about a request by all policies; the first refusal counts. Adds warnings.
///
/// # Errors
/// The refusal.
pub(crate) fn validate(
    context: &Arc<dyn Context>,
    policies: &[(Policy, Vec<Binding>)],
    (request, subject): (&Request, &Subject<'_>),
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let mut refusal = None;
    for (policy, bindings) in policies {
        let Some(seen) = matched(&policy.constraints, context.registry(), request, subject)? else {
            continue;
        };
        for binding in bindings {
            if matched(&binding.constraints, context.registry(), request, subject)?.is_none() {
                continue;
            }
            for failed in decide(context, (policy, binding), (request, subject), &seen)? {
                for action in &binding.actions {
                    let (policy, binding, message) = (&policy.name, &binding.name, &failed.message);
                    match action {
                        Action::Audit => {}
                        Action::Warn => warnings.push(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"
                        )),
                        Action::Deny => {
                            refusal.get_or_insert_with(|| {
                                let message = format!(
                                    "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}"
                                );
                                refused(request, subject, &message, failed.reason)
                            });
                        }
                    }
                }
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// What a policy objects to, with the parameters of one binding.
fn decide(
    context: &Arc<dyn Context>,
    (policy, binding): (&Policy, &Binding),
    (request, subject): (&Request, &Subject<'_>),
    seen: &(Kind, Target),
) -> Result<Vec<Failed>, ApiError> {
    let error = |message: String| {
        let failed = Failed {
            message,
            reason: Reason::Invalid,
        };
        if policy.fails_closed { vec![failed] } else { Vec::new() }
    };
    let found: Vec<Option<Json>> = match (&policy.param_kind, &binding.params) {
        (Some(kind), Some(reference)) => match params::find(context.registry(), kind, reference, subject) {
            Ok(found) => found.into_iter().map(Some).collect(),
            Err(why) => return Ok(error(format!("failed to configure binding: {why}"))),
        },
        _ => vec![None],
    };
    let values = Values::of(context, request, subject, seen).with_namespace(context.as_ref(), subject)?;
    let mut failures = Vec::new();
    for params in found {
        let values = values.with_params(params.as_ref());
        match hold(&policy.conditions, &values) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(why) => {
                failures.extend(error(why));
                continue;
            }
        }
        let mut lazy = policy.variables.lazy();
        let mut budget = Budget::new();
        for validation in &policy.validations {
            match values.evaluate(&validation.expression, &mut lazy, &mut budget) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => failures.push(Failed {
                    message: message(validation, &values, &mut lazy, &mut budget),
                    reason: validation.reason,
                }),
                Err(why) => failures.extend(error(why)),
            }
        }
    }
    Ok(failures)
}

/// The text of the message expression, else the message, else one that quotes the expression.
fn message(validation: &Validation, values: &Values, lazy: &mut Lazy, budget: &mut Budget) -> String {
    let found = validation
        .message_expression
        .as_ref()
        .map(|expression| values.evaluate(expression, lazy, budget));
    match found {
        Some(Ok(Value::String(text)))
            if !text.trim().is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE =>
        {
            text.trim().to_owned()
        }
        _ if validation.message.is_empty() => format!("failed expression: {}", validation.expression.text),
        _ => validation.message.clone(),
    }
}
