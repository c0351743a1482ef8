//! Variables that are expressions themselves: evaluated when they are used first, and only once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::expression::{Expression, Kind};
use super::{Evaluated, Evaluator, Failure};

/// The name of the object whose members are the variables.
const VARIABLES: &str = "variables";

/// The members of `variables`, and the values of those that were used.
#[derive(Debug)]
pub(crate) struct Lazy {
    /// Each expression uses only earlier ones.
    expressions: Arc<Vec<(String, Expression)>>,
    found: BTreeMap<String, Evaluated>,
}

impl Lazy {
    pub(crate) fn new(expressions: Arc<Vec<(String, Expression)>>) -> Self {
        Self {
            expressions,
            found: BTreeMap::new(),
        }
    }
}

impl Evaluator<'_> {
    /// The value of `variables.field`; `None` if this is another operand, or there is no such variable.
    pub(super) fn lazy_member(&mut self, operand: &Expression, field: &str) -> Option<Evaluated> {
        if !matches!(&operand.kind, Kind::Name(name) if name == VARIABLES) {
            return None;
        }
        let lazy = self.lazy.as_ref()?;
        if let Some(found) = lazy.found.get(field) {
            return Some(found.clone());
        }
        let expressions = Arc::clone(&lazy.expressions);
        let (_, expression) = expressions.iter().find(|(name, _)| name == field)?;
        // The variables of macros around this use do not belong to the expression of the variable.
        let around = self.variables.split_off(self.given);
        let value = self.value(expression).map_err(|failure| match failure {
            Failure::Error(why) => Failure::Error(format!("composited variable {field:?} fails to evaluate: {why}")),
            limit => limit,
        });
        self.variables.extend(around);
        if let Some(lazy) = &mut self.lazy {
            lazy.found.insert(field.to_owned(), value.clone());
        }
        Some(value)
    }
}
