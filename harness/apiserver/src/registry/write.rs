//! Common steps of create, update and patch: admits a body, sets defaults and validates the object.

use serde_json::Value;

use super::{Entry, FieldValidation, Registry, WriteOptions, definitions, metadata};
use crate::json;
use crate::resource::{Resource, Shape};
use crate::status::{ApiError, FieldError};
use crate::types;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl Registry {
    /// Checks that a body is an object of this resource and drops unknown fields. Returns the warnings.
    pub(super) fn admit(
        &self,
        entry: &Entry,
        value: &mut Value,
        options: &WriteOptions,
    ) -> Result<Vec<String>, ApiError> {
        let resource = &entry.resource;
        check_type(resource, value)?;
        metadata::check_types(value, resource.is_custom()).map_err(|why| {
            let (kind, version) = (&resource.kind, &resource.version);
            ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            ))
        })?;
        let unknown = match &resource.shape {
            Shape::BuiltIn(name) => types::check(name, value)?,
            Shape::Custom(schema) => {
                json::shorten_numbers(value);
                let mut unknown = schema.prune(value);
                if let Some(metadata) = value.get_mut("metadata") {
                    let paths = types::check(OBJECT_META, metadata)?;
                    unknown.extend(paths.into_iter().map(|path| format!("metadata.{path}")));
                }
                unknown
            }
        };
        let texts = unknown.iter().map(|path| format!("unknown field {path:?}"));
        let duplicates = options
            .duplicates
            .iter()
            .map(|path| format!("duplicate field {path:?}"));
        let found: Vec<String> = match options.field_validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Warn | FieldValidation::Strict => texts.chain(duplicates).collect(),
        };
        if options.field_validation == FieldValidation::Strict && !found.is_empty() {
            let (kind, version) = (&resource.kind, &resource.version);
            return Err(ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
                found.join(", ")
            )));
        }
        Ok(found)
    }

    /// Sets defaults and makes values canonical.
    ///
    /// # Errors
    /// If the defaults of a custom resource are too large.
    pub(super) fn complete(&self, entry: &Entry, new: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        let resource = &entry.resource;
        if let Some(prepare) = resource.prepare {
            prepare(new, old);
        }
        match &resource.shape {
            Shape::BuiltIn(name) => types::canonicalise(name, new),
            Shape::Custom(schema) => schema.default(new).map_err(|_| too_large())?,
        }
        if definitions::is_definition(resource) {
            let taken = self.names_of_others(new)?;
            crate::custom::establish(new, &self.now_text(), &taken);
        }
        Ok(())
    }

    /// Validates an object before it is stored; `errors` are those found before.
    pub(super) fn validate(
        &self,
        entry: &Entry,
        new: &Value,
        old: Option<&Value>,
        mut errors: Vec<FieldError>,
    ) -> Result<(), ApiError> {
        let resource = &entry.resource;
        errors.extend(metadata::validate(resource, new, old));
        if let Shape::Custom(schema) = &resource.shape {
            errors.extend(schema.validate(new, old));
            errors.extend(crate::custom::validate_scale(resource, new));
        }
        if let Some(validate) = resource.validate {
            errors.extend(validate(new, old));
        }
        if definitions::is_definition(resource) {
            errors.extend(crate::custom::validate(new, old));
        }
        if errors.is_empty() {
            return Ok(());
        }
        let stored_group = resource.conversion.as_ref().map(|conversion| conversion.group);
        Err(ApiError::invalid(
            stored_group.unwrap_or(&resource.group),
            &resource.kind,
            metadata::text(new, "name"),
            &errors,
        ))
    }
}

/// The error of upstream for an object that etcd does not store.
pub(super) fn too_large() -> ApiError {
    ApiError::new(500, "", "etcdserver: request is too large")
}

/// The body's kind and version must be those of the path; absent ones are set from the path.
fn check_type(resource: &Resource, value: &mut Value) -> Result<(), ApiError> {
    if !value.is_object() {
        return Err(ApiError::bad_request(
            "couldn't get version/kind; json parse error: the body is not a JSON object",
        ));
    }
    if resource.is_custom() {
        check_custom_type(resource, value)?;
    }
    let expected = resource.api_version();
    match value.get("apiVersion") {
        None | Some(Value::Null) => value["apiVersion"] = expected.into(),
        Some(Value::String(found)) if found.is_empty() => value["apiVersion"] = expected.into(),
        Some(Value::String(found)) if *found == expected => {}
        Some(found) => {
            let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({found}) does not match the expected API version ({expected})"
            )));
        }
    }
    let kind = &resource.kind;
    match value.get("kind") {
        None | Some(Value::Null) => value["kind"] = kind.as_str().into(),
        Some(Value::String(found)) if found == kind => {}
        Some(found) => {
            let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            return Err(ApiError::bad_request(format!(
                "{found} in version {:?} cannot be handled as a {kind}: the kind in the data ({found}) does not match \
                 the expected kind ({kind})",
                resource.version
            )));
        }
    }
    Ok(())
}

/// The body of a review must be of that kind, if it has a kind.
///
/// # Errors
/// 400.
pub fn check_review(group: &str, kind: &str, value: &Value) -> Result<(), ApiError> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let found = text("kind");
    if value.is_object() && (found.is_empty() || found == kind) {
        return Ok(());
    }
    let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
    let group = group.split('.').next().unwrap_or_default();
    Err(ApiError::bad_request(format!(
        "{found} in version {version:?} cannot be handled as a {kind}: converting ({version}.{found}) to \
         ({group}.{kind}): unknown conversion"
    )))
}

/// A custom resource must have a kind and version.
fn check_custom_type(resource: &Resource, value: &Value) -> Result<(), ApiError> {
    let kind = &resource.kind;
    for (field, word) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        if value.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): Object '{word}' is missing in \
                 '{value}' ({value})"
            )));
        }
    }
    match value.get("kind").and_then(Value::as_str) {
        Some(found) if found != kind => {
            let error = FieldError::invalid("kind", found, format!("must be {kind}"));
            let name = metadata::text(value, "name");
            Err(ApiError::invalid(&resource.group, found, name, &[error]))
        }
        _ => Ok(()),
    }
}
