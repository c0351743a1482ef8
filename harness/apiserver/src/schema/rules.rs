//! The rules of `x-kubernetes-validations`: compiled with the schema, evaluated if the object matches its schema.
//! Unchanged values are tolerated, unless the rule uses `oldSelf`.

use std::fmt;
use std::sync::Arc;

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, Validator, compile_schema};
use serde_json::Value;

use crate::status::{FieldError, FieldErrorType};

const KEY: &str = "x-kubernetes-validations";

/// All rules of a schema. Without rules a check has no cost.
#[derive(Clone, Default)]
pub(super) struct Rules(Option<Arc<Compiled>>);

struct Compiled {
    schema: CompiledSchema,
    /// The properties of the object that contain all rules. While they are unchanged, no rule has to be evaluated.
    /// `None`: a rule belongs to the object itself, or uses `oldSelf`, which is evaluated at each update.
    properties: Option<Vec<String>>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rules").field(&self.0.is_some()).finish()
    }
}

impl Rules {
    /// Compiles the rules.
    ///
    /// # Errors
    /// Each rule that is not valid CEL, with the path of its list.
    pub(super) fn compile(schema: &Value) -> Result<Self, Vec<FieldError>> {
        if !has_rules(schema) {
            return Ok(Self::default());
        }
        let compiled = compile_schema(schema);
        let mut errors = Vec::new();
        compile_errors(schema, &mut String::new(), &mut errors);
        if errors.is_empty() {
            Ok(Self(Some(Arc::new(Compiled {
                schema: compiled,
                properties: properties_with_rules(schema),
            }))))
        } else {
            Err(errors)
        }
    }

    /// The violations by an object that matches its schema.
    pub(super) fn check(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(compiled) = &self.0 else { return Vec::new() };
        if let (Some(properties), Some(old)) = (&compiled.properties, old)
            && properties.iter().all(|name| new.get(name) == old.get(name))
        {
            return Vec::new();
        }
        let Err(found) = Validator::new().validate_compiled(&compiled.schema, new, old) else {
            return Vec::new();
        };
        let mut found = found.into_vec();
        found.retain(|error| error.rule.contains("oldSelf") || !is_unchanged(&error.field_path, new, old));
        let mut errors: Vec<FieldError> = found.iter().map(|error| field_error(error, new)).collect();
        // The library visits fields in no fixed order.
        errors.sort_by(|a, b| (&a.field, &a.detail).cmp(&(&b.field, &b.detail)));
        errors
    }

    /// The note for an object that violates its schema, so that no rule was evaluated.
    pub(super) fn unchecked(&self, errors: &[FieldError]) -> Option<FieldError> {
        use FieldErrorType::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        let blocks =
            |error: &FieldError| matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid);
        let text = "some validation rules were not checked because the object was invalid; \
                    correct the existing errors to complete validation";
        (self.0.is_some() && errors.iter().any(blocks)).then(|| FieldError::invalid("<nil>", Value::Null, text))
    }
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key(KEY) || map.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

/// See [`Compiled::properties`].
fn properties_with_rules(schema: &Value) -> Option<Vec<String>> {
    let schema = schema.as_object()?;
    let elsewhere = schema
        .iter()
        .any(|(key, part)| key != "properties" && (key == KEY || has_rules(part)));
    if elsewhere || uses_old_value(schema.get("properties")?) {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    Some(
        properties
            .iter()
            .filter(|(_, schema)| has_rules(schema))
            .map(|(name, _)| name.clone())
            .collect(),
    )
}

/// Whether a rule, or the expression of a message, uses `oldSelf`. A description that mentions it only costs an evaluation.
fn uses_old_value(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.values().any(uses_old_value),
        Value::Array(items) => items.iter().any(uses_old_value),
        Value::String(text) => text.contains("oldSelf"),
        _ => false,
    }
}

/// Compiles one schema at a time to report the path of each rule that does not compile.
fn compile_errors(schema: &Value, path: &mut String, errors: &mut Vec<FieldError>) {
    let Value::Object(map) = schema else { return };
    for (index, rule) in map.get(KEY).and_then(Value::as_array).into_iter().flatten().enumerate() {
        let alone = compile_schema(&serde_json::json!({ "type": "object", KEY: [rule] }));
        for error in alone.compilation_errors() {
            let separator = if path.is_empty() { "" } else { "." };
            let field = format!("{path}{separator}{KEY}[{index}].rule");
            let detail = format!("compilation failed: {error}");
            errors.push(FieldError::invalid(
                field,
                rule.get("rule").cloned().unwrap_or_default(),
                detail,
            ));
        }
    }
    let length = path.len();
    let mut below = |path: &mut String, part: String, schema: &Value| {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&part);
        compile_errors(schema, path, errors);
        path.truncate(length);
    };
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        below(path, format!("properties[{name}]"), property);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(schema) = map.get(name) {
            below(path, name.to_owned(), schema);
        }
    }
}

/// Shows scalar values, but not objects and lists.
fn field_error(error: &ValidationError, object: &Value) -> FieldError {
    let shown = found(&error.field_path, object).filter(|value| !value.is_object() && !value.is_array());
    let kind = match error.reason.as_deref() {
        Some("FieldValueForbidden") => FieldErrorType::Forbidden,
        Some("FieldValueRequired") => FieldErrorType::Required,
        Some("FieldValueDuplicate") => FieldErrorType::Duplicate,
        _ => FieldErrorType::Invalid,
    };
    let detail = match error.kind {
        ErrorKind::ValidationFailure => error.message.clone(),
        _ => format!("rule evaluation error: {}", error.message),
    };
    let has_value = matches!(kind, FieldErrorType::Invalid | FieldErrorType::Duplicate);
    FieldError {
        kind,
        field: if error.field_path.is_empty() {
            "<nil>".to_owned()
        } else {
            error.field_path.clone()
        },
        value: shown.filter(|_| has_value).cloned(),
        detail,
    }
}

fn is_unchanged(path: &str, new: &Value, old: Option<&Value>) -> bool {
    old.is_some_and(|old| found(path, old).is_some() && found(path, old) == found(path, new))
}

/// The value at a path such as `spec.list[0].name`.
fn found<'a>(path: &str, object: &'a Value) -> Option<&'a Value> {
    let mut value = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (name, rest) = part.split_once('[').unwrap_or((part, ""));
        if !name.is_empty() {
            value = value.get(name)?;
        }
        for key in rest
            .split('[')
            .map(|key| key.trim_end_matches(']'))
            .filter(|key| !key.is_empty())
        {
            value = match key.parse::<usize>() {
                Ok(index) => value.get(index)?,
                Err(_) => value.get(key.trim_matches('"'))?,
            };
        }
    }
    Some(value)
}
