//! Server-side apply: creates or changes an object to contain a configuration.

use serde_json::Value;

use super::attempt::Attempt;
use super::owners::{Owners, empty_object};
use super::{Entry, FieldValidation, Part, Registry, WriteOptions, Written, create, metadata};
use crate::apply::{self, NotApplied};
use crate::json;
use crate::resource::{Resource, Shape};
use crate::status::ApiError;
use crate::store::Key;
use crate::types;

impl Registry {
    /// Applies a configuration, in YAML or JSON. `may_create` decides whether the caller may create a missing object.
    ///
    /// # Errors
    /// 400, 403, 404, 409, 422 and 500 as in upstream; 409 for conflicts with other managers.
    pub fn apply(
        &self,
        entry: &Entry,
        key: &Key,
        part: Part,
        body: &[u8],
        options: &WriteOptions,
        may_create: impl Fn() -> Result<(), ApiError>,
    ) -> Result<Written, ApiError> {
        let resource = &entry.resource;
        let storage = entry.storage();
        let (configuration, repeated) = parse(body)?;
        check_type(&configuration, &resource.api_version(), &resource.kind)?;
        if super::owners::encoded(&configuration).is_some_and(|managers| !managers.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        loop {
            let current = match self.get(&storage, key) {
                Ok(current) => Some(current),
                Err(error) if error.code == 404 && part == Part::Main => None,
                Err(error) => return Err(error),
            };
            let old = current.as_deref().map(|current| storage.decoded(current)).transpose()?;
            if let Some(old) = &old {
                check_other_versions(resource, old, &configuration)?;
            }
            let mut new = self.configured(entry, part, (old.as_ref(), &configuration), options)?;
            let warnings = repeated_keys(repeated.as_deref(), options)?;
            // Fields that the kind does not have were refused, and others are dropped in silence.
            let options = &WriteOptions {
                field_validation: FieldValidation::Ignore,
                ..options.clone()
            };
            let unconverted = |error| unconverted(resource, &configuration, error);
            create::check_namespace(resource, &key.namespace, &new)?;
            metadata::check_name(&new, &key.name)?;
            check_nulls(resource, &new)?;
            let owners = Owners::Given(super::owners::encoded(&new).cloned());
            match (current, old) {
                (Some(current), Some(old)) => {
                    self.admit(entry, &mut new, options).map_err(unconverted)?;
                    entry.convert_to_stored(&mut new);
                    let change = super::update::Change {
                        owners,
                        ..super::update::Change::by_writer(entry, new, warnings)
                    };
                    if let Attempt::Done(written) = self.attempt(&storage, (&current, &old), part, change, options)? {
                        return Ok(written);
                    }
                }
                _ => {
                    may_create()?;
                    let uid = metadata::text(&new, "uid");
                    if !uid.is_empty() {
                        let why = format!(
                            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                        );
                        return Err(ApiError::conflict(resource, &key.name, &why));
                    }
                    let created = self.create_owned(entry, &key.namespace, new, options, owners);
                    match created.map_err(unconverted) {
                        // Another client created it meanwhile.
                        Err(error) if error.reason == "AlreadyExists" => {}
                        Ok(mut written) => {
                            written.warnings.extend(warnings);
                            return Ok(written);
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    /// The object with the configuration.
    fn configured(
        &self,
        entry: &Entry,
        part: Part,
        (old, configuration): (Option<&Value>, &Value),
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let resource = &entry.resource;
        let empty = empty_object(resource);
        let mut live = match old {
            Some(old) => old.clone(),
            None => empty.clone(),
        };
        if old.is_some() {
            entry.convert_from_stored(&mut live);
        }
        live["apiVersion"] = resource.api_version().into();
        live["kind"] = resource.kind.as_str().into();
        let applied = self.with_write(entry, part, &resource.api_version(), options, |write| {
            apply::apply(&empty, &live, configuration, options.force, write)
        });
        applied.map_err(ApiError::from)?.map_err(|error| match error {
            NotApplied::Conflicts(conflicts) => apply::conflict_error(&conflicts),
            NotApplied::Mistyped(violations) => mistyped(resource, configuration, &violations),
        })
    }
}

/// As upstream, the other versions in which an object has managers must have all of its fields, if versions only differ
/// in their names.
///
/// # Errors
/// 500.
fn check_other_versions(resource: &Resource, old: &Value, configuration: &Value) -> Result<(), ApiError> {
    let Some(versions) = resource.versions.as_ref().filter(|versions| versions.keeps_fields()) else {
        return Ok(());
    };
    let own = resource.api_version();
    let managers = super::owners::encoded(old)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let others = managers.filter_map(|manager| manager.get("apiVersion")?.as_str());
    for version in others.filter(|version| *version != own) {
        let mut fields: Vec<String> = [old, configuration]
            .into_iter()
            .flat_map(|object| versions.undeclared(object, version))
            .map(|path| format!(".{path}: field not declared in schema"))
            .collect();
        fields.sort();
        fields.dedup();
        let message = match fields.as_slice() {
            [] => continue,
            [one] => one.clone(),
            many => format!("errors:\n  {}", many.join("\n  ")),
        };
        return Err(ApiError::new(500, "", message));
    }
    Ok(())
}

/// An object of which a configuration removes everything becomes null, which most schemas do not allow.
///
/// # Errors
/// 422.
fn check_nulls(resource: &Resource, new: &Value) -> Result<(), ApiError> {
    let Shape::Custom(schema) = &resource.shape else {
        return Ok(());
    };
    match schema.invalid_nulls(new) {
        errors if errors.is_empty() => Ok(()),
        errors => Err(ApiError::invalid(
            &resource.group,
            &resource.kind,
            metadata::text(new, "name"),
            &errors,
        )),
    }
}

/// Parses a configuration; also returns its first repeated key. Most clients send JSON, which is read faster than YAML.
///
/// # Errors
/// 400.
pub(super) fn parse(body: &[u8]) -> Result<(Value, Option<String>), ApiError> {
    if body.trim_ascii_start().starts_with(b"{")
        && let Ok(configuration) = json::parse(body)
        && types::duplicate_fields(body).is_empty()
    {
        return Ok((configuration, None));
    }
    json::parse_configuration(body).map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))
}

/// The error of a configuration that does not have the type of its kind.
fn mistyped(resource: &Resource, configuration: &Value, violations: &[String]) -> ApiError {
    let what = match violations {
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let title = title(resource, configuration);
    ApiError::new(
        500,
        "",
        format!("failed to create typed patch object ({title}): {what}"),
    )
}

/// The error of a configuration that cannot be decoded to an object of its kind.
fn unconverted(resource: &Resource, configuration: &Value, error: ApiError) -> ApiError {
    if error.code != 400 {
        return error;
    }
    let (_, why) = error
        .message
        .split_once("cannot be handled as a ")
        .unwrap_or(("", &error.message));
    let (_, why) = why.split_once(": ").unwrap_or(("", why));
    // Upstream converts values here instead of decoding text.
    let why = match (
        why.strip_prefix("json: cannot unmarshal number "),
        why.rsplit_once(" of type "),
    ) {
        (Some(_), Some((_, wanted))) => format!("cannot convert float64 to {wanted}"),
        _ => why.to_owned(),
    };
    let (kind, title) = (&resource.kind, title(resource, configuration));
    let version = resource.api_version();
    ApiError::new(
        500,
        "",
        format!(
            "failed to convert new object ({title}) to proper version: unable to convert unstructured object to \
             {version}, Kind={kind}: {why}"
        ),
    )
}

/// A configuration in messages.
fn title(resource: &Resource, configuration: &Value) -> String {
    let text = |field| metadata::text(configuration, field);
    let (namespace, name, kind) = (text("namespace"), text("name"), &resource.kind);
    format!(
        "{namespace}/{name}; {}/{}, Kind={kind}",
        resource.group, resource.version
    )
}

/// What follows from a key that occurs twice in a mapping: `line 7: key "k" already set in map`.
fn repeated_keys(repeated: Option<&str>, options: &WriteOptions) -> Result<Vec<String>, ApiError> {
    match (repeated, options.field_validation) {
        (None, _) | (_, FieldValidation::Ignore) => Ok(Vec::new()),
        (Some(what), FieldValidation::Warn) => Ok(vec![what.to_owned()]),
        (Some(what), FieldValidation::Strict) => Err(ApiError::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {what}"
        ))),
    }
}

/// A configuration must name its type.
///
/// # Errors
/// 400.
pub(super) fn check_type(configuration: &Value, api_version: &str, kind: &str) -> Result<(), ApiError> {
    let text = |name: &str| configuration.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("apiVersion") == api_version && text("kind") == kind {
        return Ok(());
    }
    let version = match text("apiVersion") {
        "" => "/".to_owned(),
        version if version.contains('/') => version.to_owned(),
        version => format!("/{version}"),
    };
    let kind = text("kind");
    Err(ApiError::bad_request(format!(
        "invalid object type: {version}, Kind={kind}"
    )))
}
