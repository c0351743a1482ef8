//! Checks of `spec.conversion`. The fields in errors are those of upstream's internal form.

use serde_json::Value;

use super::{items, text};
use crate::kinds;
use crate::network::Client;
use crate::status::FieldError;

const PATH: &str = "spec.conversion";
const BAD_BUNDLE: &str = "unable to load root certificates: unable to parse bytes as PEM block";

/// Sets the default strategy and the default port of the webhook's service.
pub(super) fn default(crd: &mut Value) {
    if crd.pointer("/spec/conversion").is_none_or(Value::is_null)
        && let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.insert("conversion".to_owned(), serde_json::json!({ "strategy": "None" }));
    }
    let service = crd.pointer_mut("/spec/conversion/webhook/clientConfig/service");
    if let Some(service) = service.and_then(Value::as_object_mut) {
        service.entry("port").or_insert_with(|| 443.into());
    }
}

/// Whether the certificates of the webhook can be read, or there are none.
pub(super) fn has_valid_bundle(crd: &Value) -> bool {
    let client = crd.pointer("/spec/conversion/webhook/clientConfig");
    client.is_none_or(|client| Client::read(client).has_valid_authorities())
}

/// Validates the conversion; `old` is the previous definition on update.
pub(super) fn validate(errors: &mut Vec<FieldError>, crd: &Value, old: Option<&Value>) {
    let Some(conversion) = crd
        .pointer("/spec/conversion")
        .filter(|conversion| conversion.is_object())
    else {
        return;
    };
    let strategy = text(conversion, "/strategy");
    match strategy {
        "" => errors.push(FieldError::required(format!("{PATH}.strategy"), "")),
        "None" | "Webhook" => {}
        other => errors.push(FieldError::not_supported(
            format!("{PATH}.strategy"),
            other,
            &["None", "Webhook"],
        )),
    }
    let webhook = conversion.get("webhook").filter(|webhook| webhook.is_object());
    let client = webhook
        .and_then(|webhook| webhook.get("clientConfig"))
        .filter(|client| client.is_object());
    let versions = webhook.map_or(&[] as &[Value], |webhook| items(webhook, "/conversionReviewVersions"));
    let client_path = format!("{PATH}.webhookClientConfig");
    let versions_path = format!("{PATH}.conversionReviewVersions");
    if strategy == "Webhook" {
        match client {
            None => errors.push(FieldError::required(
                client_path,
                "required when strategy is set to Webhook",
            )),
            Some(client) => {
                kinds::validate_webhook_client(errors, client, &client_path);
                // A new definition with such a bundle is not established.
                if !has_valid_bundle(crd) && old.is_some_and(has_valid_bundle) {
                    let bundle = format!("{client_path}.caBundle");
                    errors.push(FieldError::invalid(bundle, text(client, "/caBundle"), BAD_BUNDLE));
                }
            }
        }
        kinds::validate_review_versions(errors, versions, &versions_path, "");
        return;
    }
    let unused = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        errors.push(FieldError::forbidden(client_path, unused));
    }
    if !versions.is_empty() {
        errors.push(FieldError::forbidden(versions_path, unused));
    }
}
