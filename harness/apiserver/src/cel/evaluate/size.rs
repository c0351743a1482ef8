//! Sizes of values in the terms of the cost model.

use kube_cel::cel::objects::OptionalValue;

use super::super::cost::tenth;
use super::super::{Key, Value};

/// Doubles, except zero, of another magnitude have many digits in texts.
const SHORT: std::ops::Range<f64> = 1e-20..1e20;
/// The maximum length of the text of a double.
const LONGEST_NUMBER: u64 = 350;

/// The size in the terms of the cost model.
pub(super) fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(items) => items.len() as u64,
        Value::Map(map) => map.map.len() as u64,
        _ => 1,
    }
}

/// A size as a value.
pub(super) fn int(size: usize) -> Value {
    Value::Int(i64::try_from(size).unwrap_or(i64::MAX))
}

/// The cost of finding a key in a map, which reads the key.
pub(super) fn key_cost(key: &Value) -> u64 {
    match key {
        Value::String(text) => tenth(text.len() as u64).max(1),
        _ => 1,
    }
}

/// The cost of finding a name, which reads it: 1 for usual names.
pub(super) fn name_cost(name: &str) -> u64 {
    (name.len() as u64 / 100).saturating_add(1)
}

/// Whether a value has at most that size, with everything in it.
pub(crate) fn is_within(value: &Value, most: u64) -> bool {
    let mut left = most;
    weigh(value, &mut left);
    left > 0
}

/// Subtracts the sizes of a value and of all values in it from `left`; stops at zero.
pub(super) fn weigh(value: &Value, left: &mut u64) {
    *left = left.saturating_sub(match value {
        Value::String(_) | Value::Bytes(_) => size(value).max(1),
        Value::Float(number) if !(*number == 0.0 || SHORT.contains(&number.abs())) => LONGEST_NUMBER,
        _ => 1,
    });
    let inside = |item: &Value, left: &mut u64| {
        if *left > 0 {
            weigh(item, left);
        }
    };
    match value {
        Value::List(items) => items.iter().for_each(|item| inside(item, left)),
        Value::Map(map) => map.map.iter().for_each(|(key, item)| {
            if let Key::String(text) = key {
                *left = left.saturating_sub(text.len() as u64);
            }
            inside(item, left);
        }),
        Value::Opaque(opaque) => {
            if let Some(item) = opaque.downcast_ref::<OptionalValue>().and_then(OptionalValue::value) {
                inside(item, left);
            }
        }
        _ => {}
    }
}
