//! Evaluates expressions with a budget. The cost is that of the estimate, with actual sizes.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::ExecutionError;
use kube_cel::cel::objects::OptionalValue;
use regex::Regex;

use super::cost::{NEW_LIST, NEW_MAP, steps, tenth};
use super::expression::{Comprehension, ComprehensionKind, Expression, Kind, Operator};
use super::{CALL_LIMIT, Key, Map, OBJECT_LIMIT, Value, functions};

/// What the expressions of one object may still cost.
#[derive(Debug)]
pub(crate) struct Budget {
    call: u64,
    object: u64,
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
    budget.call = CALL_LIMIT;
    let mut evaluator = Evaluator {
        variables,
        budget,
        pattern: None,
    };
    evaluator.value(expression)
}

struct Evaluator<'a> {
    variables: Vec<(String, Value)>,
    budget: &'a mut Budget,
    /// The last pattern, which usually is the next one too.
    pattern: Option<(Arc<String>, Regex)>,
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
                self.budget.spend(1)?;
                let found = self.variables.iter().rev().find(|(own, _)| own == name);
                found
                    .map(|(_, value)| value.clone())
                    .or_else(|| functions::type_named(name))
                    .ok_or_else(|| Failure::Error(format!("undeclared reference to '{name}'")))
            }
            Kind::Select { operand, field } => {
                let operand = self.value(operand)?;
                self.budget.spend(1)?;
                select(&operand, field)
            }
            Kind::Has { operand, field } => match self.value(operand)? {
                Value::Map(map) => Ok(Value::Bool(member(&map, field).is_some())),
                Value::Opaque(opaque) => match opaque.downcast_ref::<OptionalValue>() {
                    Some(optional) => Ok(Value::Bool(
                        matches!(optional.value(), Some(Value::Map(map)) if member(map, field).is_some()),
                    )),
                    None => Err(overload()),
                },
                _ => Err(overload()),
            },
            Kind::OptionalSelect { operand, field } => {
                let operand = self.value(operand)?;
                self.budget.spend(1)?;
                let inner = flattened(operand);
                Ok(optional(inner.and_then(|inner| select(&inner, field).ok())))
            }
            Kind::Index { operand, index } => {
                let (operand, index) = (self.value(operand)?, self.value(index)?);
                self.budget.spend(1)?;
                if is_optional(&operand) {
                    let inner = flattened(operand);
                    return Ok(optional(inner.and_then(|inner| item(&inner, &index).ok())));
                }
                item(&operand, &index)
            }
            Kind::OptionalIndex { operand, index } => {
                let (operand, index) = (self.value(operand)?, self.value(index)?);
                self.budget.spend(1)?;
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
                    let key: Key = self.value(key)?.try_into().map_err(|_| overload())?;
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
        }
    }

    fn bool(&mut self, expression: &Expression) -> Result<bool, Failure> {
        match self.value(expression)? {
            Value::Bool(value) => Ok(value),
            _ => Err(overload()),
        }
    }

    /// Whether any part (or, without `decisive`, all parts) are true. An error counts only if no part decides.
    fn logic(&mut self, parts: &[Expression], decisive: bool) -> Evaluated {
        let mut failure = None;
        for part in parts {
            match self.bool(part) {
                Ok(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(error @ Failure::Error(_)) => failure = failure.or(Some(error)),
                Err(limit) => return Err(limit),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the operators of this type return an error on overflow"
    )]
    fn binary(&mut self, operator: Operator, left: Value, right: Value) -> Evaluated {
        use Operator as O;
        match operator {
            O::Equal | O::NotEqual => {
                let same = self.equal(&left, &right)?;
                Ok(Value::Bool(same == (operator == O::Equal)))
            }
            O::In => self.contains(&right, &left).map(Value::Bool),
            O::Less | O::LessOrEqual | O::Greater | O::GreaterOrEqual => {
                self.budget.spend(tenth(size(&left).min(size(&right))).max(1))?;
                let order = left.partial_cmp(&right);
                if order.is_none() && !(is_number(&left) && is_number(&right)) {
                    return Err(overload());
                }
                Ok(Value::Bool(match operator {
                    O::Less => order == Some(Ordering::Less),
                    O::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    O::Greater => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                }))
            }
            O::Add => {
                self.budget
                    .spend(tenth(size(&left).saturating_add(size(&right))).max(1))?;
                match (left, right) {
                    (Value::Bytes(left), Value::Bytes(right)) => {
                        Ok(Value::Bytes([left.as_slice(), right.as_slice()].concat().into()))
                    }
                    (left, right) => arithmetic(left + right),
                }
            }
            O::Subtract => {
                self.budget.spend(1)?;
                arithmetic(left - right)
            }
            O::Multiply => {
                self.budget.spend(1)?;
                arithmetic(left * right)
            }
            O::Divide => {
                self.budget.spend(1)?;
                arithmetic(left / right)
            }
            O::Remainder => {
                self.budget.spend(1)?;
                arithmetic(left % right)
            }
        }
    }

    /// Spends a tenth of the size of everything in a value.
    fn read(&mut self, value: &Value) -> Result<(), Failure> {
        let limit = self.budget.call.saturating_mul(10).saturating_add(10);
        let mut left = limit;
        weigh(value, &mut left);
        self.budget.spend(tenth(limit.saturating_sub(left)).max(1))
    }

    fn equal(&mut self, left: &Value, right: &Value) -> Result<bool, Failure> {
        // Only one side has to be read to its end.
        match (left, right) {
            (Value::List(_) | Value::Map(_) | Value::Opaque(_), Value::List(_) | Value::Map(_) | Value::Opaque(_)) => {
                self.read(left)?;
                self.read(right)?;
            }
            _ => self.budget.spend(tenth(size(left).min(size(right))).max(1))?,
        }
        Ok(left == right)
    }

    fn contains(&mut self, container: &Value, wanted: &Value) -> Result<bool, Failure> {
        match container {
            Value::List(items) => {
                self.budget.spend(items.len() as u64)?;
                for item in items.iter() {
                    let scalar = !matches!(item, Value::List(_) | Value::Map(_) | Value::Opaque(_));
                    if if scalar {
                        item == wanted
                    } else {
                        self.equal(item, wanted)?
                    } {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Map(map) => {
                self.budget.spend(1)?;
                let key: Result<Key, Value> = wanted.clone().try_into();
                Ok(key.is_ok_and(|key| map.get(&key).is_some()))
            }
            _ => Err(overload()),
        }
    }

    fn call(&mut self, function: &str, target: Option<Value>, arguments: Vec<Value>) -> Evaluated {
        let count = match arguments.first() {
            Some(Value::Int(count)) => Some(u64::try_from(*count).unwrap_or_default()),
            _ => None,
        };
        let sizes: Vec<u64> = target.iter().chain(&arguments).map(size).collect();
        self.budget.spend(functions::cost(function, &sizes, count))?;
        match (function, target.as_ref(), arguments.as_slice()) {
            ("size", Some(value), []) | ("size", None, [value]) => match value {
                Value::String(text) => Ok(int(text.chars().count())),
                Value::Bytes(bytes) => Ok(int(bytes.len())),
                Value::List(items) => Ok(int(items.len())),
                Value::Map(map) => Ok(int(map.map.len())),
                _ => Err(overload()),
            },
            ("contains", Some(Value::String(text)), [Value::String(part)]) => {
                Ok(Value::Bool(text.contains(part.as_str())))
            }
            ("startsWith", Some(Value::String(text)), [Value::String(part)]) => {
                Ok(Value::Bool(text.starts_with(part.as_str())))
            }
            ("endsWith", Some(Value::String(text)), [Value::String(part)]) => {
                Ok(Value::Bool(text.ends_with(part.as_str())))
            }
            ("matches", Some(Value::String(text)), [Value::String(pattern)])
            | ("matches", None, [Value::String(text), Value::String(pattern)]) => {
                Ok(Value::Bool(self.pattern(pattern)?.is_match(text)))
            }
            ("find", Some(Value::String(text)), [Value::String(pattern)]) => {
                let found = self.pattern(pattern)?.find(text);
                Ok(found.map_or("", |found| found.as_str()).into())
            }
            ("findAll", Some(Value::String(text)), [Value::String(pattern), limit @ ..]) => {
                let most = match limit {
                    [Value::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                    _ => usize::MAX,
                };
                let found = self.pattern(pattern)?.find_iter(text).take(most);
                let found: Vec<Value> = found.map(|found| found.as_str().into()).collect();
                Ok(Value::List(found.into()))
            }
            ("hasValue", Some(value), []) if is_optional(value) => Ok(Value::Bool(flattened(value.clone()).is_some())),
            ("value", Some(value), []) if is_optional(value) => {
                flattened(value.clone()).ok_or_else(|| error("optional.none() dereference"))
            }
            ("orValue", Some(value), [other]) if is_optional(value) => {
                Ok(flattened(value.clone()).unwrap_or_else(|| other.clone()))
            }
            ("or", Some(value), [other]) if is_optional(value) => Ok(match flattened(value.clone()) {
                Some(_) => value.clone(),
                None => other.clone(),
            }),
            ("optional.of", None, [value]) => Ok(optional(Some(value.clone()))),
            ("optional.ofNonZeroValue", None, [value]) => Ok(optional((!value.is_zero()).then(|| value.clone()))),
            ("optional.none", None, []) => Ok(optional(None)),
            _ => {
                for value in target.iter().chain(&arguments) {
                    self.read(value)?;
                }
                self.budget
                    .spend(tenth(result_size(function, target.as_ref(), &arguments)))?;
                functions::call(function, target, arguments).map_err(Failure::Error)
            }
        }
    }

    fn pattern(&mut self, text: &Arc<String>) -> Result<&Regex, Failure> {
        let known = self.pattern.take().filter(|(known, _)| known == text);
        let entry = match known {
            Some(entry) => entry,
            None => {
                self.budget.spend(text.len() as u64)?;
                let mut builder = regex::RegexBuilder::new(text);
                let pattern = builder.size_limit(1 << 20).build();
                let pattern = pattern.map_err(|problem| Failure::Error(problem.to_string()))?;
                (Arc::clone(text), pattern)
            }
        };
        Ok(&self.pattern.insert(entry).1)
    }

    /// Evaluates with one or two more variables.
    fn within(&mut self, names: &Comprehension, first: Value, second: Option<Value>, body: &Expression) -> Evaluated {
        let before = self.variables.len();
        self.variables.push((names.first.clone(), first));
        if let Some((name, value)) = names.second.clone().zip(second) {
            self.variables.push((name, value));
        }
        let result = self.value(body);
        self.variables.truncate(before);
        result
    }

    fn comprehension(&mut self, inner: &Comprehension) -> Evaluated {
        use ComprehensionKind as C;
        let range = self.value(&inner.range)?;
        let (step, rest) = steps(inner.kind);
        self.budget.spend(rest)?;
        if matches!(inner.kind, C::OptionalMap | C::OptionalFlatMap) {
            let Some(value) = flattened(range) else {
                return Ok(optional(None));
            };
            let body = self.within(inner, value, None, &inner.body)?;
            return Ok(if inner.kind == C::OptionalMap {
                optional(Some(body))
            } else {
                body
            });
        }
        let elements = elements(range, inner.second.is_some())?;
        let (mut list, mut map, mut count, mut failure) = (Vec::new(), HashMap::new(), 0_usize, None);
        for (first, second) in elements {
            self.budget.spend(step)?;
            if let Some(filter) = &inner.filter {
                match self.within(inner, first.clone(), second.clone(), filter)? {
                    Value::Bool(true) => {}
                    Value::Bool(false) => continue,
                    _ => return Err(overload()),
                }
            }
            let value = self.within(inner, first.clone(), second, &inner.body);
            match (inner.kind, value) {
                (_, Err(limit @ (Failure::CallLimit | Failure::ObjectLimit))) => return Err(limit),
                // An element that decides outweighs errors of others.
                (C::All, Ok(Value::Bool(false))) => return Ok(Value::Bool(false)),
                (C::Exists, Ok(Value::Bool(true))) => return Ok(Value::Bool(true)),
                (C::All | C::Exists, Ok(Value::Bool(_))) => {}
                (C::All | C::Exists, Err(error)) => failure = failure.or(Some(error)),
                (_, Err(error)) => return Err(error),
                (C::ExistsOne, Ok(Value::Bool(value))) => count = count.saturating_add(usize::from(value)),
                (C::Filter, Ok(Value::Bool(value))) => list.extend(value.then_some(first)),
                (C::Map, Ok(value)) => list.push(value),
                (C::SortBy, Ok(value)) => list.push(Value::List(vec![value, first].into())),
                (C::TransformMap, Ok(value)) => {
                    let key: Key = first.try_into().map_err(|_| overload())?;
                    map.insert(key, value);
                }
                (_, Ok(_)) => return Err(overload()),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        match inner.kind {
            C::All => Ok(Value::Bool(true)),
            C::Exists => Ok(Value::Bool(false)),
            C::ExistsOne => Ok(Value::Bool(count == 1)),
            C::SortBy => self.sorted(list),
            C::TransformMap => Ok(Value::Map(Map { map: map.into() })),
            _ => Ok(Value::List(list.into())),
        }
    }

    /// Sorts pairs of key and value by key and returns the values.
    fn sorted(&mut self, mut pairs: Vec<Value>) -> Evaluated {
        self.budget.spend(pairs.len() as u64)?;
        fn parts(pair: &Value) -> Option<(&Value, &Value)> {
            match pair {
                Value::List(pair) => Some((pair.first()?, pair.get(1)?)),
                _ => None,
            }
        }
        let keys = || pairs.iter().filter_map(|pair| parts(pair).map(|(key, _)| key));
        let comparable = keys()
            .zip(keys().skip(1))
            .all(|(one, other)| one.partial_cmp(other).is_some());
        if !comparable {
            return Err(overload());
        }
        pairs.sort_by(|one, other| {
            let keys = parts(one).zip(parts(other));
            let order = keys.and_then(|((one, _), (other, _))| one.partial_cmp(other));
            order.unwrap_or(Ordering::Equal)
        });
        let values = pairs
            .iter()
            .filter_map(|pair| parts(pair).map(|(_, value)| value.clone()));
        Ok(Value::List(values.collect::<Vec<_>>().into()))
    }
}

fn arithmetic(result: Result<Value, ExecutionError>) -> Evaluated {
    result.map_err(|problem| match problem {
        ExecutionError::Overflow(..) => error("integer overflow"),
        ExecutionError::DivisionByZero(_) => error("division by zero"),
        ExecutionError::RemainderByZero(_) => error("modulus by zero"),
        _ => overload(),
    })
}

fn int(size: usize) -> Value {
    Value::Int(i64::try_from(size).unwrap_or(i64::MAX))
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::UInt(_) | Value::Float(_))
}

/// The size in the terms of the cost model.
fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(items) => items.len() as u64,
        Value::Map(map) => map.map.len() as u64,
        _ => 1,
    }
}

/// The size of a result that can be much larger than the arguments.
fn result_size(function: &str, target: Option<&Value>, arguments: &[Value]) -> u64 {
    match (function, target, arguments) {
        ("replace", Some(Value::String(text)), [Value::String(from), Value::String(to), ..]) => {
            let matches = text
                .len()
                .checked_div(from.len())
                .unwrap_or(text.len())
                .saturating_add(1);
            matches.saturating_mul(to.len()) as u64
        }
        ("join", Some(Value::List(items)), [Value::String(separator)]) => {
            items.len().saturating_mul(separator.len()) as u64
        }
        _ => 0,
    }
}

/// Subtracts the sizes of a value and of all values in it from `left`; stops at zero.
fn weigh(value: &Value, left: &mut u64) {
    *left = left.saturating_sub(match value {
        Value::String(_) | Value::Bytes(_) => size(value).max(1),
        _ => 1,
    });
    let mut inside = |item: &Value| {
        if *left > 0 {
            weigh(item, left);
        }
    };
    match value {
        Value::List(items) => items.iter().for_each(inside),
        Value::Map(map) => map.map.values().for_each(inside),
        Value::Opaque(opaque) => {
            if let Some(item) = opaque.downcast_ref::<OptionalValue>().and_then(OptionalValue::value) {
                inside(item);
            }
        }
        _ => {}
    }
}

fn member<'a>(map: &'a Map, field: &str) -> Option<&'a Value> {
    map.get(&kube_cel::cel::objects::KeyRef::String(field))
}

fn select(operand: &Value, field: &str) -> Evaluated {
    let missing = || Failure::Error(format!("no such key: {field}"));
    match operand {
        Value::Map(map) => member(map, field).cloned().ok_or_else(missing),
        value if is_optional(value) => {
            let inner = flattened(value.clone());
            Ok(optional(inner.and_then(|inner| select(&inner, field).ok())))
        }
        _ => Err(overload()),
    }
}

fn item(operand: &Value, index: &Value) -> Evaluated {
    match (operand, index) {
        (Value::List(items), index) if is_number(index) => {
            let place = match index {
                Value::Int(place) => usize::try_from(*place).ok(),
                Value::UInt(place) => usize::try_from(*place).ok(),
                Value::Float(place) if place.fract() == 0.0 && *place >= 0.0 => Some(*place as usize),
                _ => None,
            };
            let found = place.and_then(|place| items.get(place)).cloned();
            found.ok_or_else(|| Failure::Error(format!("index out of bounds: {}", number(index))))
        }
        (Value::Map(map), index) => {
            let key: Key = index.clone().try_into().map_err(|_| overload())?;
            map.get(&key)
                .cloned()
                .ok_or_else(|| Failure::Error(format!("no such key: {key}")))
        }
        _ => Err(overload()),
    }
}

fn number(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        _ => String::new(),
    }
}

/// The elements of a list, the keys of a map, or pairs of index (or key) and element.
fn elements(range: Value, pairs: bool) -> Result<Vec<(Value, Option<Value>)>, Failure> {
    match range {
        Value::List(items) => Ok(items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                if pairs {
                    (int(index), Some(item.clone()))
                } else {
                    (item.clone(), None)
                }
            })
            .collect()),
        Value::Map(map) => {
            let mut keys: Vec<&Key> = map.map.keys().collect();
            keys.sort();
            let pair = |key: &Key| (Value::from(key), if pairs { map.get(key).cloned() } else { None });
            Ok(keys.into_iter().map(pair).collect())
        }
        _ => Err(overload()),
    }
}

fn is_optional(value: &Value) -> bool {
    matches!(value, Value::Opaque(opaque) if opaque.downcast_ref::<OptionalValue>().is_some())
}

/// The value of an optional; any other value is its own.
fn flattened(value: Value) -> Option<Value> {
    match &value {
        Value::Opaque(opaque) => match opaque.downcast_ref::<OptionalValue>() {
            Some(optional) => optional.value().cloned(),
            None => Some(value),
        },
        _ => Some(value),
    }
}

pub(crate) fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}
