//! The differences of two responses, without values that differ between any two servers.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::server::Answer;

/// A difference, and the class that it belongs to.
pub struct Difference {
    pub class: String,
    pub embedded: Value,
    pub real: Value,
}

impl Difference {
    /// Whether only warnings differ.
    pub fn is_warning(&self) -> bool {
        self.class.starts_with("warnings: ")
    }

    fn new(class: String, embedded: Value, real: Value) -> Self {
        Self { class, embedded, real }
    }
}

/// A pattern that the code contains; `None` would be a mistake in it.
type Pattern = Option<Regex>;

fn pattern(text: &str) -> Pattern {
    Regex::new(text).ok()
}

fn replaced(pattern: &Pattern, text: &str, by: &str) -> String {
    match pattern {
        Some(pattern) => pattern.replace_all(text, by).into_owned(),
        None => text.to_owned(),
    }
}

/// Compares the responses to a creation.
pub fn answers(embedded: &Answer, real: &Answer) -> Vec<Difference> {
    let mut found = match (embedded.code < 300, real.code < 300) {
        (true, true) => objects(&embedded.body, &real.body),
        (true, false) => vec![Difference::new(
            format!("accepted here, refused by kube-apiserver: {}", first_cause(&real.body)),
            Value::Null,
            real.body.clone(),
        )],
        (false, true) => vec![Difference::new(
            format!(
                "refused here, accepted by kube-apiserver: {}",
                first_cause(&embedded.body)
            ),
            embedded.body.clone(),
            Value::Null,
        )],
        (false, false) => errors(&embedded.body, &real.body),
    };
    if embedded.warnings != real.warnings {
        let (here, there) = (json!(embedded.warnings), json!(real.warnings));
        let differing = |own: &[String], other: &[String]| {
            let differing = own.iter().find(|warning| !other.contains(warning));
            differing.map_or("-".to_owned(), |warning| without_values(warning))
        };
        let class = format!(
            "warnings: {} here, {} by kube-apiserver",
            differing(&embedded.warnings, &real.warnings),
            differing(&real.warnings, &embedded.warnings)
        );
        found.push(Difference::new(class, here, there));
    }
    found
}

/// Compares established definitions.
pub fn definitions(embedded: &Answer, real: &Answer) -> Vec<Difference> {
    objects(&embedded.body, &real.body)
}

/// The causes of an error, as upstream reports them in any order and any number of times.
fn causes(status: &Value) -> BTreeSet<String> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    causes.map(Value::to_string).collect()
}

fn errors(embedded: &Value, real: &Value) -> Vec<Difference> {
    let difference = |what: &str| {
        let class = format!(
            "{what}: {} here, {} by kube-apiserver",
            first_cause(embedded),
            first_cause(real)
        );
        vec![Difference::new(class, embedded.clone(), real.clone())]
    };
    if embedded["code"] != real["code"] || embedded["reason"] != real["reason"] {
        return difference("another reason of the refusal");
    }
    let (here, there) = (causes(embedded), causes(real));
    if here != there {
        let only = |own: &BTreeSet<String>, other: &BTreeSet<String>| {
            let cause = own.difference(other).next();
            cause.map_or("-".to_owned(), |cause| without_values(cause))
        };
        let class = format!(
            "other causes of the refusal: {} here, {} by kube-apiserver",
            only(&here, &there),
            only(&there, &here)
        );
        return vec![Difference::new(class, embedded.clone(), real.clone())];
    }
    if here.is_empty() && embedded["message"] != real["message"] {
        return difference("another message of the refusal");
    }
    Vec::new()
}

