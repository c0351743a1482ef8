//! ObjectMeta: reads and writes its fields, checks their types, and validates them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::resource::Resource;
use crate::status::{ApiError, FieldError};
use crate::syntax::{LABEL_VALUE, is_dns_subdomain, is_label_value, is_qualified_name, qualified_name_rule};
use quantity::Saturating as _;

/// The maximum size of all annotations together, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The metadata; created if absent.
pub fn of_mut(value: &mut Value) -> &mut Map<String, Value> {
    member_object(value, "metadata")
}

/// The value as an object; replaces any other value by an empty object.
fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("the value was replaced by an object"),
    }
}

/// The member as an object; created if absent.
pub fn member_object<'a>(value: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    object(object(value).entry(name).or_insert(Value::Null))
}

/// A string of the metadata; empty if absent.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Sets a member, or removes it.
pub fn put(map: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(field.to_owned(), value),
        None => map.remove(field),
    };
}

/// The changes of server-managed metadata that reject a write. Changes of other such fields are ignored: see
/// [`carry_over`].
pub fn immutable_changes(new: &Value, old: &Value) -> Vec<FieldError> {
    let is_deleting = !text(old, "deletionTimestamp").is_empty();
    ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"]
        .into_iter()
        .filter(|field| !is_deleting || *field != "deletionTimestamp")
        .filter_map(|field| {
            let member = |value: &Value| value.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
            let wanted = member(new).filter(|wanted| wanted.as_str() != Some(""))?;
            (Some(&wanted) != member(old).as_ref())
                .then(|| FieldError::invalid(format!("metadata.{field}"), wanted, "field is immutable"))
        })
        .collect()
}

/// Restores fields that a write must not change, and drops fields that this server does not store. Returns
/// `managedFields` as the client sent it.
pub fn carry_over(new: &mut Value, old: &Value) -> Option<Value> {
    const KEPT: [&str; 7] = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ];
    let metadata = of_mut(new);
    for field in KEPT {
        put(
            metadata,
            field,
            old.get("metadata").and_then(|metadata| metadata.get(field)).cloned(),
        );
    }
    metadata.remove("selfLink");
    metadata.remove("managedFields")
}

/// The name of an object must be that of the URL.
///
/// # Errors
/// 400.
pub fn check_name(object: &Value, expected: &str) -> Result<(), ApiError> {
    match text(object, "name") {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        ))),
        name if name == expected => Ok(()),
        name => Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({expected})"
        ))),
    }
}

