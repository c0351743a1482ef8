//! Secrets, ConfigMaps and ServiceAccounts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, is_set, members, object, same, text};
use super::syntax;
use crate::resource::{Resource, Subresource};
use crate::status::{FieldError, FieldErrorType};
use crate::table::printers;
use quantity::Saturating as _;

/// The maximum size of all data together, in bytes.
const DATA_LIMIT: usize = 1024 * 1024;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new("v1", "Secret", "secrets", "io.k8s.api.core.v1.Secret")
            .selectable("type", "/type", "")
            .printer(printers::secrets())
            .prepare(prepare_secret)
            .validate(validate_secret)
            .build(),
        ResourceBuilder::new("v1", "ConfigMap", "configmaps", "io.k8s.api.core.v1.ConfigMap")
            .short(&["cm"])
            .printer(printers::config_maps())
            .validate(validate_config_map)
            .build(),
        ResourceBuilder::new(
            "v1",
            "ServiceAccount",
            "serviceaccounts",
            "io.k8s.api.core.v1.ServiceAccount",
        )
        .short(&["sa"])
        .subresource(Subresource::Token)
        .returns_deleted()
        .printer(printers::service_accounts())
        .build(),
    ]
}

/// `stringData` is write-only: its entries move to `data`.
fn prepare_secret(new: &mut Value, _old: Option<&Value>) {
    default(new, "", "type", "Opaque");
    let Some(texts) = new.as_object_mut().and_then(|secret| secret.remove("stringData")) else {
        return;
    };
    let Value::Object(texts) = texts else { return };
    if texts.is_empty() {
        return;
    }
    if let Some(data) = object(new, "/data") {
        for (key, text) in texts {
            data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }
}

fn validate_secret(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut length = 0;
    for (key, value) in members(new, "/data") {
        let path = format!("data[{key}]");
        syntax::configuration_key(&mut errors, &path, key);
        length.raise(decoded_length(&mut errors, &path, value));
    }
    if length > DATA_LIMIT {
        errors.push(too_long("data"));
    }
    let required = |errors: &mut Vec<FieldError>, key: &str| {
        if new.get("data").and_then(|data| data.get(key)).is_none() {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    };
    match text(new, "/type") {
        "kubernetes.io/service-account-token" => {
            const ANNOTATION: &str = "kubernetes.io/service-account.name";
            let annotations = new.pointer("/metadata/annotations");
            if !is_set(annotations.and_then(|annotations| annotations.get(ANNOTATION))) {
                errors.push(FieldError::required(format!("metadata.annotations[{ANNOTATION}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => required(&mut errors, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => required(&mut errors, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if members(new, "/data").all(|(key, _)| key != "username" && key != "password") => {
            required(&mut errors, "username");
            required(&mut errors, "password");
        }
        "kubernetes.io/ssh-auth" => required(&mut errors, "ssh-privatekey"),
        "kubernetes.io/tls" => {
            required(&mut errors, "tls.crt");
            required(&mut errors, "tls.key");
        }
        _ => {}
    }
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/type");
        validate_immutable_flag(&mut errors, new, old, &["data"]);
    }
    errors
}

fn decoded_length(errors: &mut Vec<FieldError>, path: &str, value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    match STANDARD.decode(text) {
        Ok(bytes) => bytes.len(),
        Err(error) => {
            errors.push(FieldError::invalid(path, text, format!("not base64: {error}")));
            0
        }
    }
}

fn validate_config_map(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut length = 0;
    for (key, value) in members(new, "/data") {
        syntax::configuration_key(&mut errors, &format!("data[{key}]"), key);
        if members(new, "/binaryData").any(|(other, _)| other == key) {
            errors.push(FieldError::invalid(
                format!("data[{key}]"),
                key,
                "duplicate of key present in binaryData",
            ));
        }
        length.raise(value.as_str().map_or(0, str::len));
    }
    for (key, value) in members(new, "/binaryData") {
        let path = format!("binaryData[{key}]");
        syntax::configuration_key(&mut errors, &path, key);
        length.raise(decoded_length(&mut errors, &path, value));
    }
    if length > DATA_LIMIT {
        errors.push(too_long("[]"));
    }
    if let Some(old) = old {
        validate_immutable_flag(&mut errors, new, old, &["data", "binaryData"]);
    }
    errors
}

fn validate_immutable_flag(errors: &mut Vec<FieldError>, new: &Value, old: &Value, fields: &[&str]) {
    const WHY: &str = "field is immutable when `immutable` is set";
    let is_frozen = |object: &Value| object.get("immutable").and_then(Value::as_bool) == Some(true);
    if !is_frozen(old) {
        return;
    }
    if !is_frozen(new) {
        errors.push(FieldError::forbidden("immutable", WHY));
    }
    for field in fields {
        if !same(new.get(field), old.get(field)) {
            errors.push(FieldError::forbidden(*field, WHY));
        }
    }
}

fn too_long(field: &str) -> FieldError {
    FieldError {
        kind: FieldErrorType::TooLong,
        field: field.to_owned(),
        value: None,
        detail: format!("may not be more than {DATA_LIMIT} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn string_data_overrides_data_and_is_not_stored() {
        let mut secret = json!({ "data": { "a": "b2xk", "b": "Yg==" }, "stringData": { "a": "new" } });
        prepare_secret(&mut secret, None);
        assert_eq!(
            secret,
            json!({ "type": "Opaque", "data": { "a": "bmV3", "b": "Yg==" } })
        );
    }

    #[rstest]
    #[case(json!({ "type": "Opaque", "data": { "a": "Yg==" } }), &[])]
    #[case(json!({ "type": "kubernetes.io/tls", "data": { "tls.crt": "" } }), &["data[tls.key]: Required value"])]
    #[case(
        json!({ "type": "kubernetes.io/service-account-token" }),
        &["metadata.annotations[kubernetes.io/service-account.name]: Required value"]
    )]
    fn secrets_have_the_keys_that_their_type_requires(#[case] secret: Value, #[case] expected: &[&str]) {
        let errors: Vec<String> = validate_secret(&secret, None).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn an_immutable_secret_does_not_change() {
        let old = json!({ "type": "Opaque", "immutable": true, "data": { "a": "Yg==" } });
        let new = json!({ "type": "Opaque", "data": { "a": "YQ==" } });
        let fields: Vec<String> = validate_secret(&new, Some(&old))
            .into_iter()
            .map(|error| error.field)
            .collect();
        assert_eq!(fields, ["immutable", "data"]);
    }

    #[test]
    fn data_is_limited_to_one_mebibyte() {
        let full = json!({ "data": { "a": "x".repeat(DATA_LIMIT) } });
        assert_eq!(validate_config_map(&full, None), []);
        let over = json!({ "data": { "a": "x".repeat(DATA_LIMIT), "b": "x" } });
        assert_eq!(validate_config_map(&over, None), [too_long("[]")]);
    }
}