/// The first cause of an error without its values.
fn first_cause(status: &Value) -> String {
    let cause = &status["details"]["causes"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (field, message) = match cause.is_object() {
        true => (text(&cause["field"]), text(&cause["message"])),
        false => (text(&status["reason"]), text(&status["message"])),
    };
    format!("{} {}", without_values(&field), without_values(&message))
}

fn without_values(text: &str) -> String {
    static QUOTED: LazyLock<Pattern> = LazyLock::new(|| pattern(r#"\\?"[^"]*""#));
    static KEYS: LazyLock<Pattern> = LazyLock::new(|| pattern(r"\[[^\]]*\]"));
    static NUMBERS: LazyLock<Pattern> = LazyLock::new(|| pattern(r"\b\d+\b"));
    let text = replaced(&KEYS, text, "[]");
    let text = replaced(&QUOTED, &text, "\"…\"");
    let text = replaced(&NUMBERS, &text, "N");
    text.chars().take(200).collect()
}

fn objects(embedded: &Value, real: &Value) -> Vec<Difference> {
    let (mut here, mut there) = (embedded.clone(), real.clone());
    let kind = real["kind"].as_str().unwrap_or_default();
    normalize(&mut here, true, kind == "Pod");
    normalize(&mut there, true, kind == "Pod");
    let mut found = Vec::new();
    differences(kind, String::new(), &here, &there, &mut found);
    found
}

fn differences(kind: &str, path: String, here: &Value, there: &Value, found: &mut Vec<Difference>) {
    match (here, there) {
        _ if here == there => {}
        (Value::Object(own), Value::Object(other)) => {
            let names: BTreeSet<&String> = own.keys().chain(other.keys()).collect();
            for name in names {
                let (own, other) = (own.get(name), other.get(name));
                let name = if name.contains('.') { "*" } else { name };
                let path = format!("{path}.{name}");
                let null = &Value::Null;
                differences(kind, path, own.unwrap_or(null), other.unwrap_or(null), found);
            }
        }
        (Value::Array(own), Value::Array(other)) if own.len() == other.len() => {
            for (own, other) in own.iter().zip(other) {
                differences(kind, format!("{path}[]"), own, other, found);
            }
        }
        _ => {
            let what = match (here, there) {
                (Value::Null, _) => "absent here",
                (_, Value::Null) => "absent in kube-apiserver",
                _ => "other value",
            };
            let class = format!("stored object: {kind}{path}: {what}");
            found.push(Difference::new(class, here.clone(), there.clone()));
        }
    }
}

/// Removes what the server assigns.
fn normalize(value: &mut Value, is_root: bool, is_pod: bool) {
    static UID: LazyLock<Pattern> =
        LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
    match value {
        Value::Object(map) => {
            let generated = map
                .get("metadata")
                .filter(|metadata| metadata["generateName"].is_string());
            let generated = generated
                .and_then(|metadata| metadata["name"].as_str())
                .map(str::to_owned);
            if let Some(name) = generated.filter(|_| is_root) {
                let mut text = Value::Object(std::mem::take(map)).to_string();
                text = text.replace(&format!("{name:?}"), "\"GENERATED\"");
                if let Ok(Value::Object(replaced)) = serde_json::from_str(&text) {
                    *map = replaced;
                }
            }
            if is_root && let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
                for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
                    metadata.remove(field);
                }
                if metadata.contains_key("generateName") {
                    metadata.remove("name");
                }
            }
            map.retain(|name, value| {
                let is_assigned = match name.as_str() {
                    "clusterIP" | "clusterIPs" => value != "None" && *value != json!(["None"]),
                    "nodePort" | "healthCheckNodePort" | "lastTransitionTime" => true,
                    _ => false,
                };
                // Go writes null for some empty lists.
                !is_assigned && !value.is_null() && *value != json!([])
            });
            if map.contains_key("signerName") {
                // Who sends the request.
                for name in ["username", "uid", "groups", "extra"] {
                    map.remove(name);
                }
            }
            // The admission plugin ServiceAccount sets it, which the real server runs without.
            for name in ["serviceAccount", "serviceAccountName"] {
                if is_pod && map.get(name) == Some(&json!("default")) {
                    map.remove(name);
                }
            }
            map.values_mut().for_each(|value| normalize(value, false, is_pod));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalize(item, false, is_pod)),
        Value::String(text) => *text = replaced(&UID, text, "UID"),
        _ => {}
    }
}
