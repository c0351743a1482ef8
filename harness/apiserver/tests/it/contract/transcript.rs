//! The requests and responses of a case, without values that differ between runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use regex::Regex;
use serde_json::{Map, Value};

/// The record of one case.
pub struct Transcript {
    text: String,
    /// The names of this run and their placeholders.
    names: Vec<(String, &'static str)>,
    revisions: BTreeMap<String, usize>,
    patterns: [(Regex, &'static str); 9],
    keeps_managers: bool,
}

impl Transcript {
    pub fn new(names: Vec<(String, &'static str)>) -> Self {
        let pattern = |text| Regex::new(text).unwrap();
        Self {
            text: String::new(),
            names,
            keeps_managers: false,
            revisions: BTreeMap::new(),
            patterns: [
                (
                    pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
                    "UID",
                ),
                (pattern(r"eyJ[\w-]+\.[\w-]+\.[\w-]+"), "JWT"),
                (pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
                (pattern(r#"("continue":\s*")[^"]+""#), "${1}TOKEN\""),
                (pattern(r"(resourceVersion=)\d{2,}"), "${1}REVISION"),
                (pattern(r#"(resourceVersion[\\"]+:[\\"]+)\d+"#), "${1}REVISION"),
                (pattern(r"(in record \()\d+\)"), "${1}REVISION)"),
                (pattern(r"(resource version: )\d+ \(\d+\)"), "${1}OLD (NEW)"),
                // The age in a table's cell: a slow server responds a second later.
                (pattern(r#"(?m)(^\s+|,)"\d+s""#), "${1}\"AGE\""),
            ],
        }
    }

    /// Keeps `managedFields` from now on.
    pub fn keep_managers(&mut self) {
        self.keeps_managers = true;
    }

    /// Replaces placeholders by the names of this run.
    pub fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, placeholder) in &self.names {
            text = text.replace(placeholder, name);
        }
        text
    }

    pub fn request(&mut self, line: &str) {
        let line = self.mask(line);
        writeln!(self.text, "> {line}").unwrap();
    }

    pub fn answer(&mut self, head: &str, body: &Value) {
        let mut body = body.clone();
        self.normalize(&mut body);
        let body = match &body {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => serde_json::to_string_pretty(other).unwrap(),
        };
        let (head, body) = (self.mask(head), self.mask(&body));
        writeln!(self.text, "{head}\n{body}").unwrap();
    }

    pub fn finish(self) -> String {
        self.text
    }

    fn mask(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, placeholder) in &self.names {
            text = text.replace(name, placeholder);
        }
        for (pattern, replacement) in &self.patterns {
            text = pattern.replace_all(&text, *replacement).into_owned();
        }
        text
    }

    /// Numbers revisions, removes repeated causes, and drops values that clients treat as absent, human-readable
    /// texts, and values that depend on server settings: field managers and a pod's default service account.
    fn normalize(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, value| !value.is_null());
                map.remove("description");
                if let Some(causes) = map.get_mut("causes").and_then(Value::as_array_mut) {
                    let mut seen = Vec::new();
                    causes.retain(|cause| {
                        !seen.contains(cause) && {
                            seen.push(cause.clone());
                            true
                        }
                    });
                    // Upstream lists conflicts in any order.
                    if causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict") {
                        causes.sort_by_key(Value::to_string);
                    }
                }
                if map.get("resourceVersion").and_then(Value::as_str) == Some("") {
                    map.remove("resourceVersion");
                }
                if map.get("continue").and_then(Value::as_str) == Some("") {
                    map.remove("continue");
                }
                if let Some(kind) = map.get("kind").and_then(Value::as_str)
                    && (kind.ends_with("List") || kind == "Table")
                {
                    self.hide_revision(map);
                }
                if map.get("type").and_then(Value::as_str) == Some("BOOKMARK")
                    && let Some(object) = map.get_mut("object").and_then(Value::as_object_mut)
                {
                    self.hide_revision(object);
                }
                for unkept in ["storageVersionHash", "serviceAccount", "serviceAccountName"] {
                    map.remove(unkept);
                }
                if !self.keeps_managers {
                    map.remove("managedFields");
                } else if let Some(managers) = map.get_mut("managedFields").and_then(Value::as_array_mut) {
                    // Servers sort them by time.
                    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
                    managers.sort_by_key(|entry| {
                        ["operation", "manager", "apiVersion", "subresource"].map(|name| text(entry, name))
                    });
                }
                if let Some(Value::String(revision)) = map.get_mut("resourceVersion")
                    && revision.parse::<u64>().is_ok()
                {
                    let next = self.revisions.len() + 1;
                    let number = *self.revisions.entry(revision.clone()).or_insert(next);
                    *revision = format!("r{number}");
                }
                for value in map.values_mut() {
                    self.normalize(value);
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.normalize(item);
                }
            }
            _ => {}
        }
    }

    /// A list's revision is that of the server, which other cases change too.
    fn hide_revision(&self, map: &mut Map<String, Value>) {
        if let Some(revision) = map
            .get_mut("metadata")
            .and_then(|metadata| metadata.get_mut("resourceVersion"))
        {
            *revision = "NOW".into();
        }
    }
}
