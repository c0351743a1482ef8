//! Validating policies, what all policies have, and bindings.

use serde_json::Value;

use super::expressions::{Conditions, Expected, Parsed, Scope, Variables};
use super::rules::Constraints;

/// What all policies have.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) name: String,
    /// Whether an error of an expression refuses the request.
    pub(crate) fails_closed: bool,
    pub(crate) constraints: Constraints,
    pub(crate) conditions: Conditions,
    pub(crate) variables: Variables,
    pub(crate) param_kind: Option<ParamKind>,
    /// Why the policy cannot be evaluated.
    pub(crate) error: Option<String>,
    messages: bool,
}

/// A policy that checks requests.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) base: Base,
    pub(crate) validations: Vec<Validation>,
}

/// One check of a policy.
#[derive(Clone, Debug)]
pub(crate) struct Validation {
    pub(crate) expression: Parsed,
    /// Empty if there is none.
    pub(crate) message: String,
    pub(crate) message_expression: Option<Parsed>,
    /// The reason of the refusal.
    pub(crate) reason: Reason,
}

/// The reason of a refusal, and its HTTP code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Forbidden,
    Invalid,
    TooLarge,
    Unauthorized,
}

/// The kind of the parameters of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParamKind {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

/// What a binding does with a failed validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Deny,
    Warn,
    /// Only the audit log would show it; this server has none.
    Audit,
}

/// Where a policy applies, and with which parameters.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) policy: String,
    pub(crate) constraints: Constraints,
    pub(crate) params: Option<ParamRef>,
    pub(crate) actions: Vec<Action>,
}

/// The parameters of a binding.
#[derive(Clone, Debug)]
pub(crate) struct ParamRef {
    /// Empty if a selector selects the parameters.
    pub(crate) name: String,
    /// Empty for the namespace of the request.
    pub(crate) namespace: String,
    /// As text.
    pub(crate) selector: String,
    /// Whether a request passes if there are none.
    pub(crate) allows_none: bool,
}

impl Reason {
    fn named(name: &str) -> Self {
        match name {
            "Forbidden" => Self::Forbidden,
            "RequestEntityTooLarge" => Self::TooLarge,
            "Unauthorized" => Self::Unauthorized,
            _ => Self::Invalid,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::Invalid => "Invalid",
            Self::TooLarge => "RequestEntityTooLarge",
            Self::Unauthorized => "Unauthorized",
        }
    }

    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Forbidden => 403,
            Self::Invalid => 422,
            Self::TooLarge => 413,
            Self::Unauthorized => 401,
        }
    }
}

/// An expression that does not compile, with the path of its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub(crate) struct ExpressionError {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) why: String,
}

impl Base {
    /// Reads a policy; adds the errors of its expressions.
    pub(super) fn read(policy: &Value, errors: &mut Vec<ExpressionError>) -> Self {
        let spec = policy.get("spec").unwrap_or(&Value::Null);
        let param_kind = spec.get("paramKind").filter(|kind| kind.is_object());
        let mut base = Self {
            name: name(policy),
            fails_closed: text(spec, "failurePolicy") != "Ignore",
            constraints: Constraints::of_policy(spec.get("matchConstraints").unwrap_or(&Value::Null)),
            conditions: Conditions::default(),
            variables: Variables::default(),
            param_kind: param_kind.map(|kind| ParamKind {
                api_version: text(kind, "apiVersion").to_owned(),
                kind: text(kind, "kind").to_owned(),
            }),
            error: None,
            messages: spec.get("mutations").is_some(),
        };
        let scope = base.scope();
        base.conditions = read_conditions(spec, "spec", scope, errors);
        base.variables = read_variables(spec, scope, errors);
        base
    }

    /// The policy with its first error.
    pub(super) fn with_error_of(mut self, errors: &[ExpressionError]) -> Self {
        self.error = errors.first().map(ExpressionError::to_string);
        self
    }

    /// What the expressions of the policy can use.
    pub(super) fn scope(&self) -> Scope {
        Scope {
            params: self.param_kind.is_some(),
            namespace: true,
            authorizer: true,
            messages: self.messages,
        }
    }
}

