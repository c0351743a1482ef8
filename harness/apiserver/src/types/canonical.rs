//! The canonical form in which upstream stores and sends built-in objects: decoding them to structs and encoding
//! those again makes quantities and times canonical and removes zero values.

use quantity::Quantity;
use serde_json::{Map, Value};

use super::table::{Field, Form, Shape, Type, Zero, table};
use super::time;

/// Makes quantities (`1024Mi` becomes `1Gi`; resource amounts are rounded up to thousandths) and times (whole seconds
/// or six digits, UTC) canonical, removes insignificant zero values and adds those that upstream always writes.
/// Idempotent. Expects a value that
/// [`check`](super::check) accepted, and does not change values of the wrong type.
pub fn canonicalise(type_name: &str, value: &mut Value) {
    if let Some(type_) = table().find(type_name) {
        canonical_type(type_, value);
    }
}

fn canonical_type(type_: &Type, value: &mut Value) {
    match type_.form {
        Form::Object => {
            if let Value::Object(map) = value {
                canonical_fields(type_, map);
            }
        }
        Form::Quantity => canonical_quantity(value, false),
        Form::Time | Form::MicroTime => {
            let Some(time) = value.as_str().and_then(time::parse) else {
                return;
            };
            let text = if type_.form == Form::Time {
                time::seconds(time)
            } else {
                time::micros(time)
            };
            *value = text.into();
        }
        Form::IntOrString
        | Form::Json
        | Form::AnyObject
        | Form::SchemaOrArray
        | Form::SchemaOrBool
        | Form::SchemaOrStrings => {}
    }
}

/// An object of a type in which nothing is set: the fields that upstream always writes, except those that are null.
pub fn zero(type_name: &str) -> Value {
    let mut object = Map::new();
    if let Some(type_) = table().find(type_name) {
        canonical_fields(type_, &mut object);
    }
    Value::Object(object)
}

/// The zero value of a field; `None` if it is null.
fn zero_of(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::String => Some("".into()),
        Shape::Bool => Some(false.into()),
        Shape::Int32 | Shape::Int64 => Some(0.into()),
        Shape::Double => Some(0.0.into()),
        Shape::Bytes | Shape::List(_) | Shape::Map(_) => None,
        Shape::Type(place) => {
            let type_ = table().get(*place)?;
            match type_.form {
                Form::Object => {
                    let mut object = Map::new();
                    canonical_fields(type_, &mut object);
                    Some(Value::Object(object))
                }
                Form::Quantity => Some("0".into()),
                Form::IntOrString => Some(0.into()),
                _ => None,
            }
        }
    }
}

fn canonical_fields(type_: &Type, map: &mut Map<String, Value>) {
    for field in &type_.fields {
        if field.always == Some(Zero::Value)
            && !map.contains_key(field.name)
            && let Some(zero) = zero_of(&field.shape)
        {
            map.insert(field.name.to_owned(), zero);
        }
    }
    map.retain(|name, value| {
        let Some(field) = type_.field(name) else { return true };
        canonical_shape(&field.shape, value);
        field.keep || !is_zero(field, value)
    });
}

fn canonical_shape(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Type(place), value) => {
            if let Some(type_) = table().get(*place) {
                canonical_type(type_, value);
            }
        }
        (Shape::List(inner), Value::Array(items)) => items.iter_mut().for_each(|item| canonical_shape(inner, item)),
        (Shape::Map(inner), Value::Object(map)) => {
            let amounts = inner.type_().is_some_and(|type_| type_.form == Form::Quantity);
            for item in map.values_mut() {
                if amounts {
                    canonical_quantity(item, true);
                } else {
                    canonical_shape(inner, item);
                }
            }
        }
        _ => {}
    }
}

fn canonical_quantity(value: &mut Value, of_resource: bool) {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Ok(quantity) = text.parse::<Quantity>() {
        let quantity = if of_resource {
            quantity.rounded_to_milli()
        } else {
            quantity
        };
        *value = quantity.to_string().into();
    }
}

