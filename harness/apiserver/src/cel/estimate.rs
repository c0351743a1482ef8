//! Estimates the maximum cost of an expression from the types of its variables, as `cel-go` does with the cost model
//! of Kubernetes, and finds fields and variables that do not exist.

use std::sync::Arc;

use super::cost::{NEW_LIST, NEW_MAP, steps, tenth};
use super::error::SyntaxError;
use super::expression::{Comprehension, ComprehensionKind, Expression, Field, Kind, Operator};
use super::types::Type;
use super::{Value, functions};

/// The maximum cost and the type of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    pub(crate) cost: u64,
    pub(crate) type_: Type,
}

/// An expression that cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Problem(String);

/// The text of an expression and its variables.
pub(crate) struct Environment {
    text: Vec<char>,
    variables: Vec<(String, Type)>,
    /// The functions of natives among the variables.
    natives: &'static [(&'static str, Type)],
    /// The message types, with the types of their fields below them.
    messages: &'static [&'static str],
}

impl Environment {
    pub(crate) fn new(text: &str, variables: Vec<(String, Type)>) -> Self {
        Self {
            text: text.chars().collect(),
            variables,
            natives: &[],
            messages: &[],
        }
    }

    /// Declares message types.
    pub(crate) fn with_messages(mut self, messages: &'static [&'static str]) -> Self {
        self.messages = messages;
        self
    }

    /// Declares functions of natives, with the types of their results.
    pub(crate) fn with_functions(mut self, natives: &'static [(&'static str, Type)]) -> Self {
        self.natives = natives;
        self
    }

    /// The estimate of an expression.
    ///
    /// # Errors
    /// If it uses a variable or a field that does not exist.
    pub(crate) fn estimate(&mut self, expression: &Expression) -> Result<Estimate, Problem> {
        let at = expression.at;
        Ok(match &expression.kind {
            Kind::Literal(value) => Estimate {
                cost: 0,
                type_: literal(value),
            },
            Kind::Name(name) => Estimate {
                cost: 1,
                type_: self.type_of_name(at, name)?,
            },
            Kind::Select { operand, field } => {
                let operand = self.estimate(operand)?;
                Estimate {
                    type_: self.field(at, &operand.type_, field)?,
                    cost: operand.cost.saturating_add(1),
                }
            }
            Kind::Has { operand, field } => {
                let operand = self.estimate(operand)?;
                self.field(at, &operand.type_, field)?;
                Estimate {
                    cost: operand.cost,
                    type_: Type::Bool,
                }
            }
            Kind::OptionalSelect { operand, field } => {
                let operand = self.estimate(operand)?;
                let inner = match &operand.type_ {
                    Type::Optional(inner) => inner.as_ref().clone(),
                    other => other.clone(),
                };
                let field = self.field(at, &inner, field)?;
                Estimate {
                    cost: operand.cost.saturating_add(1),
                    type_: Type::Optional(Arc::new(field)),
                }
            }
            Kind::Index { operand, index } => self.index(operand, index)?,
            Kind::OptionalIndex { operand, index } => {
                let item = self.index(operand, index)?;
                Estimate {
                    type_: Type::Optional(Arc::new(item.type_)),
                    ..item
                }
            }
            Kind::Message { type_, fields } => self.message(at, type_, fields)?,
            Kind::Not(inner) => Estimate {
                cost: self.estimate(inner)?.cost.saturating_add(1),
                type_: Type::Bool,
            },
            Kind::Negate(inner) => {
                let inner = self.estimate(inner)?;
                Estimate {
                    cost: inner.cost.saturating_add(1),
                    ..inner
                }
            }
            Kind::And(parts) | Kind::Or(parts) => Estimate {
                cost: self.sum(0, parts)?,
                type_: Type::Bool,
            },
            Kind::Binary { operator, left, right } => {
                let (left, right) = (self.estimate(left)?, self.estimate(right)?);
                self.binary(at, *operator, left, right)?
            }
            Kind::Conditional { condition, yes, no } => {
                let condition = self.estimate(condition)?.cost;
                let (yes, no) = (self.estimate(yes)?, self.estimate(no)?);
                Estimate {
                    cost: condition.saturating_add(yes.cost.max(no.cost)),
                    type_: either(yes.type_, no.type_),
                }
            }
            Kind::List(items) => self.list(items)?,
            Kind::Map(entries) => Estimate {
                cost: self.sum(NEW_MAP, entries.iter().flat_map(|(key, value)| [key, value]))?,
                type_: Type::Map {
                    values: Arc::new(Type::Dynamic),
                    most: entries.len() as u64,
                },
            },
            Kind::Call {
                target,
                function,
                arguments,
            } => self.call(at, target.as_deref(), function, arguments)?,
            Kind::Comprehension(inner) => self.comprehension(inner)?,
        })
    }

    /// The type of a variable or of the name of a type.
    fn type_of_name(&self, at: usize, name: &str) -> Result<Type, Problem> {
        let found = self.variables.iter().rev().find(|(own, _)| own == name);
        match found {
            Some((_, type_)) => Ok(type_.clone()),
            None if functions::type_named(name).is_some() => Ok(Type::Dynamic),
            None => Err(self.problem(at, &format!("undeclared reference to '{name}' (in container '')"))),
        }
    }

    /// The cost of several expressions in addition to `first`.
    fn sum<'e>(&mut self, first: u64, parts: impl IntoIterator<Item = &'e Expression>) -> Result<u64, Problem> {
        let mut cost = first;
        for part in parts {
            cost = cost.saturating_add(self.estimate(part)?.cost);
        }
        Ok(cost)
    }

    fn list(&mut self, items: &[Expression]) -> Result<Estimate, Problem> {
        let mut cost = NEW_LIST;
        let mut type_ = None;
        for item in items {
            let item = self.estimate(item)?;
            cost = cost.saturating_add(item.cost);
            type_ = Some(type_.map_or_else(|| item.type_.clone(), |known| either(known, item.type_.clone())));
        }
        Ok(Estimate {
            cost,
            type_: Type::List {
                items: Arc::new(type_.unwrap_or(Type::Dynamic)),
                most: items.len() as u64,
            },
        })
    }

    fn problem(&self, at: usize, why: &str) -> Problem {
        Problem(SyntaxError::at(&self.text, at, why).to_string())
    }

    fn field(&self, at: usize, type_: &Type, field: &str) -> Result<Type, Problem> {
        match type_ {
            Type::Object(fields) => match fields.get(field) {
                Some(type_) => Ok(type_.clone()),
                None => Err(self.problem(at, &format!("undefined field '{field}'"))),
            },
            Type::Map { values, .. } => Ok(values.as_ref().clone()),
            Type::Dynamic | Type::Message(_) => Ok(Type::Dynamic),
            Type::Optional(inner) => Ok(Type::Optional(Arc::new(self.field(at, inner, field)?))),
            other => {
                let why = format!("type '{}' does not support field selection", other.name());
                Err(self.problem(at, &why))
            }
        }
    }

    fn message(&mut self, at: usize, type_: &str, fields: &[Field]) -> Result<Estimate, Problem> {
        let of_declared = |own: &&str| {
            type_
                .strip_prefix(*own)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if !self.messages.iter().any(of_declared) {
            return Err(self.problem(at, &format!("undeclared reference to '{type_}' (in container '')")));
        }
        let mut cost = NEW_MAP;
        for field in fields {
            cost = cost.saturating_add(self.estimate(&field.value)?.cost);
        }
        Ok(Estimate {
            cost,
            type_: Type::Message(type_.to_owned()),
        })
    }

    fn index(&mut self, operand: &Expression, index: &Expression) -> Result<Estimate, Problem> {
        let (operand, index) = (self.estimate(operand)?, self.estimate(index)?);
        let inner = match operand.type_ {
            Type::Optional(inner) => inner.as_ref().clone(),
            other => other,
        };
        Ok(Estimate {
            cost: operand.cost.saturating_add(index.cost).saturating_add(1),
            type_: match inner {
                Type::List { items, .. } => items.as_ref().clone(),
                Type::Map { values, .. } => values.as_ref().clone(),
                _ => Type::Dynamic,
            },
        })
    }

    fn binary(&self, at: usize, operator: Operator, left: Estimate, right: Estimate) -> Result<Estimate, Problem> {
        use Operator::{Add, Equal, Greater, GreaterOrEqual, In, Less, LessOrEqual, NotEqual};
        let sizes = left.type_.most().zip(right.type_.most());
        let own = match operator {
            In => right.type_.most().unwrap_or(1),
            Equal | NotEqual => {
                if differ(&left.type_, &right.type_) {
                    let why = format!(
                        "found no matching overload for '{}' applied to '({}, {})'",
                        operator.name(),
                        left.type_.name(),
                        right.type_.name()
                    );
                    return Err(self.problem(at, &why));
                }
                sizes.map_or(1, |(left, right)| tenth(left.min(right)))
            }
            Less | LessOrEqual | Greater | GreaterOrEqual => sizes.map_or(1, |(left, right)| tenth(left.min(right))),
            Add => match &left.type_ {
                Type::Text { .. } | Type::Bytes { .. } | Type::Dynamic => {
                    sizes.map_or(1, |(left, right)| tenth(left.saturating_add(right)))
                }
                _ => 1,
            },
            _ => 1,
        };
        let type_ = match operator {
            In | Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual => Type::Bool,
            Add => match (left.type_, right.type_) {
                (Type::Text { most }, Type::Text { most: more }) => Type::Text {
                    most: most.saturating_add(more),
                },
                (Type::Bytes { most }, Type::Bytes { most: more }) => Type::Bytes {
                    most: most.saturating_add(more),
                },
                (Type::List { items, most }, Type::List { most: more, .. }) => Type::List {
                    items,
                    most: most.saturating_add(more),
                },
                (Type::Timestamp, _) | (_, Type::Timestamp) => Type::Timestamp,
                (known, _) => known,
            },
            _ => match (left.type_, right.type_) {
                (Type::Timestamp, Type::Timestamp) => Type::Duration,
                (known, _) => known,
            },
        };
        Ok(Estimate {
            cost: left.cost.saturating_add(right.cost).saturating_add(own),
            type_,
        })
    }

    fn call(
        &mut self,
        at: usize,
        target: Option<&Expression>,
        function: &str,
        arguments: &[Expression],
    ) -> Result<Estimate, Problem> {
        let mut cost = 0_u64;
        let mut types = Vec::new();
        let mut count = None;
        for part in target.into_iter().chain(arguments) {
            if let Kind::Literal(Value::Int(value)) = &part.kind {
                count = u64::try_from(*value).ok();
            }
            let part = self.estimate(part)?;
            cost = cost.saturating_add(part.cost);
            types.push(part.type_);
        }
        if let Some((_, result)) = self.natives.iter().find(|(own, _)| *own == function) {
            return Ok(Estimate {
                cost: cost.saturating_add(1),
                type_: result.clone(),
            });
        }
        if !functions::is_known(function) {
            return Err(self.problem(at, &format!("undeclared reference to '{function}' (in container '')")));
        }
        let sizes: Vec<u64> = types.iter().map(|type_| type_.most().unwrap_or(1)).collect();
        let mut own = functions::cost(function, &sizes, count);
        let of_bytes = matches!(types.first(), Some(Type::Bytes { .. }));
        if functions::is_conversion(function) || (function == "string" && !of_bytes) {
            own = 1;
        }
        if function == "join" {
            let items = types.first().and_then(|type_| type_.elements().most()).unwrap_or(1);
            own = sizes.first().copied().unwrap_or(1).saturating_mul(tenth(items));
        }
        Ok(Estimate {
            cost: cost.saturating_add(own),
            type_: functions::result(function, &types, count),
        })
    }

    fn comprehension(&mut self, inner: &Comprehension) -> Result<Estimate, Problem> {
        use ComprehensionKind as C;
        let range = self.estimate(&inner.range)?;
        let before = self.variables.len();
        let element = match (&inner.kind, &range.type_) {
            (C::OptionalMap | C::OptionalFlatMap, Type::Optional(inner)) => inner.as_ref().clone(),
            (_, type_) => type_.elements(),
        };
        match &inner.second {
            None => self.variables.push((inner.first.clone(), element)),
            Some(second) => {
                let (first, value) = match &range.type_ {
                    Type::List { items, .. } => (Type::Int, items.as_ref().clone()),
                    Type::Map { values, .. } => (Type::KEY, values.as_ref().clone()),
                    _ => (Type::Dynamic, Type::Dynamic),
                };
                self.variables.push((inner.first.clone(), first));
                self.variables.push((second.clone(), value));
            }
        }
        let filter = inner.filter.as_ref().map(|filter| self.estimate(filter)).transpose();
        let body = self.estimate(&inner.body);
        self.variables.truncate(before);
        let (filter, body) = (filter?.map_or(0, |filter| filter.cost), body?);
        let count = match inner.kind {
            C::OptionalMap | C::OptionalFlatMap => 1,
            _ => range.type_.most().unwrap_or(1),
        };
        // The accumulator and the condition of the loop, in the expansion of upstream's macros.
        let (step, rest) = steps(inner.kind);
        let step = step.saturating_add(filter).saturating_add(body.cost);
        let mut cost = range
            .cost
            .saturating_add(rest)
            .saturating_add(count.saturating_mul(step));
        if inner.kind == C::SortBy {
            cost = cost.saturating_add(count.saturating_mul(count));
        }
        let type_ = match inner.kind {
            C::All | C::Exists | C::ExistsOne => Type::Bool,
            C::Filter | C::SortBy => match range.type_ {
                list @ Type::List { .. } => list,
                _ => Type::Dynamic,
            },
            C::Map => Type::List {
                items: Arc::new(body.type_),
                most: count,
            },
            C::TransformMap => Type::Map {
                values: Arc::new(body.type_),
                most: count,
            },
            C::OptionalMap => Type::Optional(Arc::new(body.type_)),
            C::OptionalFlatMap => body.type_,
        };
        Ok(Estimate { cost, type_ })
    }
}