/// `metadata.generation`; 0 if absent.
pub fn generation(value: &Value) -> i64 {
    value
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// A field of the metadata has another JSON type than ObjectMeta.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal {found} into Go struct field ObjectMeta.{path} of type {wanted}")]
pub struct TypeMismatch {
    found: &'static str,
    path: String,
    wanted: String,
}

/// Drops nulls and checks JSON types, with the error of decoding into ObjectMeta.
///
/// # Errors
/// The first field of another type, as a message for a 400.
pub fn check_types(value: &mut Value, custom: bool) -> Result<(), TypeMismatch> {
    check_members(value).map_err(|mut mismatch| {
        // The decoder of custom resources decodes the metadata alone.
        if custom && let Some(path) = mismatch.path.strip_prefix("metadata.") {
            mismatch.path = path.to_owned();
        }
        mismatch
    })
}

fn check_members(value: &mut Value) -> Result<(), TypeMismatch> {
    let Some(metadata) = value.get_mut("metadata") else {
        return Ok(());
    };
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(metadata) = metadata else {
        return Err(mismatch(metadata, "metadata", "ObjectMeta"));
    };
    metadata.retain(|_, field| !field.is_null());
    for (name, field) in metadata.iter_mut() {
        match name.as_str() {
            "uid" if !field.is_string() => return Err(mismatch(field, name, "types.UID")),
            "name" | "generateName" | "namespace" | "resourceVersion" | "selfLink" | "creationTimestamp"
            | "deletionTimestamp"
                if !field.is_string() =>
            {
                return Err(mismatch(field, name, "string"));
            }
            "generation" | "deletionGracePeriodSeconds" if !field.is_i64() => {
                return Err(mismatch(field, name, "int64"));
            }
            "labels" | "annotations" => check_string_map(name, field)?,
            "finalizers" => check_items(name, field, Value::is_string, "string")?,
            "ownerReferences" => check_items(name, field, Value::is_object, "OwnerReference")?,
            _ => {}
        }
    }
    // An empty list of managers removes all of them.
    metadata.retain(|name, field| name == "managedFields" || !is_empty_collection(field));
    Ok(())
}

fn is_empty_collection(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn check_string_map(name: &str, field: &mut Value) -> Result<(), TypeMismatch> {
    let Value::Object(entries) = field else {
        return Err(mismatch(field, name, "map[string]string"));
    };
    for value in entries.values_mut() {
        if value.is_null() {
            *value = Value::String(String::new());
        }
        if !value.is_string() {
            return Err(mismatch(value, name, "string"));
        }
    }
    Ok(())
}

fn check_items(name: &str, field: &Value, good: fn(&Value) -> bool, wanted: &str) -> Result<(), TypeMismatch> {
    let Value::Array(items) = field else {
        return Err(mismatch(field, name, &format!("[]{wanted}")));
    };
    match items.iter().find(|item| !good(item)) {
        Some(item) => Err(mismatch(item, name, wanted)),
        None => Ok(()),
    }
}

fn mismatch(value: &Value, field: &str, wanted: &str) -> TypeMismatch {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let path = if field == "metadata" {
        "metadata".to_owned()
    } else {
        format!("metadata.{field}")
    };
    TypeMismatch {
        found,
        path,
        wanted: wanted.to_owned(),
    }
}

/// Validates the metadata of an object before it is stored.
pub fn validate(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let empty = Map::new();
    let metadata = new.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut errors = Vec::new();
    if old.is_none() {
        validate_name(resource, text(new, "name"), &mut errors);
    }
    for (key, value) in object_members(metadata.get("labels")) {
        if !is_qualified_name(key) {
            errors.push(FieldError::invalid(
                "metadata.labels",
                key.as_str(),
                qualified_name_rule(key),
            ));
        }
        let value = value.as_str().unwrap_or_default();
        if value.len() > 63 {
            errors.push(FieldError::invalid(
                "metadata.labels",
                value,
                "must be no more than 63 bytes",
            ));
        } else if !is_label_value(value) {
            errors.push(FieldError::invalid("metadata.labels", value, LABEL_VALUE));
        }
    }
    let mut length = 0;
    for (key, value) in object_members(metadata.get("annotations")) {
        length.raise(key.len());
        length.raise(value.as_str().unwrap_or_default().len());
        if !is_qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(
                "metadata.annotations",
                key.as_str(),
                qualified_name_rule(key),
            ));
        }
    }
    if length > ANNOTATIONS_LIMIT {
        let kind = crate::status::FieldErrorType::TooLong;
        let detail = format!("may not be more than {ANNOTATIONS_LIMIT} bytes");
        errors.push(FieldError {
            kind,
            field: "metadata.annotations".to_owned(),
            value: None,
            detail,
        });
    }
    validate_finalizers(metadata, old, needs_qualified_finalizers(resource), &mut errors);
    validate_owners(metadata, &mut errors);
    errors
}
const IP_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

fn validate_name(resource: &Resource, name: &str, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.name";
    if name.is_empty() {
        errors.push(FieldError::required(FIELD, "name or generateName is required"));
    } else if resource.kind == "IPAddress" && resource.group == "networking.k8s.io" {
        let parsed: Option<std::net::IpAddr> = name.parse().ok();
        match parsed {
            None => errors.push(FieldError::invalid(FIELD, name, IP_ADDRESS)),
            Some(address) if address.to_string() != name => {
                let why = format!("must be in canonical form (\"{address}\")");
                errors.push(FieldError::invalid(FIELD, name, why));
            }
            Some(_) => {}
        }
    } else if resource.group == "rbac.authorization.k8s.io" || has_any_name(resource) {
        if matches!(name, "." | "..") {
            errors.push(FieldError::invalid(FIELD, name, format!("may not be '{name}'")));
        }
        for letter in ['/', '%'] {
            if name.contains(letter) {
                errors.push(FieldError::invalid(FIELD, name, format!("may not contain '{letter}'")));
            }
        }
    } else if has_label_name(resource) {
        if name.len() > 63 {
            errors.push(FieldError::invalid(FIELD, name, "must be no more than 63 characters"));
        } else if is_dns_subdomain(name) && name.contains('.') {
            errors.push(FieldError::invalid(FIELD, name, "must not contain dots"));
        } else if !is_dns_subdomain(name) {
            errors.push(FieldError::invalid(FIELD, name, LABEL));
        }
    } else if name.len() > 253 {
        errors.push(FieldError::invalid(FIELD, name, "must be no more than 253 characters"));
    } else if !is_dns_subdomain(name) {
        errors.push(FieldError::invalid(FIELD, name, SUBDOMAIN));
    }
}