/// Whether Go omits the value. Go never omits structs.
fn is_zero(field: &Field, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => {
            matches!(field.shape, Shape::Int32 | Shape::Int64 | Shape::Double) && number.as_f64() == Some(0.0)
        }
        Value::String(text) => matches!(field.shape, Shape::String | Shape::Bytes) && text.is_empty(),
        Value::Array(items) => matches!(field.shape, Shape::List(_)) && items.is_empty(),
        Value::Object(map) => matches!(field.shape, Shape::Map(_)) && map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_and_times_are_written_canonically() {
        let mut node = json!({
            "metadata": {"creationTimestamp": "2026-01-31T13:00:00.5+01:00"},
            "status": {"capacity": {"memory": "1024Mi", "cpu": 2, "x": "0.00001"}},
        });
        canonicalise("io.k8s.api.core.v1.Node", &mut node);
        assert_eq!(
            (&node["metadata"], &node["status"]["capacity"]),
            (
                &json!({"creationTimestamp": "2026-01-31T12:00:00Z"}),
                &json!({"memory": "1Gi", "cpu": "2", "x": "1m"}),
            )
        );
        let mut lease = json!({"spec": {"renewTime": "2026-01-31T12:00:00Z"}});
        canonicalise("io.k8s.api.coordination.v1.Lease", &mut lease);
        assert_eq!(lease["spec"], json!({"renewTime": "2026-01-31T12:00:00.000000Z"}));
    }

    #[test]
    fn zeros_that_are_always_written_are_added() {
        let mut node = json!({"status": {"conditions": [{"type": "Ready"}], "volumesAttached": [{"name": "v"}]}});
        canonicalise("io.k8s.api.core.v1.Node", &mut node);
        assert_eq!(node["spec"], json!({}));
        assert_eq!(
            node["status"]["daemonEndpoints"],
            json!({"kubeletEndpoint": {"Port": 0}})
        );
        // Times are null, which clients read as absent.
        assert_eq!(node["status"]["conditions"], json!([{"type": "Ready", "status": ""}]));
        assert_eq!(
            node["status"]["volumesAttached"],
            json!([{"name": "v", "devicePath": ""}])
        );
        let zero = zero("io.k8s.api.apps.v1.Deployment");
        assert_eq!(
            zero,
            json!({
                "metadata": {},
                "spec": {"strategy": {}, "template": {"metadata": {}, "spec": {}}},
                "status": {},
            })
        );
    }

    #[test]
    fn insignificant_zeros_are_removed() {
        let mut pod = json!({
            "metadata": {"finalizers": [], "labels": {}, "generation": 0},
            "spec": {
                "nodeName": "", "hostNetwork": false, "priority": 0, "automountServiceAccountToken": false,
                "containers": [], "volumes": [{"name": "v", "emptyDir": {}}],
            },
            "status": {},
        });
        canonicalise("io.k8s.api.core.v1.Pod", &mut pod);
        assert_eq!(
            pod,
            json!({
                "metadata": {},
                "spec": {
                    "priority": 0, "automountServiceAccountToken": false,
                    "containers": [], "volumes": [{"name": "v", "emptyDir": {}}],
                },
                "status": {},
            })
        );
    }

    /// JSON with the member names of pods in an arbitrary structure.
    fn any_pod() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3).prop_map(Value::from),
            prop::sample::select(vec!["", "0", "1.5", "1024Mi", "2026-01-31T12:00:00.5Z", "x"]).prop_map(Value::from),
        ];
        let names = vec![
            "metadata",
            "spec",
            "containers",
            "name",
            "labels",
            "finalizers",
            "creationTimestamp",
            "resources",
            "limits",
            "cpu",
            "overhead",
            "priority",
            "hostNetwork",
            "ports",
            "containerPort",
            "volumes",
            "emptyDir",
            "sizeLimit",
        ];
        leaf.prop_recursive(6, 48, 6, move |inner| {
            let members = prop::collection::btree_map(prop::sample::select(names.clone()), inner.clone(), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(Value::from),
                members
                    .prop_map(|map| Value::Object(map.into_iter().map(|(name, value)| (name.into(), value)).collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_objects_do_not_change(mut pod in any_pod()) {
            let name = "io.k8s.api.core.v1.Pod";
            if crate::types::check(name, &mut pod).is_ok() {
                canonicalise(name, &mut pod);
                let once = pod.clone();
                prop_assert_eq!(crate::types::check(name, &mut pod), Ok(Vec::new()));
                canonicalise(name, &mut pod);
                prop_assert_eq!(pod, once);
            }
        }
    }
}
