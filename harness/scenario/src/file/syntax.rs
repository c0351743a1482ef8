//! Explains errors of the YAML parser without the terms of its implementation.

use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::renamed::is_old;
use crate::closest::suggestion;
use crate::document::Position;

/// The position of an error, the key or value of the field if the error is about its name, and the message in one line.
pub(super) fn explain(error: &Error) -> (Option<Position>, Option<String>, String) {
    let position = error.location().as_ref().and_then(Position::of);
    let mut error = error.without_snippet();
    if let Error::AliasError { error: original, .. } = error {
        error = original.without_snippet();
    }
    let (name, message) = match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            let message = format!(
                "unknown field {field:?}; {}",
                suggestion(field, expected.iter().copied())
            );
            (Some(field.clone()), message)
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let message = format!(
                "{variant:?} is not valid here; {}",
                suggestion(variant, expected.iter().copied().filter(|name| !is_old(name)))
            );
            (Some(variant.clone()), message)
        }
        Error::SerdeMissingField { field, .. } => (None, format!("the field {field:?} is missing")),
        Error::SerdeInvalidType {
            unexpected, expected, ..
        }
        | Error::SerdeInvalidValue {
            unexpected, expected, ..
        } => (
            None,
            format!("found {}, expected {}", found(unexpected), wanted(expected)),
        ),
        Error::SerdeInvalidLength { len, expected, .. } => {
            (None, format!("found {len} values, expected {}", wanted(expected)))
        }
        Error::InvalidScalar { ty, .. } => (None, format!("expected {}", wanted(ty))),
        Error::Unexpected { expected, .. } => (None, format!("expected {}", wanted(expected))),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            (None, format!("the field {key:?} is given twice: remove one of them"))
        }
        error => (None, UserMessageFormatter.format_message(error).into_owned()),
    };
    let words: Vec<&str> = message.split_whitespace().collect();
    (position, name, words.join(" "))
}

/// What a file contains, in the terms of YAML.
fn found(unexpected: &str) -> String {
    match unexpected {
        "map" => "a mapping".to_owned(),
        "sequence" | "seq" => "a list".to_owned(),
        "unit value" | "Option value" | "unit" => "no value".to_owned(),
        other => other.to_owned(),
    }
}

/// What a file must contain, in the terms of YAML.
fn wanted(expected: &str) -> String {
    let first = expected.split_whitespace().next().unwrap_or_default();
    match first {
        "struct" | "map" | "mapping" => "a mapping of fields".to_owned(),
        "enum" | "variant" | "identifier" | "externally" => "one of the names that are valid here".to_owned(),
        "sequence" => "a list".to_owned(),
        "string" | "scalar" => "a text".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "bool" | "boolean" => "true or false".to_owned(),
        "unit" => "no value".to_owned(),
        _ => expected.to_owned(),
    }
}
