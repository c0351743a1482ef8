//! Mutations of JSON documents by their structure.

use clock::Stream;
use serde_json::{Value, json};

use super::{index, pick, words};

/// Replaces, removes, repeats, renames or nests one value of a document; `other` provides values.
pub(super) fn mutated(mut value: Value, other: &Value, stream: &mut Stream) -> Value {
    let at = index(count(&value), stream);
    let donor = nth(other, index(count(other), stream)).cloned().unwrap_or_default();
    if let Some(found) = nth_mut(&mut value, &mut { at }) {
        change(found, donor, stream);
    }
    value
}

fn change(value: &mut Value, donor: Value, stream: &mut Stream) {
    let kind = stream.below(12);
    match (kind, &mut *value) {
        (0 | 1, Value::Object(fields)) => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            if let Some(key) = pick(&keys, stream) {
                let removed = fields.remove(key).unwrap_or_default();
                if kind == 1 {
                    fields.insert((*pick(&words::ALL, stream).unwrap_or(&"")).to_owned(), removed);
                }
            }
        }
        (0, Value::Array(items)) if !items.is_empty() => drop(items.remove(index(items.len(), stream))),
        (2 | 3, Value::Object(fields)) => {
            let key = *pick(&words::ALL, stream).unwrap_or(&"");
            fields.insert(key.to_owned(), donor);
        }
        (2, Value::Array(items)) => items.push(donor),
        (1 | 3, Value::Array(items)) if !items.is_empty() => {
            let item = items[index(items.len(), stream)].clone();
            let times = [1, 2, 50, 2000][index(4, stream)];
            items.extend(std::iter::repeat_n(item, times));
        }
        (4, _) => *value = donor,
        (5, _) => {
            for _ in 0..[1, 30, 100, 125][index(4, stream)] {
                let inner = value.take();
                *value = if stream.chance(0.5) {
                    json!([inner])
                } else {
                    json!({ "a": inner })
                };
            }
        }
        (6, _) => {
            *value = serde_json::from_str(words::NUMBERS[index(words::NUMBERS.len(), stream)]).unwrap_or_default()
        }
        (7, _) => *value = Value::String((*pick(&words::ALL, stream).unwrap_or(&"")).to_owned()),
        (8, Value::String(text)) => {
            let changed = super::text::mutated(text.as_bytes(), donor.as_str().unwrap_or_default().as_bytes(), stream);
            *text = String::from_utf8_lossy(&changed).into_owned();
        }
        _ => *value = words::values()[index(words::values().len(), stream)].clone(),
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The value with that number in the order of a depth-first walk.
fn nth(value: &Value, at: usize) -> Option<&Value> {
    let mut stack = vec![value];
    let mut number = 0;
    while let Some(value) = stack.pop() {
        if number == at {
            return Some(value);
        }
        number += 1;
        match value {
            Value::Array(items) => stack.extend(items),
            Value::Object(fields) => stack.extend(fields.values()),
            _ => {}
        }
    }
    None
}

fn nth_mut<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth_mut(item, at)),
        Value::Object(fields) => fields.values_mut().find_map(|item| nth_mut(item, at)),
        _ => None,
    }
}
