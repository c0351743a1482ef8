//! Files that people write, scenarios and plans: how they are read, and what is said when one cannot be used.

use std::path::Path;

use fakecloud_api::Deprecations;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The old field of the rule.
pub(crate) const FAULT: &str = "fault";
/// The old fields of the window.
pub(crate) const TIMES: [&str; 2] = ["from", "until"];

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The text is not what it should be.
    #[error("{origin}: {message}")]
    Syntax {
        /// Which file.
        origin: String,
        /// Line, column, field and what would do.
        message: String,
    },
    /// A field has a value that makes no sense.
    #[error("{origin}: {field}: {message}")]
    Field {
        /// Which file or scenario.
        origin: String,
        /// Path of the field.
        field: String,
        /// What is wrong and what would do.
        message: String,
    },
}

impl FileError {
    /// A field with a value that makes no sense.
    pub(crate) fn field(origin: &str, field: &str, message: impl Into<String>) -> Self {
        Self::Field {
            origin: origin.to_owned(),
            field: field.to_owned(),
            message: message.into(),
        }
    }
}

/// The text of a file, and how it is called in errors.
pub(crate) fn text(path: &Path) -> Result<(String, String), FileError> {
    let shown = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((text, shown)),
        Err(source) => Err(FileError::Read { path: shown, source }),
    }
}

/// What YAML says, of which JSON is a part; `origin` names it in errors.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, origin: &str) -> Result<T, FileError> {
    serde_saphyr::from_str(text).map_err(|error| FileError::Syntax {
        origin: origin.to_owned(),
        message: one_line(&error),
    })
}

/// Notes the old spellings in a scenario or a plan that its parser accepts.
pub(crate) fn collect_deprecations(text: &str, origin: &str, found: &mut Deprecations) {
    let Ok(document) = serde_saphyr::from_str::<Value>(text) else {
        return;
    };
    let list = |path: &str| document.pointer(path).and_then(Value::as_array).into_iter().flatten();
    for step in list("/steps").chain(list("/scenario/steps")) {
        if let Some(rule) = step.get("inject") {
            found.add_rule(origin, "inject", rule);
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

/// The parser's message with its place in front, on one line.
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
