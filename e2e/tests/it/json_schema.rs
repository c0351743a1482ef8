//! A validator for the part of JSON Schema that the generator of our schemas uses. Libraries for all of it enable features of
//! `serde_json` that the products do not have. An unknown keyword fails.

use serde_json::Value;

/// Keywords that do not restrict values.
const ANNOTATIONS: [&str; 8] = [
    "$schema",
    "default",
    "definitions",
    "description",
    "examples",
    "format",
    "pattern",
    "title",
];

/// A schema.
pub struct Validator(Value);

impl Validator {
    pub fn new(schema: Value) -> Self {
        Self(schema)
    }

    /// Why a document is not valid; empty: it is.
    pub fn errors(&self, document: &Value) -> Vec<String> {
        self.check(&self.0, document, "")
    }

    fn check(&self, schema: &Value, value: &Value, path: &str) -> Vec<String> {
        let Some(keywords) = schema.as_object() else {
            return wrong(*schema != Value::Bool(false), path, "is not allowed");
        };
        let mut errors = Vec::new();
        for (keyword, rule) in keywords {
            let valid = |schema: &&Value| self.check(schema, value, path).is_empty();
            let matching = || rule.as_array().unwrap().iter().filter(valid).count();
            errors.extend(match keyword.as_str() {
                "$ref" => {
                    let target = rule.as_str().unwrap().strip_prefix('#').unwrap();
                    self.check(self.0.pointer(target).unwrap(), value, path)
                }
                "type" => wrong(has_type(rule, value), path, &format!("is not of type {rule}: {value}")),
                "enum" => wrong(
                    rule.as_array().unwrap().contains(value),
                    path,
                    &format!("{value} is none of {rule}"),
                ),
                "const" => wrong(rule == value, path, &format!("{value} is not {rule}")),
                "allOf" => {
                    let all = rule.as_array().unwrap().iter();
                    all.flat_map(|part| self.check(part, value, path)).collect()
                }
                "anyOf" => wrong(matching() > 0, path, &format!("{value} matches nothing")),
                "oneOf" => wrong(
                    matching() == 1,
                    path,
                    &format!("{value} matches {} variants", matching()),
                ),
                "minimum" => wrong(is_from(value.as_f64(), rule), path, &format!("{value} is below {rule}")),
                "maximum" => wrong(is_to(value.as_f64(), rule), path, &format!("{value} is above {rule}")),
                "minItems" => wrong(is_from(count(value), rule), path, "has too few items"),
                "maxItems" => wrong(is_to(count(value), rule), path, "has too many items"),
                "uniqueItems" => Vec::new(),
                "items" => {
                    let items = value.as_array().into_iter().flatten().enumerate();
                    items
                        .flat_map(|(index, item)| self.check(rule, item, &format!("{path}/{index}")))
                        .collect()
                }
                "required" => {
                    let required = rule.as_array().unwrap().iter().filter_map(Value::as_str);
                    let is_missing = |field: &&str| value.is_object() && value.get(field).is_none();
                    let missing = required.filter(is_missing);
                    missing.map(|field| format!("{path}: {field} is missing")).collect()
                }
                "properties" | "additionalProperties" => self.check_fields(keywords, keyword, value, path),
                other => {
                    assert!(ANNOTATIONS.contains(&other), "the keyword {other} is not supported");
                    Vec::new()
                }
            });
        }
        // The texts of durations.
        if let (Some(_), Some(text)) = (keywords.get("pattern"), value.as_str()) {
            errors.extend(wrong(
                text.parse::<mcm_api::GoDuration>().is_ok(),
                path,
                &format!("{text:?} is no duration"),
            ));
        }
        errors
    }

    fn check_fields(
        &self,
        keywords: &serde_json::Map<String, Value>,
        keyword: &str,
        value: &Value,
        path: &str,
    ) -> Vec<String> {
        let known = keywords.get("properties").and_then(Value::as_object);
        let fields = value.as_object().into_iter().flatten();
        let checked = fields.flat_map(|(name, field)| {
            let path = format!("{path}/{name}");
            match (known.and_then(|known| known.get(name)), keyword) {
                (Some(schema), "properties") => self.check(schema, field, &path),
                (None, "additionalProperties") => self.check(&keywords[keyword], field, &path),
                _ => Vec::new(),
            }
        });
        checked.collect()
    }
}

fn wrong(valid: bool, path: &str, message: &str) -> Vec<String> {
    if valid {
        Vec::new()
    } else {
        vec![format!("{path}: {message}")]
    }
}

fn has_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("unknown type {other}"),
    };
    match rule {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    }
}

/// What is no number satisfies every bound.
fn is_from(number: Option<f64>, minimum: &Value) -> bool {
    number.is_none_or(|number| number >= minimum.as_f64().unwrap())
}

fn is_to(number: Option<f64>, maximum: &Value) -> bool {
    number.is_none_or(|number| number <= maximum.as_f64().unwrap())
}

fn count(value: &Value) -> Option<f64> {
    value.as_array().map(|items| items.len() as f64)
}
