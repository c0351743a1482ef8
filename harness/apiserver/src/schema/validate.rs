//! Validates values with the messages and order of upstream's validator: type, alternatives, limits of the type, then
//! the enumeration; of length and pattern of a string only the first violation. The uniqueness of list items comes
//! last. Unchanged values are not validated.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::formats;
use super::node::{Limits, ListType, Node, Type};
use crate::status::{FieldError, FieldErrorType};
use crate::types::path::Path;

/// After this many errors the rest of a value is not validated.
const MAX_ERRORS: usize = 100;

/// Checks a value against its schema; `old` is its previous value.
pub(super) fn validate(node: &Node, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(node, new, old, Path::Root, &mut errors);
    unique(node, new, old, Path::Root, &mut errors);
    errors
}

fn check(node: &Node, new: &Value, old: Option<&Value>, path: Path<'_>, errors: &mut Vec<FieldError>) {
    if old == Some(new) || new.is_null() && node.nullable || errors.len() >= MAX_ERRORS {
        return;
    }
    let fits = match node.type_ {
        // As upstream, a declared type does not restrict them.
        _ if node.int_or_string => Type::Integer.fits(new) || Type::String.fits(new),
        Some(type_) => type_.fits(new),
        None => true,
    };
    if !fits {
        let declared = node.type_.filter(|_| !node.int_or_string);
        let wanted = declared.map_or("integer,string", Type::name);
        errors.push(wrong_type(new, wanted, path));
        if declared == Some(Type::Integer) && new.is_number() {
            errors.push(nowhere(format!(
                "Checked value must be of type integer (default format) in {path}"
            )));
        }
    }
    if fits {
        logic(&node.limits, new, path, errors);
    }
    match new {
        Value::Object(map) if fits => {
            properties(&node.limits, map, path, errors);
            members(node, map, old.and_then(Value::as_object), path, errors);
            for name in node.limits.required.iter().filter(|name| !map.contains_key(*name)) {
                errors.push(FieldError::required(path.field(name).to_string(), ""));
            }
        }
        Value::Array(items) if fits => {
            list(node, items, old.and_then(Value::as_array), path, errors);
            count_items(&node.limits, items.len() as u64, path, errors);
        }
        Value::String(text) if fits => text_limits(&node.limits, new, text, path, errors),
        Value::Number(number) => number_limits(&node.limits, new, number, path, errors),
        _ => {}
    }
    if let Some(allowed) = &node.limits.allowed
        && !allowed.contains(new)
    {
        errors.push(not_supported(new, allowed, path));
    }
}

/// The errors of nulls that are not allowed and have no default.
pub(super) fn nulls(root: &Node, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    find_nulls(root, object, Path::Root, &mut errors);
    errors
}

