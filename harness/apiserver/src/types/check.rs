//! Checks an object of a built-in type against the table, as upstream's JSON decoder does: drops and reports unknown
//! fields, and rejects the whole object for a value of the wrong JSON type.

use super::bytes;
use quantity::Quantity;
use serde_json::{Map, Value};

use super::path::Path;
use super::paths::Paths;
use super::table::{Form, Shape, Type, table};
use super::time;
use crate::status::ApiError;

/// Removes unknown fields and returns the first hundred paths (`spec.containers[0].bar`), ordered by key. Also removes
/// nulls, which mean absent fields. Values of unknown types pass.
///
/// # Errors
/// 400 for a value of the wrong JSON type, or for text that is not a valid time, quantity or base64 value.
pub fn check(type_name: &str, value: &mut Value) -> Result<Vec<String>, ApiError> {
    let mut unknown = Paths::default();
    let Some(type_) = table().find(type_name) else {
        return Ok(Vec::new());
    };
    check_type(type_, value, Path::Root, &mut unknown).map_err(|error| {
        let kind = type_.short_name();
        let api_version = type_.kind.map_or("v1", |(api_version, _)| api_version);
        let version = api_version.rsplit('/').next().unwrap_or(api_version);
        ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
        ))
    })?;
    Ok(unknown.into_texts())
}

type Checked = Result<(), String>;

fn check_type(type_: &Type, value: &mut Value, path: Path<'_>, unknown: &mut Paths) -> Checked {
    match type_.form {
        Form::Object => match value {
            Value::Object(map) => check_fields(type_, map, path, unknown),
            Value::Null => {
                *value = Value::Object(Map::new());
                Ok(())
            }
            other => Err(mismatch(other, &go_name(type_), path)),
        },
        Form::Quantity => match value {
            Value::String(text) => text
                .trim()
                .parse::<Quantity>()
                .map(|_| ())
                .map_err(|_| quantity::REFUSAL.to_owned()),
            Value::Number(_) => Ok(()),
            _ => Err(quantity::REFUSAL.to_owned()),
        },
        Form::IntOrString => match value {
            Value::String(_) => Ok(()),
            Value::Number(number) if fits_int32(number) => Ok(()),
            other => Err(mismatch(other, "int32", path)),
        },
        Form::MicroTime => match value {
            Value::Null => Ok(()),
            Value::String(text) => time::check_micros(text),
            other => Err(mismatch(other, "string", path)),
        },
        Form::Time => match value {
            Value::Null => Ok(()),
            Value::String(text) if time::parse(text).is_some() => Ok(()),
            Value::String(text) => {
                let layout = "2006-01-02T15:04:05Z07:00";
                Err(format!(
                    "parsing time {text:?} as {layout:?}: {path} must be a time as RFC 3339 writes it"
                ))
            }
            other => Err(mismatch(other, "string", path)),
        },
        Form::Json | Form::AnyObject => Ok(()),
        Form::SchemaOrArray => match value {
            Value::Array(items) => items
                .iter_mut()
                .enumerate()
                .try_for_each(|(index, item)| check_schema(item, path.index(index), unknown)),
            other => check_schema(other, path, unknown),
        },
        Form::SchemaOrBool => match value {
            Value::Bool(_) => Ok(()),
            other => check_schema(other, path, unknown),
        },
        Form::SchemaOrStrings => match value {
            Value::Array(items) => items.iter().try_for_each(|item| match item {
                Value::String(_) => Ok(()),
                other => Err(mismatch(other, "string", path)),
            }),
            other => check_schema(other, path, unknown),
        },
    }
}

fn check_schema(value: &mut Value, path: Path<'_>, unknown: &mut Paths) -> Checked {
    match table().find("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps") {
        Some(type_) => check_type(type_, value, path, unknown),
        None => Ok(()),
    }
}

fn check_fields(type_: &Type, map: &mut Map<String, Value>, path: Path<'_>, unknown: &mut Paths) -> Checked {
    let mut dropped = Vec::new();
    for (name, value) in map.iter_mut() {
        match type_.field(name) {
            None => {
                unknown.push(path.field(name));
                dropped.push(name.clone());
            }
            Some(_) if value.is_null() => dropped.push(name.clone()),
            Some(field) => check_shape(&field.shape, value, path.field(name), unknown).map_err(|error| {
                error.replacen(
                    "Go value",
                    &format!("Go struct field {}.{}", type_.short_name(), path.field(name).names()),
                    1,
                )
            })?,
        }
    }
    for name in dropped {
        map.remove(&name);
    }
    Ok(())
}

fn check_shape(shape: &Shape, value: &mut Value, path: Path<'_>, unknown: &mut Paths) -> Checked {
    let fits = match (shape, &mut *value) {
        (Shape::Type(place), value) => {
            return table()
                .get(*place)
                .map_or(Ok(()), |type_| check_type(type_, value, path, unknown));
        }
        (Shape::List(inner), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                fill_null(inner, item);
                check_shape(inner, item, path.index(index), unknown)?;
            }
            true
        }
        (Shape::Map(inner), Value::Object(map)) => {
            for (key, item) in map.iter_mut() {
                fill_null(inner, item);
                check_shape(inner, item, path.field(key), unknown)?;
            }
            true
        }
        (Shape::Bytes, Value::String(text)) => {
            return match bytes::canonical(text) {
                Ok(canonical) => {
                    *text = canonical;
                    Ok(())
                }
                Err(position) => Err(format!("illegal base64 data at input byte {position}")),
            };
        }
        (Shape::Int32, Value::Number(number)) => fits_int32(number),
        (Shape::Int64, Value::Number(number)) => number.is_i64(),
        (Shape::String, Value::String(_)) | (Shape::Bool, Value::Bool(_)) | (Shape::Double, Value::Number(_)) => true,
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err(mismatch(value, &go_shape(shape), path))
    }
}

