//! Webhooks, read from their configurations.

use serde_json::Value;

use super::expressions::{Conditions, Scope};
use super::policy::{ExpressionError, items, read_conditions, text};
use super::rules::Constraints;
use crate::network::Client;

/// A program that decides about requests.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    pub(crate) name: String,
    /// Whether an error of the call refuses the request.
    pub(crate) fails_closed: bool,
    pub(crate) constraints: Constraints,
    pub(crate) conditions: Conditions,
    /// Why its conditions cannot be evaluated.
    pub(crate) error: Option<String>,
    pub(crate) client: Client,
    /// In seconds.
    pub(crate) timeout: u64,
    /// Whether it is called again after a later webhook has changed the object.
    pub(crate) is_reinvoked: bool,
    /// The version of the review that it gets, `v1` or `v1beta1`.
    pub(crate) review_version: String,
}

impl Webhook {
    /// Reads the webhooks of a configuration, and the errors of their match conditions. With errors, each call fails.
    pub(crate) fn read_all(configuration: &Value) -> (Vec<Self>, Vec<ExpressionError>) {
        let mut errors = Vec::new();
        let hooks = items(configuration, "webhooks").enumerate();
        let hooks = hooks.map(|(index, hook)| Self::read(hook, &format!("webhooks[{index}]"), &mut errors));
        (hooks.collect(), errors)
    }

    fn read(hook: &Value, path: &str, errors: &mut Vec<ExpressionError>) -> Self {
        let known_errors = errors.len();
        let scope = Scope {
            params: false,
            namespace: false,
            authorizer: true,
            messages: false,
        };
        let conditions = read_conditions(hook, path, scope, errors);
        let versions = items(hook, "admissionReviewVersions").filter_map(Value::as_str);
        let known = versions.filter(|version| matches!(*version, "v1" | "v1beta1"));
        Self {
            name: text(hook, "name").to_owned(),
            fails_closed: text(hook, "failurePolicy") != "Ignore",
            constraints: Constraints::of_webhook(hook),
            conditions,
            error: errors.get(known_errors).map(ExpressionError::to_string),
            client: Client::read(hook.get("clientConfig").unwrap_or(&Value::Null)),
            timeout: hook.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(10),
            is_reinvoked: text(hook, "reinvocationPolicy") == "IfNeeded",
            review_version: known.into_iter().next().unwrap_or("v1").to_owned(),
        }
    }
}
