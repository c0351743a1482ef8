//! Checks of the fields that the scale subresource of a custom resource shows.

use serde_json::Value;

use crate::go;
use crate::resource::{Resource, Subresource};
use crate::status::FieldError;

/// The errors of an object's replicas and selector.
pub(crate) fn validate_scale(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for subresource in &resource.subresources {
        if let Subresource::Scale {
            spec_replicas,
            status_replicas,
            selector,
        } = subresource
        {
            validate_number(&mut errors, object, spec_replicas);
            validate_number(&mut errors, object, status_replicas);
            if let Some(path) = selector {
                validate_text(&mut errors, object, path);
            }
        }
    }
    errors
}

fn validate_number(errors: &mut Vec<FieldError>, object: &Value, path: &str) {
    let mut refuse = |number: i64, why: String| errors.push(FieldError::invalid(path, number, why));
    match value_at(object, path) {
        Err(why) => refuse(0, why),
        Ok(None) => {}
        Ok(Some(value)) => match value.as_i64() {
            None => refuse(0, mismatch(path, value, "int64")),
            Some(number) if number < 0 => refuse(number, "should be a non-negative integer".to_owned()),
            Some(number) if number > i64::from(i32::MAX) => {
                refuse(number, format!("should be less than or equal to {}", i32::MAX));
            }
            Some(_) => {}
        },
    }
}

fn validate_text(errors: &mut Vec<FieldError>, object: &Value, path: &str) {
    let why = match value_at(object, path) {
        Ok(Some(value)) if !value.is_string() => mismatch(path, value, "string"),
        Err(why) => why,
        Ok(_) => return,
    };
    errors.push(FieldError::invalid(path, "", why));
}

/// # Errors
/// If a part of the path is no object.
fn value_at<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let Some(map) = value.as_object() else {
            return Err(mismatch(path, value, "map[string]interface {}"));
        };
        match map.get(name) {
            Some(found) => value = found,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn mismatch(path: &str, value: &Value, wanted: &str) -> String {
    let (text, type_name) = (go::text(value), go::type_name(value));
    format!("{path} accessor error: {text} is of the type {type_name}, expected {wanted}")
}
