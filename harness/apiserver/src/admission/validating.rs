//! Decisions of validating policies.

use std::sync::Arc;

use super::Context;
use super::bound::Bound;
use super::refusal::refused;
use super::request::Request;
use super::values::Values;
use crate::cel::{Budget, Lazy, Value};
use crate::policies::{Action, Binding, Policy, Reason, Validation};
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
        for binding in bindings {
            for failed in decide(context, (policy, binding), (request, subject))? {
                for action in &binding.actions {
                    let (policy, binding, message) = (&policy.base.name, &binding.name, &failed.message);
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
) -> Result<Vec<Failed>, ApiError> {
    let error = |message: String| {
        let failed = Failed {
            message,
            reason: Reason::Invalid,
        };
        if policy.base.fails_closed {
            vec![failed]
        } else {
            Vec::new()
        }
    };
    let mut failures = Vec::new();
    let Some(bound) = Bound::of(context.registry(), (&policy.base, binding), (request, subject))? else {
        return Ok(failures);
    };
    for values in bound.values(context, (&policy.base, binding), (request, subject))? {
        let values = match values {
            Ok(values) => values,
            Err(why) => {
                failures.extend(error(why));
                continue;
            }
        };
        let mut lazy = policy.base.variables.lazy();
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