fn literal(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::UInt(_) => Type::Uint,
        Value::Float(_) => Type::Double,
        Value::String(text) => Type::Text {
            most: text.len() as u64,
        },
        Value::Bytes(bytes) => Type::Bytes {
            most: bytes.len() as u64,
        },
        _ => Type::Dynamic,
    }
}

/// The type of one of two values.
fn either(one: Type, other: Type) -> Type {
    match (one, other) {
        (Type::Text { most }, Type::Text { most: more }) => Type::Text { most: most.max(more) },
        (Type::Bytes { most }, Type::Bytes { most: more }) => Type::Bytes { most: most.max(more) },
        (
            Type::List { items, most },
            Type::List {
                items: others,
                most: more,
            },
        ) => Type::List {
            items: match (most, more) {
                _ if items == others => items,
                // An empty list has no items of another type.
                (0, _) => others,
                (_, 0) => items,
                _ => Arc::new(either(items.as_ref().clone(), others.as_ref().clone())),
            },
            most: most.max(more),
        },
        (one, other) if one == other => one,
        _ => Type::Dynamic,
    }
}

/// Whether two values can never be compared.
fn differ(one: &Type, other: &Type) -> bool {
    let class = |type_: &Type| match type_ {
        Type::Bool => Some(0),
        Type::Int => Some(1),
        Type::Uint => Some(2),
        Type::Double => Some(3),
        Type::Text { .. } => Some(4),
        Type::Bytes { .. } => Some(5),
        Type::Timestamp => Some(6),
        Type::Duration => Some(7),
        Type::List { .. } => Some(8),
        Type::Map { .. } => Some(9),
        Type::Dynamic | Type::Null | Type::Object(_) | Type::Optional(_) | Type::Message(_) => None,
    };
    matches!((class(one), class(other)), (Some(one), Some(other)) if one != other)
}