fn find_nulls(node: &Node, value: &Value, path: Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Null => {
            if let Some(type_) = node.type_.filter(|_| node.drops_null() && node.default.is_none()) {
                errors.push(wrong_type(value, type_.name(), path));
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(node) = node.member(name) {
                    find_nulls(node, value, path.field(name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(node) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    find_nulls(node, item, path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

/// An error without a field, as upstream reports it.
fn nowhere(detail: String) -> FieldError {
    FieldError::invalid("<nil>", "", detail)
}

fn wrong_type(value: &Value, wanted: &str, path: Path<'_>) -> FieldError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if Type::Integer.fits(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    FieldError {
        kind: FieldErrorType::TypeInvalid,
        field: path.to_string(),
        value: Some(found.into()),
        detail: format!("{path} in body must be of type {wanted}: {found:?}"),
    }
}

fn invalid(value: &Value, path: Path<'_>, why: impl std::fmt::Display) -> FieldError {
    FieldError::invalid(path.to_string(), value.clone(), format!("{path} in body {why}"))
}

fn members(
    node: &Node,
    map: &Map<String, Value>,
    old: Option<&Map<String, Value>>,
    path: Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if node.embedded {
        for name in ["apiVersion", "kind"] {
            let empty = map
                .get(name)
                .is_none_or(|value| value.as_str().is_none_or(str::is_empty));
            if empty {
                errors.push(FieldError::required(path.field(name).to_string(), "must not be empty"));
            }
        }
    }
    for (name, value) in map {
        if let Some(node) = node.member(name) {
            check(node, value, old.and_then(|old| old.get(name)), path.field(name), errors);
        }
    }
}

fn list(node: &Node, items: &[Value], old: Option<&Vec<Value>>, path: Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(inner) = &node.items {
        let mut before: HashMap<String, &Value> = HashMap::new();
        if let (ListType::Map(keys), Some(old)) = (&node.list, old) {
            for item in old {
                before.entry(identity(&key_of(item, keys))).or_insert(item);
            }
        }
        for (index, item) in items.iter().enumerate() {
            let old = match &node.list {
                ListType::Map(keys) if !before.is_empty() => before.get(&identity(&key_of(item, keys))).copied(),
                _ => None,
            };
            check(inner, item, old, path.index(index), errors);
        }
    }
}

/// Reports each duplicate value of sets and maps once.
fn unique(node: &Node, new: &Value, old: Option<&Value>, path: Path<'_>, errors: &mut Vec<FieldError>) {
    if old == Some(new) || errors.len() >= MAX_ERRORS {
        return;
    }
    match new {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(node) = node.member(name) {
                    unique(node, value, old.and_then(|old| old.get(name)), path.field(name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    unique(inner, item, None, path.index(index), errors);
                }
            }
            let keys: Vec<Value> = match &node.list {
                ListType::Atomic => return,
                ListType::Set => items.clone(),
                ListType::Map(keys) => items.iter().map(|item| key_of(item, keys)).collect(),
            };
            let mut counts: HashMap<String, usize> = HashMap::with_capacity(keys.len());
            for (index, key) in keys.iter().enumerate() {
                let count = counts.entry(identity(key)).or_default();
                if *count == 1 && errors.len() < MAX_ERRORS {
                    errors.push(FieldError::duplicate(path.index(index).to_string(), key.clone()));
                }
                *count = count.saturating_add(1);
            }
        }
        _ => {}
    }
}

/// The text of a value, whose keys are sorted: equal for equal values.
fn identity(value: &Value) -> String {
    value.to_string()
}

/// The members that identify an item.
fn key_of(item: &Value, keys: &[String]) -> Value {
    keys.iter()
        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
        .collect::<Map<_, _>>()
        .into()
}

fn count_items(limits: &Limits, count: u64, path: Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(least) = limits.min_items.filter(|least| count < *least) {
        errors.push(invalid(
            &count.into(),
            path,
            format_args!("should have at least {least} items"),
        ));
    }
    if let Some(most) = limits.max_items.filter(|most| count > *most) {
        errors.push(too_many(count, most, path));
    }
}

fn properties(limits: &Limits, map: &Map<String, Value>, path: Path<'_>, errors: &mut Vec<FieldError>) {
    let count = map.len() as u64;
    if let Some(least) = limits.min_properties.filter(|least| count < *least) {
        errors.push(invalid(
            &count.into(),
            path,
            format_args!("should have at least {least} properties"),
        ));
    }
    if let Some(most) = limits.max_properties.filter(|most| count > *most) {
        errors.push(too_many(count, most, path));
    }
}

fn not_supported(value: &Value, allowed: &[Value], path: Path<'_>) -> FieldError {
    let texts: Vec<String> = allowed
        .iter()
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    FieldError::not_supported(path.to_string(), value.clone(), &texts)
}

fn too_many(count: u64, most: u64, path: Path<'_>) -> FieldError {
    FieldError {
        kind: FieldErrorType::TooMany,
        field: path.to_string(),
        value: Some(count.into()),
        detail: format!("must have at most {most} item{}", plural(most)),
    }
}

fn text_limits(limits: &Limits, value: &Value, text: &str, path: Path<'_>, errors: &mut Vec<FieldError>) {
    let length = text.chars().count() as u64;
    if let Some(most) = limits.max_length.filter(|most| length > *most) {
        errors.push(FieldError {
            kind: FieldErrorType::TooLong,
            field: path.to_string(),
            value: None,
            detail: format!("may not be more than {most} byte{}", plural(most)),
        });
    } else if let Some(least) = limits.min_length.filter(|least| length < *least) {
        let why = format_args!("should be at least {least} chars long");
        errors.push(invalid(value, path, why));
    } else if let Some(pattern) = limits.pattern.as_ref().filter(|pattern| !pattern.regex.is_match(text)) {
        errors.push(invalid(value, path, format_args!("should match '{}'", pattern.text)));
    }
    if let Some(format) = limits
        .format
        .as_ref()
        .filter(|format| !formats::text_fits(format, text))
    {
        errors.push(FieldError {
            kind: FieldErrorType::TypeInvalid,
            ..invalid(value, path, format_args!("must be of type {format}: {text:?}"))
        });
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn number_limits(limits: &Limits, value: &Value, number: &Number, path: Path<'_>, errors: &mut Vec<FieldError>) {
    let float = number.as_f64().unwrap_or(f64::NAN);
    if let Some(format) = limits
        .format
        .as_ref()
        .filter(|format| !formats::number_fits(format, number))
    {
        errors.push(nowhere(format!(
            "Checked value must be of type integer with format {format} in {path}"
        )));
    }
    if let Some(factor) = limits.multiple_of.filter(|factor| (float / factor).fract() != 0.0) {
        errors.push(invalid(value, path, format_args!("should be a multiple of {factor}")));
    }
    if let Some(bound) = limits.maximum {
        let above = if bound.exclusive {
            float >= bound.value
        } else {
            float > bound.value
        };
        if above {
            let or_equal = if bound.exclusive { "" } else { " or equal to" };
            errors.push(invalid(
                value,
                path,
                format_args!("should be less than{or_equal} {}", bound.value),
            ));
        }
    }
    if let Some(bound) = limits.minimum {
        let below = if bound.exclusive {
            float <= bound.value
        } else {
            float < bound.value
        };
        if below {
            let or_equal = if bound.exclusive { "" } else { " or equal to" };
            errors.push(invalid(
                value,
                path,
                format_args!("should be greater than{or_equal} {}", bound.value),
            ));
        }
    }
}

fn logic(limits: &Limits, value: &Value, path: Path<'_>, errors: &mut Vec<FieldError>) {
    // Each alternative is evaluated once, else nested ones would take exponential time.
    let found = |node: &Node| {
        let mut errors = Vec::new();
        check(node, value, None, path, &mut errors);
        errors
    };
    let complaint = |why: &str| nowhere(format!("\"{path}\" must {why}"));
    if let Some((first, others)) = limits.any_of.split_first() {
        let best = found(first);
        if !best.is_empty() && !others.iter().any(|node| found(node).is_empty()) {
            errors.push(complaint("validate at least one schema (anyOf)"));
            errors.extend(best);
        }
    }
    if let Some((first, others)) = limits.one_of.split_first() {
        let best = found(first);
        let others = others.iter().filter(|node| found(node).is_empty()).count();
        match others.saturating_add(usize::from(best.is_empty())) {
            1 => {}
            0 => {
                errors.push(complaint("validate one and only one schema (oneOf). Found none valid"));
                errors.extend(best);
            }
            count => errors.push(complaint(&format!(
                "validate one and only one schema (oneOf). Found {count} valid alternatives"
            ))),
        }
    }
    let mut passed = 0_usize;
    for node in &limits.all_of {
        let found = found(node);
        passed = passed.saturating_add(usize::from(found.is_empty()));
        errors.extend(found);
    }
    match passed {
        passed if passed == limits.all_of.len() => {}
        0 => errors.push(complaint("validate all the schemas (allOf). None validated")),
        _ => errors.push(complaint("validate all the schemas (allOf)")),
    }
    if limits.not.as_ref().is_some_and(|node| found(node).is_empty()) {
        errors.push(complaint("not validate the schema (not)"));
    }
}
