//! The one Kubernetes object in a file.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::FileError;

/// A file.
#[derive(Clone)]
pub struct Source {
    /// As in the flag.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl Source {
    /// Reads the file that `flag` names.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(flag: &'static str, path: &str) -> Result<Self, FileError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self {
                path: path.to_owned(),
                text,
            }),
            Err(error) => Err(FileError::File {
                flag,
                path: path.to_owned(),
                reason: format!("the file cannot be read: {error}"),
            }),
        }
    }
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
pub struct Expected {
    /// The flag that names the file.
    pub flag: &'static str,
    /// The object's `apiVersion`.
    pub api_version: &'static str,
    /// The object's `kind`.
    pub kind: &'static str,
}

/// The object of a file, with a name. Errors never contain text of the file, which may be a Secret.
///
/// # Errors
/// The file is not YAML with one object of that kind.
pub fn document(source: &Source, expected: Expected) -> Result<Value, FileError> {
    let wrong = |reason: String| FileError::File {
        flag: expected.flag,
        path: source.path.clone(),
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
///
/// # Errors
/// A field has another type.
pub fn typed<T: DeserializeOwned>(document: Value, source: &Source, expected: Expected) -> Result<T, FileError> {
    serde_json::from_value(document).map_err(|error| FileError::File {
        flag: expected.flag,
        path: source.path.clone(),
        reason: format!("the file is not a valid {}: {error}", expected.kind),
    })
}

/// The text at a JSON pointer.
pub(crate) fn text<'a>(document: &'a Value, pointer: &str) -> Option<&'a str> {
    document.pointer(pointer).and_then(Value::as_str)
}

/// The error about a field of the file.
pub fn field(source: &Source, expected: Expected, field: &str, reason: &str) -> FileError {
    FileError::Field {
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
