//! Evaluates expressions with a budget. The cost is that of the estimate with actual sizes, plus what the cost model omits:
//! compiling patterns, reading long names and keys, comparing nested items, and large results.

mod access;
mod calls;
mod comprehension;
mod lazy;
mod message;
mod operators;
mod patterns;
mod size;

use std::collections::HashMap;

pub(crate) use self::access::optional;
use self::access::{flattened, has, is_optional, item, select};
pub(crate) use self::lazy::Lazy;
use self::patterns::Patterns;
pub(crate) use self::size::is_within;
use self::size::{key_cost, name_cost, weigh};
use super::cost::{NEW_LIST, NEW_MAP, tenth};
use super::expression::{Expression, Kind};
use super::{CALL_LIMIT, Key, Map, OBJECT_LIMIT, Value, functions};

/// What the expressions of one object may still cost.
#[derive(Debug)]
pub(crate) struct Budget {
    call: u64,
    object: u64,
    patterns: Patterns,
}

/// The reason why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The expression costs too much.
    CallLimit,
    /// All expressions together cost too much.
    ObjectLimit,
    /// An error of an operator or function.
    Error(String),
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self {
            call: CALL_LIMIT,
            object: OBJECT_LIMIT,
            patterns: Patterns::default(),
        }
    }

    fn spend(&mut self, cost: u64) -> Result<(), Failure> {
        self.object = self
            .object
            .checked_sub(cost.min(self.call))
            .ok_or(Failure::ObjectLimit)?;
        self.call = self.call.checked_sub(cost).ok_or(Failure::CallLimit)?;
        Ok(())
    }
}

/// Evaluates an expression with these variables.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn evaluate(
    expression: &Expression,
    variables: Vec<(String, Value)>,
    budget: &mut Budget,
) -> Result<Value, Failure> {
    evaluate_with(expression, variables, None, budget)
}

/// Evaluates an expression with these variables, and with the members of `variables`, which are expressions too.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn evaluate_with(
    expression: &Expression,
    variables: Vec<(String, Value)>,
    lazy: Option<&mut Lazy>,
    budget: &mut Budget,
) -> Result<Value, Failure> {
    budget.call = CALL_LIMIT;
    let mut evaluator = Evaluator {
        given: variables.len(),
        variables,
        lazy,
        budget,
    };
    evaluator.value(expression)
}

struct Evaluator<'a> {
    /// The given variables, then those of the macros around the current expression.
    variables: Vec<(String, Value)>,
    /// How many variables are given.
    given: usize,
    lazy: Option<&'a mut Lazy>,
    budget: &'a mut Budget,
}

type Evaluated = Result<Value, Failure>;

fn error(why: &str) -> Failure {
    Failure::Error(why.to_owned())
}

fn overload() -> Failure {
    error("no such overload")
}

impl Evaluator<'_> {
    fn value(&mut self, expression: &Expression) -> Evaluated {
        match &expression.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Name(name) => {
                self.budget.spend(name_cost(name))?;
                let found = self.variables.iter().rev().find(|(own, _)| own == name);
                found
                    .map(|(_, value)| value.clone())
                    .or_else(|| functions::type_named(name))
                    .ok_or_else(|| Failure::Error(format!("undeclared reference to '{name}'")))
            }
            Kind::Select { operand, field } => {
                if let Some(found) = self.lazy_member(operand, field) {
                    return found;
                }
                let operand = self.value(operand)?;
                self.budget.spend(name_cost(field))?;
                select(&operand, field)
            }
            Kind::Has { operand, field } => {
                let operand = self.value(operand)?;
                self.budget.spend(name_cost(field).saturating_sub(1))?;
                has(&operand, field)
            }
            Kind::OptionalSelect { operand, field } => {
                let operand = self.value(operand)?;
                self.budget.spend(name_cost(field))?;
                let inner = flattened(operand);
                Ok(optional(inner.and_then(|inner| select(&inner, field).ok())))
            }
            Kind::Index { operand, index } | Kind::OptionalIndex { operand, index } => {
                let (operand, index) = (self.value(operand)?, self.value(index)?);
                self.budget.spend(key_cost(&index))?;
                if matches!(expression.kind, Kind::Index { .. }) && !is_optional(&operand) {
                    return item(&operand, &index);
                }
                let inner = flattened(operand);
                Ok(optional(inner.and_then(|inner| item(&inner, &index).ok())))
            }
            Kind::Not(inner) => {
                self.budget.spend(1)?;
                self.bool(inner).map(|value| Value::Bool(!value))
            }
            Kind::Negate(inner) => {
                self.budget.spend(1)?;
                match self.value(inner)? {
                    Value::Int(value) => value
                        .checked_neg()
                        .map(Value::Int)
                        .ok_or_else(|| error("integer overflow")),
                    Value::Float(value) => Ok(Value::Float(-value)),
                    _ => Err(overload()),
                }
            }
            Kind::And(parts) => self.logic(parts, false),
            Kind::Or(parts) => self.logic(parts, true),
            Kind::Binary { operator, left, right } => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.binary(*operator, left, right)
            }
            Kind::Conditional { condition, yes, no } => {
                let branch = if self.bool(condition)? { yes } else { no };
                self.value(branch)
            }
            Kind::List(items) => {
                self.budget.spend(NEW_LIST)?;
                let items: Result<Vec<Value>, Failure> = items.iter().map(|item| self.value(item)).collect();
                Ok(Value::List(items?.into()))
            }
            Kind::Map(entries) => {
                self.budget.spend(NEW_MAP)?;
                let mut map = HashMap::new();
                for (key, value) in entries {
                    let key = self.value(key)?;
                    self.budget.spend(key_cost(&key).saturating_sub(1))?;
                    let key: Key = key.try_into().map_err(|_| overload())?;
                    if map.insert(key, self.value(value)?).is_some() {
                        return Err(error("a key of a map is repeated"));
                    }
                }
                Ok(Value::Map(Map { map: map.into() }))
            }
            Kind::Call {
                target,
                function,
                arguments,
            } => {
                let target = target.as_ref().map(|target| self.value(target)).transpose()?;
                let arguments: Result<Vec<Value>, Failure> =
                    arguments.iter().map(|argument| self.value(argument)).collect();
                self.call(function, target, arguments?)
            }
            Kind::Comprehension(inner) => self.comprehension(inner),
            Kind::Message { fields, .. } => self.message(fields),
        }
    }

    fn bool(&mut self, expression: &Expression) -> Result<bool, Failure> {
        match self.value(expression)? {
            Value::Bool(value) => Ok(value),
            _ => Err(overload()),
        }
    }

    /// Spends a tenth of the size of everything in a value; returns the size.
    fn read(&mut self, value: &Value) -> Result<u64, Failure> {
        let limit = self.budget.call.saturating_mul(10).saturating_add(10);
        let mut left = limit;
        weigh(value, &mut left);
        let size = limit.saturating_sub(left);
        self.budget.spend(tenth(size).max(1))?;
        Ok(size)
    }
}
