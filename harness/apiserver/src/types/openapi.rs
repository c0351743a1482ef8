//! OpenAPI v3 schemas of built-in types, generated from the table. They contain the merge and list extensions but no
//! descriptions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::table::{Field, Form, List, Shape, Type, table};

/// Types that documents contain although no object refers to them.
const META: [&str; 3] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
];

/// The OpenAPI v3 schema of a built-in type by name, for instance `io.k8s.api.core.v1.Pod`. References have the form
/// `#/components/schemas/<name>`.
pub fn definition(type_name: &str) -> Option<Value> {
    table().find(type_name).map(schema)
}

/// The names of the types of a group and version (the core group is empty) and of all types that they refer to,
/// sorted: the schemas of one OpenAPI v3 document. Empty for a group that is not built in.
pub fn names_in(group: &str, version: &str) -> Vec<&'static str> {
    let package = match group {
        "" => "io.k8s.api.core".to_owned(),
        "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions".to_owned(),
        "apiregistration.k8s.io" => "io.k8s.kube-aggregator.pkg.apis.apiregistration".to_owned(),
        group => format!("io.k8s.api.{}", group.split('.').next().unwrap_or(group)),
    };
    let prefix = format!("{package}.{version}.");
    let table = table();
    let mut names = BTreeSet::new();
    for type_ in table.types().iter().filter(|type_| type_.name.starts_with(&prefix)) {
        collect(type_, &mut names);
    }
    if !names.is_empty() {
        META.iter()
            .filter_map(|name| table.find(name))
            .for_each(|type_| collect(type_, &mut names));
    }
    names.into_iter().collect()
}

fn collect(type_: &'static Type, names: &mut BTreeSet<&'static str>) {
    if names.insert(type_.name) {
        for inner in type_.fields.iter().filter_map(Field::type_) {
            collect(inner, names);
        }
    }
}

fn schema(type_: &Type) -> Value {
    let mut schema = match type_.form {
        Form::Object => object(type_),
        Form::Quantity => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
        Form::IntOrString => {
            json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] })
        }
        Form::Time | Form::MicroTime => json!({ "type": "string", "format": "date-time" }),
        Form::AnyObject => json!({ "type": "object" }),
        Form::Json | Form::SchemaOrArray | Form::SchemaOrBool | Form::SchemaOrStrings => json!({}),
    };
    if type_.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    if let Some((api_version, kind)) = type_.kind {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        schema["x-kubernetes-group-version-kind"] = json!([{ "group": group, "version": version, "kind": kind }]);
    }
    schema
}

fn object(type_: &Type) -> Value {
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    let properties: Map<String, Value> = type_
        .fields
        .iter()
        .map(|field| (field.name.to_owned(), property(field)))
        .collect();
    if !properties.is_empty() {
        schema.insert("properties".into(), properties.into());
    }
    let required: Vec<&str> = type_
        .fields
        .iter()
        .filter(|field| field.required)
        .map(|field| field.name)
        .collect();
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    schema.into()
}

fn property(field: &Field) -> Value {
    let mut schema = shape(&field.shape);
    if !field.values.is_empty() {
        let place = match field.shape {
            Shape::List(_) => &mut schema["items"],
            _ => &mut schema,
        };
        place["enum"] = field.values.clone().into();
    }
    match &field.list {
        None => {}
        Some(List::Atomic) => schema["x-kubernetes-list-type"] = "atomic".into(),
        Some(List::Set) => schema["x-kubernetes-list-type"] = "set".into(),
        Some(List::Map(keys)) => {
            schema["x-kubernetes-list-type"] = "map".into();
            schema["x-kubernetes-list-map-keys"] = keys.clone().into();
        }
    }
    if field.atomic_map {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    if let Some(key) = field.merge_key {
        schema["x-kubernetes-patch-merge-key"] = key.into();
    }
    let strategies = [
        (field.merge, "merge"),
        (field.retain_keys, "retainKeys"),
        (field.replace, "replace"),
    ];
    let strategies: Vec<&str> = strategies
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, name)| *name)
        .collect();
    if !strategies.is_empty() {
        schema["x-kubernetes-patch-strategy"] = strategies.join(",").into();
    }
    schema
}

fn shape(shape_: &Shape) -> Value {
    match shape_ {
        Shape::String => json!({ "type": "string" }),
        Shape::Bytes => json!({ "type": "string", "format": "byte" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Int32 => json!({ "type": "integer", "format": "int32" }),
        Shape::Int64 => json!({ "type": "integer", "format": "int64" }),
        Shape::Double => json!({ "type": "number", "format": "double" }),
        Shape::Type(_) => {
            let name = shape_.type_().map_or("", |type_| type_.name);
            json!({ "$ref": format!("#/components/schemas/{name}") })
        }
        Shape::List(inner) => json!({ "type": "array", "items": shape(inner) }),
        Shape::Map(inner) => json!({ "type": "object", "additionalProperties": shape(inner) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_contains_types_and_merge_keys() {
        let spec = definition("io.k8s.api.core.v1.ServiceSpec").unwrap();
        assert_eq!(
            spec["properties"]["ports"],
            json!({
                "type": "array",
                "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.ServicePort"},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "x-kubernetes-patch-merge-key": "port",
                "x-kubernetes-patch-strategy": "merge",
            })
        );
        assert_eq!(
            spec["properties"]["type"],
            json!({ "type": "string", "enum": ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"] })
        );
        let claim = definition("io.k8s.api.core.v1.PersistentVolumeClaimSpec").unwrap();
        assert_eq!(
            claim["properties"]["accessModes"]["items"],
            json!({ "type": "string", "enum": ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"] })
        );
        let pod = definition("io.k8s.api.core.v1.Pod").unwrap();
        assert_eq!(
            pod["x-kubernetes-group-version-kind"],
            json!([{"group": "", "version": "v1", "kind": "Pod"}])
        );
    }

    #[test]
    fn a_document_contains_all_referenced_types() {
        for (group, version) in [
            ("", "v1"),
            ("apps", "v1"),
            ("apiextensions.k8s.io", "v1"),
            ("rbac.authorization.k8s.io", "v1"),
        ] {
            let names = names_in(group, version);
            assert!(!names.is_empty(), "{group}");
            for name in &names {
                let text = definition(name).unwrap().to_string();
                for reference in text.split("#/components/schemas/").skip(1) {
                    let reference = reference.split('"').next().unwrap();
                    assert!(names.contains(&reference), "{name} refers to {reference}");
                }
            }
        }
        assert_eq!(names_in("example.com", "v1"), Vec::<&str>::new());
    }
}
