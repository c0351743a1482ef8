//! Calls of functions. Those that need the budget are here; the others are the library's.

use super::super::cost::tenth;
use super::super::native::native_of;
use super::super::{Value, format, functions};
use super::access::{flattened, is_optional, optional};
use super::size::{int, size};
use super::{Evaluated, Evaluator, Failure, error, overload};

/// The size of an item of a list.
const ITEM: u64 = 10;

impl Evaluator<'_> {
    pub(super) fn call(&mut self, function: &str, target: Option<Value>, arguments: Vec<Value>) -> Evaluated {
        if let Some(native) = target.as_ref().and_then(native_of) {
            self.budget.spend(native.cost(function))?;
            return native.call(function, &arguments).map_err(Failure::Error);
        }
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
                let pattern = self.pattern(pattern, text)?;
                Ok(Value::Bool(pattern.regex.is_match(text)))
            }
            ("find", Some(Value::String(text)), [Value::String(pattern)]) => {
                let pattern = self.pattern(pattern, text)?;
                let found = pattern.regex.find(text);
                Ok(found.map_or("", |found| found.as_str()).into())
            }
            ("findAll", Some(Value::String(text)), [Value::String(pattern), limit @ ..]) => {
                let most = match limit {
                    [Value::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                    _ => usize::MAX,
                };
                self.find_all(pattern, text, most)
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
                let read: Result<Vec<u64>, Failure> =
                    target.iter().chain(&arguments).map(|value| self.read(value)).collect();
                self.budget.spend(pairs_cost(function, &sizes, &read?))?;
                let (receiver, values) = (target.as_ref(), arguments.as_slice());
                self.budget.spend(search_cost(function, receiver, values))?;
                self.budget.spend(tenth(result_size(function, receiver, values)))?;
                functions::call(function, target, arguments).map_err(Failure::Error)
            }
        }
    }
}

/// The cost of comparing all items of a list with each other, or with those of another list, beyond that of
/// [`functions::cost`], which counts the pairs. `read` are the sizes of everything in the target and the arguments.
fn pairs_cost(function: &str, sizes: &[u64], read: &[u64]) -> u64 {
    let (Some(first), Some(last), Some(all)) = (sizes.first(), sizes.last(), read.last()) else {
        return 0;
    };
    match function {
        "distinct" | "sort" | "sets.contains" | "sets.equivalent" | "sets.intersects" => {
            let inside = all.saturating_sub(*last).saturating_sub(1);
            first.saturating_mul(tenth(inside))
        }
        _ => 0,
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
        ("split", Some(Value::String(text)), [Value::String(separator), ..]) => {
            (text.matches(separator.as_str()).count() as u64).saturating_mul(ITEM)
        }
        ("format", Some(Value::String(text)), _) => {
            // Larger ones are rejected.
            let precisions = format::precisions(text).map(|precision| precision.min(functions::MAX_PRECISION));
            precisions.fold(0, u64::saturating_add)
        }
        ("join", Some(Value::List(items)), [Value::String(separator)]) => {
            items.len().saturating_mul(separator.len()) as u64
        }
        _ => 0,
    }
}

/// The cost of a search that compares the wanted text at each position.
fn search_cost(function: &str, target: Option<&Value>, arguments: &[Value]) -> u64 {
    match (function, target, arguments) {
        ("indexOf" | "lastIndexOf", Some(text @ Value::String(_)), [part @ Value::String(_), ..]) => {
            tenth(size(text)).saturating_mul(tenth(size(part)))
        }
        _ => 0,
    }
}
