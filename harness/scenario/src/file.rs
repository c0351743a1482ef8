//! Reads scenario and plan files, and reports errors in them.

mod renamed;
mod syntax;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use fakecloud_api::Deprecations;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::renamed::{RENAMED_CONDITIONS, RENAMED_STEPS};
use crate::Problem;
use crate::document::{Document, Position};

/// The largest size of a file with scenarios, plans, rules or objects, in bytes. The parser needs a
/// multiple of it.
pub const MOST_BYTES: u64 = 16 << 20;
/// The deprecated field that contains the rule.
pub(crate) const FAULT: &str = "fault";
/// The deprecated fields of the window.
pub(crate) const TIMES: [&str; 2] = ["from", "until"];
/// The old name of a renamed step or condition.
fn old_name(name: &str) -> Option<&'static str> {
    let renamed = RENAMED_STEPS.into_iter().chain(RENAMED_CONDITIONS);
    renamed.into_iter().find(|(_, new)| *new == name).map(|(old, _)| old)
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The text cannot be parsed, or a field has an invalid value.
    #[error("{}", described(origin, *position, field, message))]
    Invalid {
        /// The file, or the scenario that is built in.
        origin: String,
        /// Where it is in the file; `None`: it is unknown, or there is no file.
        position: Option<Position>,
        /// Path of the field, such as `steps[3].deferred.among`; empty: the whole document.
        field: String,
        /// The error with the value and the fix.
        message: String,
    },
}

/// For instance `story.yaml:5:12: steps[1].vm.machine: the scenario creates no machine "m-7"`.
fn described(origin: &str, position: Option<Position>, field: &str, message: &str) -> String {
    let mut text = origin.to_owned();
    if let Some(Position { line, column }) = position {
        text += &format!(":{line}:{column}");
    }
    if !field.is_empty() {
        text += &format!(": {}", on_one_line(field));
    }
    format!("{text}: {message}")
}

/// The path of a field, whose names may contain anything, with escaped control characters.
fn on_one_line(field: &str) -> String {
    let mut line = String::new();
    for character in field.chars() {
        match character.is_control() {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    line
}

/// The text of a file with scenarios, plans, rules or objects, whatever kind of file it is.
///
/// # Errors
/// If it cannot be read, is larger than [`MOST_BYTES`], or is no text.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text);
    // A character may be cut.
    if text.len() as u64 > MOST_BYTES || read.as_ref().is_ok_and(|read| *read as u64 > MOST_BYTES) {
        return Err(io::Error::other(format!(
            "it has more than {MOST_BYTES} bytes, and files of these kinds have fewer: split it"
        )));
    }
    read.map(|_| text)
}

/// The text of a file, and its name in errors.
pub(crate) fn text(path: &Path) -> Result<(String, String), FileError> {
    let shown = path.display().to_string();
    match read_text(path) {
        Ok(text) => Ok((text, shown)),
        Err(source) => Err(FileError::Read { path: shown, source }),
    }
}

/// A text with its name in errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    pub(crate) origin: &'a str,
}

impl Source<'_> {
    /// Parses YAML, which includes JSON.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        serde_saphyr::from_str(self.text).map_err(|error| {
            let (position, name, message) = syntax::explain(&error);
            let document = position.and_then(|position| Some((Document::parse(self.text)?, position)));
            let field = document.and_then(|(document, position)| document.field_at(position, name.as_deref()));
            FileError::Invalid {
                origin: self.origin.to_owned(),
                position,
                field: field.unwrap_or_default(),
                message,
            }
        })
    }

    /// The error of an invalid field, with its position.
    pub(crate) fn invalid(&self, (field, message): Problem) -> FileError {
        let (position, field) = match Document::parse(self.text) {
            Some(document) => document.locate(&field, old_name),
            None => (None, field),
        };
        FileError::Invalid {
            origin: self.origin.to_owned(),
            position,
            field,
            message,
        }
    }
}

/// Records the deprecated spellings in a valid scenario or plan.
pub(crate) fn collect_deprecations(text: &str, origin: &str, found: &mut Deprecations) {
    let Ok(document) = serde_saphyr::from_str::<Value>(text) else {
        return;
    };
    let list = |path: &str| document.pointer(path).and_then(Value::as_array).into_iter().flatten();
    for step in list("/steps").chain(list("/scenario/steps")) {
        if let Some(rule) = step.get("inject") {
            found.add_rule(origin, "inject", rule);
        }
        for (old, new) in RENAMED_STEPS.into_iter().filter(|(old, _)| step.get(old).is_some()) {
            found.add(origin, old, new);
        }
        if let Some(expectation) = step.get("expect") {
            collect_renamed_conditions(expectation, origin, found);
        }
    }
    for cloud in list("/disturbances").filter_map(|disturbance| disturbance.get("cloud")) {
        found.add_rule(origin, "cloud", cloud);
        if let Some(rule) = cloud.get(FAULT) {
            found.add(origin, "cloud.fault", "cloud");
            found.add_moved_rule(origin, "cloud.fault", "cloud", rule);
        }
        for time in TIMES.into_iter().filter(|time| cloud.get(time).is_some()) {
            found.add(origin, format!("cloud.{time}"), format!("cloud.match.window.{time}"));
        }
    }
}

/// Records the renamed conditions in an expectation, also in `all`, `any` and `not`. A field's value is the user's.
fn collect_renamed_conditions(value: &Value, origin: &str, found: &mut Deprecations) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| *name != "field") {
                if let Some((old, new)) = RENAMED_CONDITIONS.into_iter().find(|(old, _)| old == name) {
                    found.add(origin, old, new);
                }
                collect_renamed_conditions(value, origin, found);
            }
        }
        Value::Array(values) => {
            for value in values {
                collect_renamed_conditions(value, origin, found);
            }
        }
        _ => {}
    }
}