/// Whether the name must be a DNS label, as it becomes a part of other names.
fn has_label_name(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("", "namespaces" | "services") | ("apps", "statefulsets")
    )
}

/// Whether the name only has to be a segment of a path.
fn has_any_name(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.kind.as_str()),
        ("certificates.k8s.io", "CertificateSigningRequest") | ("apiregistration.k8s.io", "APIService")
    )
}

/// Warns of the new finalizers of a custom resource that other controllers may use, too. Built-in kinds refuse them.
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let of = |value: &Value| -> BTreeSet<String> {
        let finalizers = texts(value.pointer("/metadata/finalizers"));
        finalizers.into_iter().map(str::to_owned).collect()
    };
    let before = old.map(of).unwrap_or_default();
    let added = of(new).into_iter().filter(|finalizer| !before.contains(finalizer));
    let warning = |finalizer: String| {
        format!(
            "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name including a path (/) to avoid \
             accidental conflicts with other finalizer writers"
        )
    };
    added
        .filter(|finalizer| is_unqualified(finalizer))
        .map(warning)
        .collect()
}

/// Whether finalizers must have a domain. Custom resources, and kinds whose checks upstream are those of the common
/// library, accept any qualified name.
fn needs_qualified_finalizers(resource: &Resource) -> bool {
    !resource.is_custom() && !["apiextensions.k8s.io", "coordination.k8s.io"].contains(&resource.group.as_str())
}

/// Whether the finalizer has no domain and is none of Kubernetes.
fn is_unqualified(finalizer: &str) -> bool {
    !finalizer.contains('/') && !["orphan", "foregroundDeletion", "kubernetes"].contains(&finalizer)
}

fn validate_finalizers(
    metadata: &Map<String, Value>,
    old: Option<&Value>,
    qualified: bool,
    errors: &mut Vec<FieldError>,
) {
    let finalizers = texts(metadata.get("finalizers"));
    if ["orphan", "foregroundDeletion"]
        .iter()
        .all(|both| finalizers.contains(both))
    {
        let list = metadata.get("finalizers").cloned().unwrap_or_default();
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid("metadata.finalizers", list, why));
    }
    for (index, finalizer) in finalizers.iter().enumerate() {
        if !is_qualified_name(finalizer) {
            errors.push(FieldError::invalid(
                "metadata.finalizers",
                *finalizer,
                qualified_name_rule(finalizer),
            ));
        }
        if qualified && is_unqualified(finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(
                format!("metadata.finalizers[{index}]"),
                *finalizer,
                detail,
            ));
        }
    }
    let Some(old) = old.and_then(|old| old.get("metadata")) else {
        return;
    };
    if old.get("deletionTimestamp").is_none() {
        return;
    }
    let before = texts(old.get("finalizers"));
    let added: Vec<String> = finalizers
        .iter()
        .filter(|finalizer| !before.contains(finalizer))
        .map(|text| format!("{text:?}"))
        .collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        errors.push(FieldError::forbidden("metadata.finalizers", detail));
    }
}

fn validate_owners(metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let owners = metadata
        .get("ownerReferences")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut controllers: Vec<String> = Vec::new();
    for owner in owners {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        for (field, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(field).is_empty() {
                errors.push(FieldError::invalid(
                    format!("metadata.ownerReferences.{field}"),
                    "",
                    detail,
                ));
            }
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        errors.push(FieldError::invalid(
            "metadata.ownerReferences",
            Value::Array(owners.to_vec()),
            detail,
        ));
    }
}

/// The strings of an array.
pub fn texts(value: Option<&Value>) -> Vec<&str> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn object_members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}
