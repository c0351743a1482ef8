//! Checks that an applied configuration has the type of its kind.

use std::collections::BTreeSet;

use serde_json::Value;

use super::kind::{Granularity, Kind, Scalar, Structure};
use super::path::{Element, Position};
use crate::go;
use crate::types::paths::Paths;

/// The first hundred violations of a configuration, each with its path, in upstream's words.
pub(crate) fn violations(kind: Kind<'_>, value: &Value) -> Vec<String> {
    let mut found = Paths::default();
    check(kind, value, Position::Root, &mut found);
    found.into_texts()
}

/// The paths of the first atomic lists and maps in a configuration.
pub(crate) fn atomic(kind: Kind<'_>, value: &Value) -> Vec<String> {
    let mut found = Paths::default();
    find_atomic(kind, value, Position::Root, &mut found);
    found.into_texts()
}

fn find_atomic(kind: Kind<'_>, value: &Value, position: Position<'_>, found: &mut Paths) {
    match (kind.structure(Some(value)), value) {
        (Structure::Object(kind, Granularity::Members), Value::Object(members)) => {
            for (name, member) in members {
                if let Some((kind, _)) = kind.member(name) {
                    find_atomic(kind, member, Position::Field(&position, name), found);
                }
            }
        }
        (Structure::List(items), Value::Array(list)) if items.is_associative() => {
            for item in list {
                // Items without an identity are violations.
                if let Ok(element) = items.element(item) {
                    find_atomic(items.kind, item, Position::Element(&position, &element), found);
                }
            }
        }
        (Structure::Object(..), Value::Object(_)) | (Structure::List(_), Value::Array(_)) => {
            found.push(format_args!("{position}"));
        }
        _ => {}
    }
}

fn check(kind: Kind<'_>, value: &Value, position: Position<'_>, found: &mut Paths) {
    let report = |found: &mut Paths, what: &str| {
        let separator = if matches!(position, Position::Root) { "" } else { ": " };
        found.push(format_args!("{position}{separator}{what}"));
    };
    match (kind.structure(Some(value)), value) {
        (_, Value::Null) => {}
        (Structure::Scalar(scalar), value) => {
            if let Some(what) = mismatch(scalar, value) {
                report(found, &what);
            }
        }
        (Structure::Object(kind, _), Value::Object(members)) => {
            for (name, member) in members {
                let below = Position::Field(&position, name);
                match kind.member(name) {
                    Some((kind, _)) => check(kind, member, below, found),
                    None => {
                        found.push(format_args!("{below}: field not declared in schema"));
                        return;
                    }
                }
            }
        }
        (Structure::List(items), Value::Array(list)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in (0..).zip(list) {
                let element = if items.is_associative() {
                    match items.element(item) {
                        Ok(element) => element,
                        Err(why) => return report(found, &format!("element {index}: {why}")),
                    }
                } else {
                    Element::Index(index)
                };
                if items.is_associative() && !seen.insert(element.clone()) {
                    report(found, &format!("duplicate entries for key {element}"));
                }
                check(items.kind, item, Position::Element(&position, &element), found);
            }
        }
        (Structure::Object(..), value) => report(found, &format!("expected map, got {}", shown(value))),
        (Structure::List(_), value) => report(found, &format!("expected list, got {}", shown(value))),
    }
}

fn mismatch(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (Scalar::Number, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Bool, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Number, value) => Some(format!("expected numeric (int or float), got {}", go::type_name(value))),
        (Scalar::Text, value) => Some(format!("expected string, got {}", debugged(value))),
        (Scalar::Bool, value) => Some(format!("expected boolean, got {}", shown(value))),
        (Scalar::Any, value) => Some(format!("expected any scalar, got {}", shown(value))),
    }
}

/// A value as Go formats it with `%v`.
fn shown(value: &Value) -> String {
    format!("&{{{}}}", go::text(value))
}

/// A value as Go formats it with `%#v`.
fn debugged(value: &Value) -> String {
    fn inner(value: &Value) -> String {
        match value {
            Value::Null => "interface {}(nil)".to_owned(),
            Value::Array(items) => format!(
                "[]interface {{}}{{{}}}",
                items.iter().map(inner).collect::<Vec<_>>().join(", ")
            ),
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| format!("{name:?}:{}", inner(value)));
                format!(
                    "map[string]interface {{}}{{{}}}",
                    members.collect::<Vec<_>>().join(", ")
                )
            }
            other => other.to_string(),
        }
    }
    format!("&value.valueUnstructured{{Value:{}}}", inner(value))
}
