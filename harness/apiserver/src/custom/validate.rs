//! Validates definitions.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{approval, conversion, is_true, items, resources, text, texts};
use crate::jsonpath::JsonPath;
use crate::status::FieldError;
use crate::syntax::is_dns_subdomain;

const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

static LABEL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("^[a-z]([-a-z0-9]*[a-z0-9])?$").ok());

/// Validates a definition; `old` is the previous one on update.
pub fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(approval::validate(crd));
    validate_names(&mut errors, crd);
    let scope = text(crd, "/spec/scope");
    if scope.is_empty() {
        errors.push(FieldError::required("spec.scope", ""));
    } else if !matches!(scope, "Cluster" | "Namespaced") {
        errors.push(FieldError::not_supported(
            "spec.scope",
            scope,
            &["Cluster", "Namespaced"],
        ));
    }
    if is_true(crd, "/spec/preserveUnknownFields")
        && !old.is_some_and(|old| is_true(old, "/spec/preserveUnknownFields"))
    {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, why));
    }
    validate_versions(&mut errors, crd);
    conversion::validate(&mut errors, crd, old);
    if let Some(old) = old {
        validate_update(&mut errors, crd, old);
    }
    errors
}

fn validate_names(errors: &mut Vec<FieldError>, crd: &Value) {
    let (group, plural) = (text(crd, "/spec/group"), text(crd, "/spec/names/plural"));
    let name = text(crd, "/metadata/name");
    let expected = format!("{plural}.{group}");
    if name != expected {
        errors.push(FieldError::invalid(
            "metadata.name",
            name,
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !is_dns_subdomain(group) {
        errors.push(FieldError::invalid("spec.group", group, SUBDOMAIN));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            "spec.group",
            group,
            "should be a domain with at least one dot",
        ));
    }
    let kind = text(crd, "/spec/names/kind");
    let list_kind = text(crd, "/spec/names/listKind");
    let required = [
        ("plural", plural.to_owned()),
        ("singular", text(crd, "/spec/names/singular").to_owned()),
        ("kind", kind.to_lowercase()),
        ("listKind", list_kind.to_lowercase()),
    ];
    for (field, word) in required {
        let path = format!("spec.names.{field}");
        if word.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else {
            validate_label(errors, &path, &word);
        }
    }
    for list in ["shortNames", "categories"] {
        for (index, word) in texts(crd, &format!("/spec/names/{list}")).iter().enumerate() {
            validate_label(errors, &format!("spec.names.{list}[{index}]"), word);
        }
    }
    if !kind.is_empty() && kind == list_kind {
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            list_kind,
            "kind and listKind may not be the same",
        ));
    }
}

fn validate_label(errors: &mut Vec<FieldError>, path: &str, word: &str) {
    let good = word.len() <= 63 && LABEL.as_ref().is_some_and(|label| label.is_match(word));
    if !good {
        errors.push(FieldError::invalid(path, word, LABEL_1035));
    }
}

fn validate_versions(errors: &mut Vec<FieldError>, crd: &Value) {
    let versions = items(crd, "/spec/versions");
    let mut names: Vec<&str> = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = text(version, "/name");
        validate_label(errors, &format!("{path}.name"), name);
        if index == 0 && !name.is_empty() {
            // Upstream's internal form has the first version twice.
            validate_label(errors, "spec.version", name);
        }
        if names.contains(&name) {
            errors.push(FieldError::invalid(
                "spec.versions",
                name,
                "must contain unique version names",
            ));
        }
        names.push(name);
        if version.pointer("/schema/openAPIV3Schema").is_none_or(Value::is_null) {
            errors.push(FieldError::required(format!("{path}.schema.openAPIV3Schema"), ""));
        } else if let Err(found) = resources::compile(index, version) {
            errors.extend(found);
        }
        validate_columns(errors, version, &path);
        validate_paths(errors, version, &path);
    }
    let storages = versions.iter().filter(|version| is_true(version, "/storage")).count();
    if storages != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(
            "spec.versions",
            crd.pointer("/spec/versions").cloned().unwrap_or_default(),
            why,
        ));
    }
    let stored = texts(crd, "/status/storedVersions");
    if stored.is_empty() && storages == 0 {
        let why = "must have at least one stored version";
        errors.push(FieldError::invalid("status.storedVersions", Value::Null, why));
    }
    for (index, version) in stored
        .iter()
        .enumerate()
        .filter(|(_, version)| !names.contains(&version.as_str()))
    {
        let path = format!("status.storedVersions[{index}]");
        let why = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {version} and removes {version} from \
             status.storedVersions"
        );
        errors.push(FieldError::invalid(path, version.as_str(), why));
    }
}

fn validate_columns(errors: &mut Vec<FieldError>, version: &Value, path: &str) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    for (index, column) in items(version, "/additionalPrinterColumns").iter().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{index}]");
        if text(column, "/name").is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        match text(column, "/type") {
            "" => errors.push(FieldError::required(
                format!("{path}.type"),
                format!("must be one of {}", TYPES.join(",")),
            )),
            type_ if !TYPES.contains(&type_) => {
                let why = format!("must be one of {}", TYPES.join(","));
                errors.push(FieldError::invalid(format!("{path}.type"), type_, why));
            }
            _ => {}
        }
        match text(column, "/jsonPath") {
            "" => errors.push(FieldError::required(format!("{path}.jsonPath"), "")),
            json_path => {
                if let Err(error) = JsonPath::parse(json_path) {
                    errors.push(FieldError::invalid(
                        format!("{path}.jsonPath"),
                        json_path,
                        error.to_string(),
                    ));
                }
            }
        }
    }
}

/// Scale paths and selectable fields must be members joined by dots.
fn validate_paths(errors: &mut Vec<FieldError>, version: &Value, path: &str) {
    let mut check = |path: String, json_path: &str, root: Option<&str>| {
        let found = JsonPath::parse(json_path).ok().filter(JsonPath::is_plain);
        let Some(found) = found else {
            let why = "should be a simple json path without array notation";
            errors.push(FieldError::invalid(path, json_path, why));
            return;
        };
        let first = found.members().next().unwrap_or_default();
        if let Some(root) = root.filter(|root| *root != first) {
            errors.push(FieldError::invalid(
                path,
                json_path,
                format!("should be a json path under .{root}"),
            ));
        }
    };
    if let Some(scale) = version.pointer("/subresources/scale").filter(|scale| scale.is_object()) {
        let path = format!("{path}.subresources.scale");
        check(
            format!("{path}.specReplicasPath"),
            text(scale, "/specReplicasPath"),
            Some("spec"),
        );
        check(
            format!("{path}.statusReplicasPath"),
            text(scale, "/statusReplicasPath"),
            Some("status"),
        );
        let selector = text(scale, "/labelSelectorPath");
        if !selector.is_empty() {
            check(format!("{path}.labelSelectorPath"), selector, None);
        }
    }
    for (index, field) in items(version, "/selectableFields").iter().enumerate() {
        check(
            format!("{path}.selectableFields[{index}].jsonPath"),
            text(field, "/jsonPath"),
            None,
        );
    }
}

fn validate_update(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    for (pointer, path) in [
        ("/spec/group", "spec.group"),
        ("/spec/names/plural", "spec.names.plural"),
        ("/spec/names/kind", "spec.names.kind"),
        ("/spec/scope", "spec.scope"),
    ] {
        if text(new, pointer) != text(old, pointer) {
            errors.push(FieldError::invalid(path, text(new, pointer), "field is immutable"));
        }
    }
}
