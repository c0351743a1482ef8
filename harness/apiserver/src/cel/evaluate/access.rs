//! Members of maps, items of lists, and values of optionals.

use std::sync::Arc;

use kube_cel::cel::objects::{KeyRef, OptionalValue};

use super::super::native::native_of;
use super::super::{Key, Map, Value};
use super::operators::is_number;
use super::{Evaluated, Failure, overload};

fn member<'a>(map: &'a Map, field: &str) -> Option<&'a Value> {
    map.get(&KeyRef::String(field))
}

/// Whether a map, or an optional one, has a member.
pub(super) fn has(operand: &Value, field: &str) -> Evaluated {
    let has = |map: &Map| Value::Bool(member(map, field).is_some());
    match operand {
        Value::Map(map) => Ok(has(map)),
        value if is_optional(value) => match flattened(value.clone()) {
            Some(Value::Map(map)) => Ok(has(&map)),
            _ => Ok(Value::Bool(false)),
        },
        _ => Err(overload()),
    }
}

pub(super) fn select(operand: &Value, field: &str) -> Evaluated {
    let missing = || Failure::Error(format!("no such key: {field}"));
    match operand {
        Value::Map(map) => member(map, field).cloned().ok_or_else(missing),
        value if is_optional(value) => {
            let inner = flattened(value.clone());
            Ok(optional(inner.and_then(|inner| select(&inner, field).ok())))
        }
        Value::Null => Err(missing()),
        value => native_of(value)
            .ok_or_else(overload)
            .and_then(|native| native.field(field).ok_or_else(missing)),
    }
}

pub(super) fn item(operand: &Value, index: &Value) -> Evaluated {
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

pub(super) fn is_optional(value: &Value) -> bool {
    matches!(value, Value::Opaque(opaque) if opaque.downcast_ref::<OptionalValue>().is_some())
}

/// The value of an optional; any other value is its own.
pub(super) fn flattened(value: Value) -> Option<Value> {
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
