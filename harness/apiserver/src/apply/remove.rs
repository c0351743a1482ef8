//! Removes fields from an object.

use serde_json::{Map, Value};

use super::kind::{Granularity, Kind, Structure};
use super::path::Element;
use super::set::FieldSet;

/// The object without these fields. An object, list or value of which everything is removed becomes null.
pub(crate) fn remove(kind: Kind<'_>, value: &Value, fields: &FieldSet) -> Value {
    match (kind.structure(Some(value)), value) {
        (Structure::Object(kind, Granularity::Members), Value::Object(members)) => {
            let mut kept = Map::new();
            for (name, member) in members {
                let element = Element::Field(name.clone());
                if fields.has(&element) {
                    continue;
                }
                let kind = kind.member(name).map_or(Kind::Deduced, |(member, _)| member);
                let member = match fields.below(&element) {
                    Some(below) => remove(kind, member, below),
                    None => member.clone(),
                };
                kept.insert(name.clone(), member);
            }
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        (Structure::List(items), Value::Array(list)) if items.is_associative() => {
            let kept: Vec<Value> = list
                .iter()
                .filter_map(|item| {
                    let Ok(element) = items.element(item) else {
                        return Some(item.clone());
                    };
                    if fields.has(&element) {
                        return None;
                    }
                    Some(match fields.below(&element) {
                        Some(below) => remove(items.kind, item, below),
                        None => item.clone(),
                    })
                })
                .collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
        (Structure::Scalar(_), scalar) => scalar.clone(),
        (Structure::Object(..) | Structure::List(_), _) => Value::Null,
    }
}