/// Null among items or values means the zero value.
fn fill_null(shape: &Shape, value: &mut Value) {
    if value.is_null() {
        *value = match shape {
            Shape::String | Shape::Bytes => "".into(),
            Shape::Bool => false.into(),
            Shape::Int32 | Shape::Int64 => 0.into(),
            Shape::Double => 0.0.into(),
            Shape::List(_) => Value::Array(Vec::new()),
            Shape::Map(_) => Value::Object(Map::new()),
            Shape::Type(place) => match table().get(*place).map(|type_| type_.form) {
                Some(Form::Object) => Value::Object(Map::new()),
                Some(Form::Quantity) => "0".into(),
                _ => return,
            },
        };
    }
}

fn fits_int32(number: &serde_json::Number) -> bool {
    number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

/// Upstream's decoder message. The caller replaces `Go value` by the innermost enclosing struct field.
fn mismatch(value: &Value, wanted: &str, path: Path<'_>) -> String {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if matches!(wanted, "int32" | "int64" | "float64") => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    match path {
        Path::Root => format!("json: cannot unmarshal {found} into Go struct of type {wanted}"),
        _ => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
    }
}

fn go_name(type_: &Type) -> String {
    let mut parts = type_.name.rsplit('.');
    let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{package}.{name}")
}

fn go_shape(shape: &Shape) -> String {
    match shape {
        Shape::String => "string".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Int32 => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Double => "float64".to_owned(),
        Shape::Type(place) => table().get(*place).map(go_name).unwrap_or_default(),
        Shape::List(inner) => format!("[]{}", go_shape(inner)),
        Shape::Map(inner) => format!("map[string]{}", go_shape(inner)),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const POD: &str = "io.k8s.api.core.v1.Pod";

    #[test]
    fn unknown_fields_are_dropped_and_reported() {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "nme": "b", "labels": {"any": "thing"}},
            "spec": {"containers": [{"name": "c", "bar": 1}], "foo": {"x": 1}},
        });
        let unknown = check(POD, &mut pod).unwrap();
        assert_eq!(unknown, ["metadata.nme", "spec.containers[0].bar", "spec.foo"]);
        assert_eq!(
            pod,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "a", "labels": {"any": "thing"}},
                "spec": {"containers": [{"name": "c"}]},
            })
        );
    }

    #[test]
    fn nulls_are_absent_fields_and_zero_items() {
        let mut pod = json!({"spec": {"nodeName": null, "containers": [null]}, "metadata": {"labels": {"a": null}}});
        assert_eq!(check(POD, &mut pod).unwrap(), Vec::<String>::new());
        assert_eq!(
            pod,
            json!({"spec": {"containers": [{}]}, "metadata": {"labels": {"a": ""}}})
        );
    }

    #[rstest]
    #[case(json!({"spec": {"containers": "x"}}), "cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container")]
    #[case(json!({"spec": {"priority": "1"}}), "cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32")]
    #[case(json!({"spec": {"priority": 3_000_000_000_i64}}), "cannot unmarshal number 3000000000 into")]
    #[case(json!({"spec": {"priority": 1.5}}), "cannot unmarshal number 1.5 into")]
    #[case(json!({"spec": {"containers": [{"image": 1}]}}), "Go struct field Container.spec.containers.image of type string")]
    #[case(json!({"metadata": {"labels": {"a": 1}}}), "Go struct field ObjectMeta.metadata.labels of type string")]
    #[case(json!({"spec": []}), "cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec")]
    #[case(json!({"metadata": {"creationTimestamp": "yesterday"}}), "parsing time \"yesterday\"")]
    #[case(json!({"spec": {"overhead": {"cpu": "much"}}}), "quantities must match the regular expression")]
    #[case(json!([]), "cannot unmarshal array")]
    fn wrong_types_reject_the_object(#[case] mut pod: Value, #[case] message: &str) {
        let error = check(POD, &mut pod).unwrap_err();
        assert_eq!(error.code, 400);
        assert!(
            error
                .message
                .starts_with("Pod in version \"v1\" cannot be handled as a Pod: "),
            "{}",
            error.message
        );
        assert!(error.message.contains(message), "{}", error.message);
    }

    #[test]
    fn a_secret_must_be_base64() {
        let mut secret = json!({"data": {"a": "%%"}});
        let error = check("io.k8s.api.core.v1.Secret", &mut secret).unwrap_err();
        assert!(error.message.contains("illegal base64 data"), "{}", error.message);
    }

    #[test]
    fn schemas_of_custom_resources_are_checked_to_the_leaves() {
        let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "string", "tpye": 1}}},
            "additionalProperties": {"x": 1},
            "default": {"any": ["thing"]},
        });
        let mut crd = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
        assert_eq!(
            check(name, &mut crd).unwrap(),
            [
                "spec.versions[0].schema.openAPIV3Schema.additionalProperties.x",
                "spec.versions[0].schema.openAPIV3Schema.properties.a.items.tpye",
            ]
        );
    }
}