impl Policy {
    /// Reads a policy, and the errors of its expressions. With errors, each evaluation of the policy fails.
    pub(crate) fn read(policy: &Value) -> (Self, Vec<ExpressionError>) {
        let mut errors = Vec::new();
        let base = Base::read(policy, &mut errors);
        let scope = base.scope();
        let spec = policy.get("spec").unwrap_or(&Value::Null);
        let mut validations = Vec::new();
        for (index, validation) in items(spec, "validations").enumerate() {
            let mut parse = |field: &str| {
                let path = format!("spec.validations[{index}].{field}");
                // The reason of a permission must not get into messages.
                let (expected, authorizer) = match field {
                    "expression" => (Expected::Bool, true),
                    _ => (Expected::Text, false),
                };
                let scope = Scope { authorizer, ..scope };
                parsed(
                    &base.variables,
                    (text(validation, field), expected),
                    scope,
                    path,
                    &mut errors,
                )
            };
            let expression = parse("expression");
            let has_message = !text(validation, "messageExpression").is_empty();
            let message_expression = if has_message { parse("messageExpression") } else { None };
            validations.extend(expression.map(|expression| Validation {
                expression,
                message: text(validation, "message").trim().to_owned(),
                message_expression,
                reason: Reason::named(text(validation, "reason")),
            }));
        }
        for (index, annotation) in items(spec, "auditAnnotations").enumerate() {
            let path = format!("spec.auditAnnotations[{index}].valueExpression");
            parsed(
                &base.variables,
                (text(annotation, "valueExpression"), Expected::Text),
                scope,
                path,
                &mut errors,
            );
        }
        let base = base.with_error_of(&errors);
        (Self { base, validations }, errors)
    }
}

impl Binding {
    pub(crate) fn read(binding: &Value) -> Self {
        let spec = binding.get("spec").unwrap_or(&Value::Null);
        let params = spec.get("paramRef").filter(|params| params.is_object());
        let actions = items(spec, "validationActions").filter_map(Value::as_str);
        Self {
            name: name(binding),
            policy: text(spec, "policyName").to_owned(),
            constraints: Constraints::of_policy(spec.get("matchResources").unwrap_or(&Value::Null)),
            params: params.map(|params| ParamRef {
                name: text(params, "name").to_owned(),
                namespace: text(params, "namespace").to_owned(),
                selector: crate::selector::text_of(params.get("selector").unwrap_or(&Value::Null)),
                allows_none: text(params, "parameterNotFoundAction") == "Allow",
            }),
            actions: actions
                .map(|action| match action {
                    "Deny" => Action::Deny,
                    "Warn" => Action::Warn,
                    _ => Action::Audit,
                })
                .collect(),
        }
    }
}

/// Reads the match conditions of a policy or webhook; adds errors.
pub(super) fn read_conditions(spec: &Value, path: &str, scope: Scope, errors: &mut Vec<ExpressionError>) -> Conditions {
    match Conditions::parse(spec.get("matchConditions"), scope) {
        Ok(conditions) => conditions,
        Err((index, why)) => {
            let condition = items(spec, "matchConditions").nth(index).unwrap_or(&Value::Null);
            errors.push(ExpressionError {
                path: format!("{path}.matchConditions[{index}].expression"),
                text: text(condition, "expression").to_owned(),
                why,
            });
            Conditions::default()
        }
    }
}

fn read_variables(spec: &Value, scope: Scope, errors: &mut Vec<ExpressionError>) -> Variables {
    let mut variables = Variables::default();
    for (index, variable) in items(spec, "variables").enumerate() {
        let expression = text(variable, "expression");
        if let Err(why) = variables.add(text(variable, "name"), expression, scope) {
            errors.push(ExpressionError {
                path: format!("spec.variables[{index}].expression"),
                text: expression.to_owned(),
                why,
            });
        }
    }
    variables
}

pub(super) fn parsed(
    variables: &Variables,
    (text, expected): (&str, Expected),
    scope: Scope,
    path: String,
    errors: &mut Vec<ExpressionError>,
) -> Option<Parsed> {
    match variables.parse(text, expected, scope) {
        Ok(parsed) => Some(parsed),
        Err(why) => {
            let text = text.to_owned();
            errors.push(ExpressionError { path, text, why });
            None
        }
    }
}

pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn name(object: &Value) -> String {
    object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
