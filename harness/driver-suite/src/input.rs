//! The machine class and the Secret of a run, read from YAML files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use mcm_api::MachineClass;
use serde_json::Value;

/// The namespace of objects whose file names none.
const NAMESPACE: &str = "default";

/// The objects that every call contains.
#[derive(Clone)]
pub struct Inputs {
    /// The machine class; its `provider` is not empty.
    pub class: MachineClass,
    /// The data of the Secret.
    pub secret: BTreeMap<String, ByteString>,
}

/// Prints only the secret's keys.
impl std::fmt::Debug for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inputs")
            .field("class", &self.class.metadata.name)
            .field("secret", &self.secret.keys())
            .finish()
    }
}

/// A file is not usable. The texts are one line and contain no value of the Secret.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The file cannot be read.
    #[error("--{flag} {}: cannot read the file: {source}", path.display())]
    Unreadable {
        /// The flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not YAML, or a field has the wrong type.
    #[error("--{flag} {}: not a {kind} in YAML: {reason}", path.display())]
    Invalid {
        /// The flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The expected kind.
        kind: &'static str,
        /// The cause.
        reason: String,
    },
    /// The file contains an object of another kind.
    #[error("--{flag} {}: kind is {found:?}, expected {kind}: name the file of the {kind}", path.display())]
    WrongKind {
        /// The flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The expected kind.
        kind: &'static str,
        /// The kind in the file.
        found: String,
    },
    /// A field is missing.
    #[error("--{flag} {}: {field} is missing: {fix}", path.display())]
    Missing {
        /// The flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The missing field.
        field: &'static str,
        /// What to enter.
        fix: &'static str,
    },
}

impl Inputs {
    /// Reads both files.
    ///
    /// # Errors
    /// A file cannot be read, or is not an object of its kind with the required fields.
    pub fn read(class: &Path, secret: &Path) -> Result<Self, InputError> {
        Ok(Self {
            class: read_class(class)?,
            secret: read_secret(secret)?,
        })
    }
}

/// Where an object comes from, for errors.
#[derive(Clone, Copy)]
struct Source<'a> {
    flag: &'static str,
    path: &'a Path,
    kind: &'static str,
}

impl Source<'_> {
    fn read(self) -> Result<Value, InputError> {
        let text = std::fs::read_to_string(self.path).map_err(|source| InputError::Unreadable {
            flag: self.flag,
            path: self.path.to_owned(),
            source,
        })?;
        // The parser's text quotes the file, which may be a Secret: only its first line, without the quote.
        let object: Value = serde_saphyr::from_str(&text).map_err(|error| {
            let text = error.without_snippet().to_string();
            self.invalid(text.lines().next().unwrap_or_default().to_owned())
        })?;
        match object.get("kind").and_then(Value::as_str) {
            Some(found) if found == self.kind => Ok(object),
            found => Err(InputError::WrongKind {
                flag: self.flag,
                path: self.path.to_owned(),
                kind: self.kind,
                found: found.unwrap_or_default().to_owned(),
            }),
        }
    }

    fn invalid(self, reason: String) -> InputError {
        InputError::Invalid {
            flag: self.flag,
            path: self.path.to_owned(),
            kind: self.kind,
            reason,
        }
    }

    fn missing(self, field: &'static str, fix: &'static str) -> InputError {
        InputError::Missing {
            flag: self.flag,
            path: self.path.to_owned(),
            field,
            fix,
        }
    }
}

fn read_class(path: &Path) -> Result<MachineClass, InputError> {
    let source = Source {
        flag: "class",
        path,
        kind: "MachineClass",
    };
    let object = source.read()?;
    let mut class: MachineClass = serde_json::from_value(object).map_err(|error| source.invalid(error.to_string()))?;
    if class.provider.as_deref().unwrap_or_default().is_empty() {
        return Err(source.missing("provider", "enter the name of your driver's provider"));
    }
    if class.provider_spec.is_null() {
        return Err(source.missing("providerSpec", "enter what your driver needs for a VM"));
    }
    if class.metadata.name.as_deref().unwrap_or_default().is_empty() {
        return Err(source.missing("metadata.name", "enter any name"));
    }
    class.metadata.namespace.get_or_insert_with(|| NAMESPACE.to_owned());
    Ok(class)
}

/// The data of a Secret; `stringData` takes precedence over `data`, as in the API server.
fn read_secret(path: &Path) -> Result<BTreeMap<String, ByteString>, InputError> {
    let source = Source {
        flag: "secret",
        path,
        kind: "Secret",
    };
    let object = source.read()?;
    // The parser's text may quote a value.
    let secret: Secret = serde_json::from_value(object)
        .map_err(|_| source.invalid("data must map keys to Base64, and stringData must map keys to text".to_owned()))?;
    let mut data = secret.data.unwrap_or_default();
    let texts = secret.string_data.unwrap_or_default().into_iter();
    data.extend(texts.map(|(key, text)| (key, ByteString(text.into_bytes()))));
    if data.is_empty() {
        return Err(source.missing(
            "data",
            "enter the credentials that your driver needs, in data or stringData",
        ));
    }
    Ok(data)
}
