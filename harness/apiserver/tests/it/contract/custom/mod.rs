//! Custom resources in detail: schemas, rules, lists, selectable fields, changes of a definition.

use serde_json::{Value, json};

use super::contract;
use super::definitions::version;
use super::site::{Site, WIDGETS, with};

mod changes;
mod fields;
mod lifecycle;
mod lists;
mod ratcheting;
mod rules;

/// A schema whose `spec` is an object of these properties.
fn schema(properties: Value) -> Value {
    json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": properties } } })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

/// The causes of an error in a fixed order: a real server checks maps in any order.
fn causes(body: &Value) -> Vec<String> {
    let causes = body["details"]["causes"].as_array().into_iter().flatten();
    let mut causes: Vec<String> = causes
        .map(|cause| {
            let text = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}: {}", text("reason"), text("field"), text("message"))
        })
        .collect();
    causes.sort();
    causes.dedup();
    causes
}

/// Sends a body in a dry run and records its code and causes.
async fn checked(site: &Site, what: &str, method: &str, path: &str, body: Value) {
    let headers: &[(&str, &str)] = match method {
        "PATCH" => &[("content-type", "application/merge-patch+json")],
        _ => &[],
    };
    let answer = site.quietly(method, &format!("{path}?dryRun=All"), headers, body).await;
    let causes = causes(&answer.body);
    let message = match (causes.is_empty(), answer.body["message"].as_str()) {
        (true, Some(message)) => message,
        _ => "",
    };
    site.note(&format!("{what}: {} {message}", answer.code));
    for cause in causes {
        site.note(&format!("  {cause}"));
    }
}

/// Updates the widget `a` to each of these specs in dry runs.
async fn updates(site: &Site, specs: &[Value]) {
    let path = format!("{WIDGETS}/a");
    for spec in specs {
        checked(site, &spec.to_string(), "PATCH", &path, json!({ "spec": spec })).await;
    }
}

/// Creates widgets of these specs in dry runs.
async fn specs(site: &Site, specs: &[Value]) {
    for spec in specs {
        checked(site, &spec.to_string(), "POST", WIDGETS, widget("a", spec.clone())).await;
    }
}
