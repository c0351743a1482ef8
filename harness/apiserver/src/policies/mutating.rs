//! Mutating policies, parsed.

use serde_json::Value;

use super::expressions::{Expected, Parsed};
use super::policy::{Base, ExpressionError, items, parsed, text};

/// A policy that changes objects.
#[derive(Clone, Debug)]
pub(crate) struct MutatingPolicy {
    pub(crate) base: Base,
    pub(crate) mutations: Vec<Mutation>,
    /// Whether it is applied again after something later has changed the object.
    pub(crate) is_reinvoked: bool,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) enum Mutation {
    /// The value is merged into the object as an applied configuration.
    Apply(Parsed),
    /// The value is a list of operations.
    Patch(Parsed),
}

impl MutatingPolicy {
    /// Reads a policy, and the errors of its expressions. With errors, each evaluation of the policy fails.
    pub(crate) fn read(policy: &Value) -> (Self, Vec<ExpressionError>) {
        let mut errors = Vec::new();
        let base = Base::read(policy, &mut errors);
        let spec = policy.get("spec").unwrap_or(&Value::Null);
        let mut mutations = Vec::new();
        for (index, mutation) in items(spec, "mutations").enumerate() {
            let (field, expected) = match text(mutation, "patchType") {
                "ApplyConfiguration" => ("applyConfiguration", Expected::Object),
                "JSONPatch" => ("jsonPatch", Expected::Operations),
                _ => continue,
            };
            let path = format!("spec.mutations[{index}].{field}.expression");
            let expression = text(mutation.get(field).unwrap_or(&Value::Null), "expression");
            let scope = base.scope();
            let expression = parsed(&base.variables, (expression, expected), scope, path, &mut errors);
            mutations.extend(expression.map(|expression| match expected {
                Expected::Object => Mutation::Apply(expression),
                _ => Mutation::Patch(expression),
            }));
        }
        let policy = Self {
            base: base.with_error_of(&errors),
            mutations,
            is_reinvoked: text(spec, "reinvocationPolicy") == "IfNeeded",
        };
        (policy, errors)
    }
}
