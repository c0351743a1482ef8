//! Macros: expressions that are evaluated for each element of a list or map.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::super::cost::steps;
use super::super::expression::{Comprehension, ComprehensionKind, Expression};
use super::super::{Key, Map, Value};
use super::access::{flattened, optional};
use super::size::{int, key_cost, name_cost};
use super::{Evaluated, Evaluator, Failure, overload};

impl Evaluator<'_> {
    /// Evaluates with one or two more variables.
    fn within(&mut self, names: &Comprehension, first: Value, second: Option<Value>, body: &Expression) -> Evaluated {
        let copied = [Some(&names.first), names.second.as_ref()];
        for name in copied.into_iter().flatten() {
            self.budget.spend(name_cost(name).saturating_sub(1))?;
        }
        let before = self.variables.len();
        self.variables.push((names.first.clone(), first));
        if let Some((name, value)) = names.second.clone().zip(second) {
            self.variables.push((name, value));
        }
        let result = self.value(body);
        self.variables.truncate(before);
        result
    }

    pub(super) fn comprehension(&mut self, inner: &Comprehension) -> Evaluated {
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
        let (mut list, mut pairs, mut map) = (Vec::new(), Vec::new(), HashMap::new());
        let (mut count, mut failure) = (0_usize, None);
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
                (C::SortBy, Ok(value)) => pairs.push((value, first)),
                (C::TransformMap, Ok(value)) => {
                    self.budget.spend(key_cost(&first).saturating_sub(1))?;
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
            C::SortBy => self.sorted(pairs),
            C::TransformMap => Ok(Value::Map(Map { map: map.into() })),
            _ => Ok(Value::List(list.into())),
        }
    }

    /// Sorts pairs of key and value by key and returns the values.
    fn sorted(&mut self, mut pairs: Vec<(Value, Value)>) -> Evaluated {
        let read = pairs.iter().map(|(key, _)| key_cost(key)).fold(0, u64::saturating_add);
        let comparisons = pairs.len().checked_ilog2().unwrap_or_default().saturating_add(1);
        self.budget.spend(read.saturating_mul(u64::from(comparisons)))?;
        let comparable = pairs
            .iter()
            .zip(pairs.iter().skip(1))
            .all(|((one, _), (other, _))| one.partial_cmp(other).is_some());
        if !comparable {
            return Err(overload());
        }
        pairs.sort_by(|(one, _), (other, _)| order(one, other));
        let values: Vec<Value> = pairs.into_iter().map(|(_, value)| value).collect();
        Ok(Value::List(values.into()))
    }
}

/// A total order of values that are comparable. That of the library rounds integers to doubles.
fn order(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Float(one), Value::Float(other)) => one.partial_cmp(other).unwrap_or(Ordering::Equal),
        (Value::Float(one), other) => integer(other).map_or(Ordering::Equal, |other| order_of_double(*one, other)),
        (one, Value::Float(other)) => {
            integer(one).map_or(Ordering::Equal, |one| order_of_double(*other, one).reverse())
        }
        (one, other) => one.partial_cmp(other).unwrap_or(Ordering::Equal),
    }
}

fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::UInt(number) => Some(i128::from(*number)),
        _ => None,
    }
}

/// The order of a double and an integer, without rounding.
fn order_of_double(double: f64, integer: i128) -> Ordering {
    // The conversion stops at limits that are beyond all integers of expressions.
    let whole = (double.trunc() as i128).cmp(&integer);
    whole.then(double.fract().partial_cmp(&0.0).unwrap_or(Ordering::Equal))
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
