//! The one Kubernetes object in a file.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::InputError;

/// A file.
#[derive(Clone)]
pub(super) struct Source {
    /// As in the flag.
    pub path: String,
    pub text: String,
}

/// Prints only the path, because the text may be a Secret.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// What a file must contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// The flag that names the file.
    pub flag: &'static str,
    pub api_version: &'static str,
    pub kind: &'static str,
}

/// The object of a file, with a name. Errors never contain text of the file, which may be a Secret.
pub(super) fn read(source: &Source, expected: Expected) -> Result<Value, InputError> {
    let wrong = |reason: String| InputError::Value {
        flag: expected.flag,
        value: source.path.clone(),
        reason,
    };
    let mut documents: Vec<Value> = serde_saphyr::from_multiple(&source.text).map_err(|error| {
        let place = error.location().map_or_else(String::new, |at| {
            format!(" at line {}, column {}", at.line(), at.column())
        });
        wrong(format!("the file is not valid YAML{place}: correct it"))
    })?;
    let count = documents.len();
    let (Some(document), 1) = (documents.pop(), count) else {
        return Err(wrong(format!(
            "the file has {count} YAML documents: give a file with one {}",
            expected.kind
        )));
    };
    check_kind(&document, expected).map_err(wrong)?;
    if text(&document, "/metadata/name").is_none_or(str::is_empty) {
        return Err(field(source, expected, "metadata.name", "it is missing: add it"));
    }
    Ok(document)
}

/// The object as its type.
pub(super) fn typed<T: DeserializeOwned>(
    document: Value,
    source: &Source,
    expected: Expected,
) -> Result<T, InputError> {
    serde_json::from_value(document).map_err(|error| InputError::Value {
        flag: expected.flag,
        value: source.path.clone(),
        reason: format!("the file is not a valid {}: {error}", expected.kind),
    })
}

/// The text at a JSON pointer.
pub(super) fn text<'a>(document: &'a Value, pointer: &str) -> Option<&'a str> {
    document.pointer(pointer).and_then(Value::as_str)
}

pub(super) fn field(source: &Source, expected: Expected, field: &str, reason: &str) -> InputError {
    InputError::Field {
        flag: expected.flag,
        path: source.path.clone(),
        field: field.to_owned(),
        reason: reason.to_owned(),
    }
}

/// The error is the reason.
fn check_kind(document: &Value, expected: Expected) -> Result<(), String> {
    let Expected { api_version, kind, .. } = expected;
    match (text(document, "/apiVersion"), text(document, "/kind")) {
        (Some(version), Some(found)) if version == api_version && found == kind => Ok(()),
        (Some(version), Some(found)) => Err(format!(
            "the file contains a {found} of {version}: give a {kind} of {api_version}"
        )),
        _ => Err(format!("apiVersion or kind is missing: give a {kind} of {api_version}")),
    }
}
