//! The admin endpoint for fault rules: `/drydock/faults`.
//!
//! Only members of `system:masters` have access, regardless of roles: permissions in the cluster must not control
//! faults of the server.

use http::Response;
use serde_json::{Value, json};

use super::{Body, Exchange, json_response, no_such_path};
use crate::faults::{self, Status};
use crate::status::ApiError;

const MASTERS: &str = "system:masters";

/// Handles a request for all rules, or for the rule with that name.
pub(super) fn serve(exchange: &Exchange<'_>, name: Option<&str>) -> Result<Response<Body>, ApiError> {
    if !exchange.caller.groups.iter().any(|group| group == MASTERS) {
        return Err(ApiError::new(
            403,
            "Forbidden",
            format!(
                "User {:?} cannot see or change fault rules: use an identity of the group {MASTERS}, as the \
                 kubeconfig of `drydock up` has",
                exchange.caller.user
            ),
        ));
    }
    let rules = &exchange.server.faults;
    match (exchange.method.as_str(), name) {
        ("GET" | "HEAD", None) => Ok(answer(exchange, 200, &rules.list())),
        ("GET" | "HEAD", Some(name)) => {
            let found: Vec<Status> = rules
                .list()
                .into_iter()
                .filter(|status| status.rule.name == name)
                .collect();
            if found.is_empty() {
                return Err(not_found(name));
            }
            Ok(answer(exchange, 200, &found))
        }
        ("POST", None) => {
            let text = std::str::from_utf8(exchange.body)
                .map_err(|error| ApiError::bad_request(format!("the rules are not UTF-8: {error}")))?;
            let added = faults::parse(text).map_err(|error| invalid(&error.to_string()))?;
            let names: Vec<String> = added.iter().map(|rule| rule.name.clone()).collect();
            rules.add_all(added).map_err(|error| invalid(&error.to_string()))?;
            let added: Vec<Status> = rules
                .list()
                .into_iter()
                .filter(|status| names.contains(&status.rule.name))
                .collect();
            Ok(answer(exchange, 201, &added))
        }
        ("DELETE", None) => Ok(answer(exchange, 200, &rules.clear())),
        ("DELETE", Some(name)) => match rules.remove(name) {
            Some(removed) => Ok(answer(exchange, 200, &[removed])),
            None => Err(not_found(name)),
        },
        _ => Err(ApiError::new(
            405,
            "MethodNotAllowed",
            format!(
                "fault rules know GET, POST and DELETE, not {} at this address",
                exchange.method
            ),
        )),
    }
}

fn answer(exchange: &Exchange<'_>, code: u16, rules: &[Status]) -> Response<Body> {
    let rules = serde_json::to_value(rules).unwrap_or(Value::Null);
    json_response(code, exchange.presentation.value(&json!({ "rules": rules })))
}

fn not_found(name: &str) -> ApiError {
    ApiError {
        message: format!("there is no fault rule {name:?}; `drydock faults list` shows them"),
        ..no_such_path()
    }
}

fn invalid(message: &str) -> ApiError {
    ApiError::new(422, "Invalid", message)
}
