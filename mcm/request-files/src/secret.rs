//! The data of the Secrets that a class names.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::SecretReference;
use mcm_api::MachineClass;
use serde_json::{Map, Value};

use crate::document::text;
use crate::{Expected, FileError, Source, document, field};

/// The data of Secrets, merged.
pub type Data = BTreeMap<String, ByteString>;

const SECRET: Expected = Expected {
    flag: "--secret",
    api_version: "v1",
    kind: "Secret",
};

/// A Secret of a file.
struct Secret<'a> {
    source: &'a Source,
    name: String,
    /// Empty: the file has none, and any reference to the name matches.
    namespace: String,
    data: Data,
}

/// The data of `secretRef`, and over it that of `credentialsSecretRef`, as in the controller.
///
/// # Errors
/// A file is not a Secret, or the class does not name it; or the class names a Secret without a file.
pub fn merged(class: &MachineClass, sources: &[Source]) -> Result<Data, FileError> {
    let secrets = sources.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let references = references(class);
    let mut data = Data::new();
    for (name, reference) in &references {
        let mut matching = secrets.iter().filter(|secret| secret.matches(class, reference));
        let Some(secret) = matching.next() else {
            return Err(not_given(class, name, reference));
        };
        if let Some(second) = matching.next() {
            return Err(secret_error(
                second,
                "the Secret is given twice: remove one of the files".to_owned(),
            ));
        }
        data.extend(secret.data.clone());
    }
    let unused = |secret: &&Secret| !references.iter().any(|(_, reference)| secret.matches(class, reference));
    match secrets.iter().find(unused) {
        Some(secret) => Err(not_named(class, &references, secret)),
        None => Ok(data),
    }
}

/// The references of a class that have a name, with their fields.
fn references(class: &MachineClass) -> Vec<(&'static str, &SecretReference)> {
    let both = [
        ("secretRef", &class.secret_ref),
        ("credentialsSecretRef", &class.credentials_secret_ref),
    ];
    both.into_iter()
        .filter_map(|(field, reference)| Some((field, reference.as_ref()?)))
        .filter(|(_, reference)| !name_of(reference).is_empty())
        .collect()
}

fn name_of(reference: &SecretReference) -> &str {
    reference.name.as_deref().unwrap_or_default()
}

impl Secret<'_> {
    /// A reference without a namespace means that of the class; where one side has no namespace, the name decides.
    fn matches(&self, class: &MachineClass, reference: &SecretReference) -> bool {
        let given = reference.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let namespace = given.or(class.metadata.namespace.as_deref()).unwrap_or_default();
        self.name == name_of(reference)
            && (namespace.is_empty() || self.namespace.is_empty() || namespace == self.namespace)
    }
}

fn read(source: &Source) -> Result<Secret<'_>, FileError> {
    let document = document(source, SECRET)?;
    let mut data = Data::new();
    for (key, value) in entries(&document, "data", source)? {
        // The error of the decoder contains the value.
        let decoded = serde_json::from_value(value.clone()).map_err(|_| {
            let reason = "it is not base64: encode it, or move it to stringData";
            field(source, SECRET, &format!("data.{key}"), reason)
        })?;
        data.insert(key.clone(), decoded);
    }
    for (key, value) in entries(&document, "stringData", source)? {
        let Some(text) = value.as_str() else {
            let reason = "it is not a string: put it in quotes";
            return Err(field(source, SECRET, &format!("stringData.{key}"), reason));
        };
        data.insert(key.clone(), ByteString(text.as_bytes().to_vec()));
    }
    Ok(Secret {
        source,
        name: text(&document, "/metadata/name").unwrap_or_default().to_owned(),
        namespace: text(&document, "/metadata/namespace").unwrap_or_default().to_owned(),
        data,
    })
}

fn entries<'a>(document: &'a Value, name: &str, source: &Source) -> Result<Vec<(&'a String, &'a Value)>, FileError> {
    match document.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(entries)) => Ok(Map::iter(entries).collect()),
        Some(_) => Err(field(source, SECRET, name, "it is not a map: write KEY: VALUE lines")),
    }
}

fn class_name(class: &MachineClass) -> &str {
    class.metadata.name.as_deref().unwrap_or_default()
}

fn not_given(class: &MachineClass, field: &str, reference: &SecretReference) -> FileError {
    FileError::Missing {
        flag: "--secret",
        fix: format!(
            "the class {} names the Secret {} in {field}: give its file",
            class_name(class),
            name_of(reference)
        ),
    }
}

fn not_named(class: &MachineClass, references: &[(&str, &SecretReference)], secret: &Secret) -> FileError {
    let named: Vec<_> = references.iter().map(|(_, reference)| name_of(reference)).collect();
    let fix = match named.is_empty() {
        true => "which names none: remove --secret, or add secretRef to the class".to_owned(),
        false => format!(
            "which names {}: give that file, or correct the class",
            named.join(" and ")
        ),
    };
    secret_error(
        secret,
        format!(
            "the Secret {} is not named by the class {}, {fix}",
            secret.name,
            class_name(class)
        ),
    )
}

fn secret_error(secret: &Secret, reason: String) -> FileError {
    FileError::File {
        flag: SECRET.flag,
        path: secret.source.path.clone(),
        reason,
    }
}
