//! Reviews of identities and permissions. The server answers them without storing them.

use serde_json::{Value, json};

use super::Exchange;
use super::body::decode;
use crate::authorization::{Action, ResourceAction, Rule};
use crate::identity::Identity;
use crate::registry::{Entry, check_review, time_text};
use crate::resource::Shape;
use crate::status::{ApiError, FieldError};
use crate::types;

const AUTHORIZATION: &str = "authorization.k8s.io";

/// The response to a review of that kind.
///
/// # Errors
/// 400 and 422 for an empty or invalid review.
pub(super) fn answer(exchange: &Exchange<'_>, entry: &Entry, namespace: &str) -> Result<Value, ApiError> {
    let mut review = decode(exchange.headers, exchange.body, false, None)?;
    check_review(&entry.resource.group, &entry.resource.kind, &review)?;
    if let Shape::BuiltIn(name) = &entry.resource.shape {
        types::check(name, &mut review)?;
    }
    let kind = entry.resource.kind.as_str();
    if !review["spec"].is_object() {
        review["spec"] = json!({});
    }
    let mut metadata = json!({});
    let spec = &review["spec"];
    let status = match kind {
        "SelfSubjectReview" => {
            metadata = json!({ "creationTimestamp": time_text(exchange.now) });
            json!({ "userInfo": exchange.caller.info() })
        }
        "TokenReview" => review_token(exchange, spec)?,
        "SelfSubjectRulesReview" => {
            let status = rules(exchange, spec)?;
            review["spec"] = json!({});
            status
        }
        "SelfSubjectAccessReview" => {
            let question = question(spec)?;
            access(exchange, exchange.caller, &question)
        }
        _ => {
            let who = subject(spec)?;
            let question = question(spec)?;
            if kind == "LocalSubjectAccessReview" {
                metadata = json!({ "namespace": namespace });
                check_local(&review, namespace)?;
            }
            access(exchange, &who, &question)
        }
    };
    let mut answer = json!({
        "kind": kind, "apiVersion": entry.resource.api_version(), "metadata": metadata, "status": status,
    });
    if kind != "SelfSubjectReview" {
        answer["spec"] = review["spec"].take();
    }
    Ok(answer)
}

fn review_token(exchange: &Exchange<'_>, spec: &Value) -> Result<Value, ApiError> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    Ok(match exchange.server.owner(token, &texts(&spec["audiences"])) {
        Ok(owner) => json!({
            "authenticated": true, "user": owner.identity.info(), "audiences": owner.audiences,
        }),
        Err(error) => json!({ "user": {}, "error": error.to_string() }),
    })
}

fn rules(exchange: &Exchange<'_>, spec: &Value) -> Result<Value, ApiError> {
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let server = exchange.server;
    let (rules, missing) = server
        .authorizer
        .rules(server.registry.store(), exchange.caller, namespace);
    let of = |paths: bool| -> Vec<Value> {
        let chosen = rules.iter().filter(|rule| {
            if paths {
                !rule.paths.is_empty()
            } else {
                !rule.resources.is_empty()
            }
        });
        chosen.map(Rule::to_value).collect()
    };
    let mut status = json!({ "resourceRules": of(false), "nonResourceRules": of(true), "incomplete": false });
    if !missing.is_empty() {
        status["evaluationError"] = missing.join(", ").into();
    }
    Ok(status)
}

fn access(exchange: &Exchange<'_>, who: &Identity, question: &Action) -> Value {
    let server = exchange.server;
    let decision = server.authorizer.explain(server.registry.store(), who, question);
    let mut status = json!({ "allowed": decision.allowed });
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    status
}

/// The action that a review asks about.
fn question(spec: &Value) -> Result<Action, ApiError> {
    let part = |field: &str| spec.get(field).filter(|part| part.is_object());
    match (part("resourceAttributes"), part("nonResourceAttributes")) {
        (Some(attributes), None) => {
            let text = |field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
            Ok(Action::Resource(ResourceAction {
                verb: text("verb"),
                group: text("group"),
                resource: text("resource"),
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
            }))
        }
        (None, Some(attributes)) => {
            let text = |field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
            Ok(Action::Path {
                verb: text("verb"),
                path: text("path"),
            })
        }
        (None, None) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            Err(invalid("spec.resourceAttributes", Value::Null, detail))
        }
        (Some(_), Some(path)) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            Err(invalid("spec.nonResourceAttributes", shown(path), detail))
        }
    }
}

/// The attributes of a path as Go formats them in messages.
fn shown(attributes: &Value) -> Value {
    json!({ "Path": attributes["path"], "Verb": attributes["verb"] })
}

/// Upstream omits the kind in errors of reviews.
fn invalid(field: &str, value: impl Into<Value>, detail: &str) -> ApiError {
    ApiError::invalid(AUTHORIZATION, "", "", &[FieldError::invalid(field, value, detail)])
}

/// The identity that a review asks about.
fn subject(spec: &Value) -> Result<Identity, ApiError> {
    let mut who = Identity::user(spec["user"].as_str().unwrap_or_default());
    who.groups = texts(&spec["groups"]);
    who.uid = spec["uid"].as_str().unwrap_or_default().to_owned();
    for (key, values) in spec["extra"].as_object().into_iter().flatten() {
        who.extra.insert(key.clone(), texts(values));
    }
    if who.user.is_empty() && who.groups.is_empty() {
        return Err(invalid(
            "spec.user",
            "",
            "at least one of user or group must be specified",
        ));
    }
    Ok(who)
}

/// Checks that a local review asks about its own namespace.
fn check_local(review: &Value, namespace: &str) -> Result<(), ApiError> {
    if let Some(path) = review
        .pointer("/spec/nonResourceAttributes")
        .filter(|path| path.is_object())
    {
        let detail = "disallowed on this kind of request";
        return Err(invalid("spec.nonResourceAttributes", shown(path), detail));
    }
    let requested = review
        .pointer("/spec/resourceAttributes/namespace")
        .and_then(Value::as_str);
    let requested = requested.unwrap_or_default();
    if requested == namespace {
        return Ok(());
    }
    Err(invalid(
        "spec.resourceAttributes.namespace",
        requested,
        "must match metadata.namespace",
    ))
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
