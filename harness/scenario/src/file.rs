//! Reads scenario and plan files, and reports errors in them.

use std::path::Path;

use fakecloud_api::Deprecations;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The deprecated field that contains the rule.
pub(crate) const FAULT: &str = "fault";
/// The deprecated fields of the window.
pub(crate) const TIMES: [&str; 2] = ["from", "until"];
/// Renamed steps, with their present names.
const RENAMED_STEPS: [(&str, &str); 3] = [
    ("makeVm", "createVm"),
    ("mendZone", "restoreZone"),
    ("someone", "deferred"),
];
/// Renamed conditions, with their present names.
const RENAMED_CONDITIONS: [(&str, &str); 3] = [
    ("says", "descriptionContains"),
    ("struck", "faultHits"),
    ("told", "eventCount"),
];

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
    /// The text cannot be parsed.
    #[error("{origin}: {message}")]
    Syntax {
        /// The file.
        origin: String,
        /// Line, column, field and the fix.
        message: String,
    },
    /// A field has an invalid value.
    #[error("{origin}: {field}: {message}")]
    Field {
        /// The file or scenario.
        origin: String,
        /// Path of the field.
        field: String,
        /// The problem and the fix.
        message: String,
    },
}

impl FileError {
    /// An invalid field.
    pub(crate) fn field(origin: &str, field: &str, message: impl Into<String>) -> Self {
        Self::Field {
            origin: origin.to_owned(),
            field: field.to_owned(),
            message: message.into(),
        }
    }
}

/// The text of a file, and its name in errors.
pub(crate) fn text(path: &Path) -> Result<(String, String), FileError> {
    let shown = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((text, shown)),
        Err(source) => Err(FileError::Read { path: shown, source }),
    }
}

/// Parses YAML, which includes JSON; `origin` is its name in errors.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, origin: &str) -> Result<T, FileError> {
    serde_saphyr::from_str(text).map_err(|error| FileError::Syntax {
        origin: origin.to_owned(),
        message: one_line(&error),
    })
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

/// The parser's message after its position, on one line.
pub(crate) fn one_line(error: &serde_saphyr::Error) -> String {
    let message = error.without_snippet().to_string();
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match error.location() {
        Some(location) if !message.contains("line ") => {
            format!("line {}, column {}: {message}", location.line(), location.column())
        }
        _ => message,
    }
}
