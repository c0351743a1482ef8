//! Reads the OpenAPI definitions out of the PyPI package.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::run;

/// A type of the API.
pub struct Definition {
    /// As `io.k8s.api.core.v1.Pod`.
    pub name: String,
    /// `apiVersion` and `kind`, for what can be sent by itself.
    pub kind: Option<(String, String)>,
    /// Whether server-side apply takes the whole as one value.
    pub atomic: bool,
    /// Sorted by name.
    pub fields: Vec<Field>,
}

/// A field of a type.
pub struct Field {
    /// As in JSON.
    pub name: String,
    /// In the table's notation.
    pub shape: String,
    /// `required`, list and map types, merge keys.
    pub flags: Vec<String>,
}

/// Fetches the package and returns the stable types of that minor version, sorted by name.
pub fn definitions(scratch: &Path, package: &str, minor: &str) -> Result<Vec<Definition>, Box<dyn Error>> {
    run(
        "python3",
        &[
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            package,
        ],
        scratch,
    )?;
    let wheel = format!("{}-py3-none-any.whl", package.replace('-', "_").replace("==", "-"));
    run("python3", &["-m", "zipfile", "-e", &wheel, "."], scratch)?;
    let path = format!("kubernetes_validate/kubernetes-json-schema/v{minor}.0-local/_definitions.json");
    let document: Value = serde_json::from_slice(&fs::read(scratch.join(path))?)?;
    let all = document["$defs"].as_object().ok_or("the package has no $defs")?;
    let mut definitions = Vec::new();
    for (name, schema) in all {
        if is_stable(name) {
            definitions.push(definition(name, schema)?);
        }
    }
    definitions.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(definitions)
}

/// Leaves out alpha and beta versions.
fn is_stable(name: &str) -> bool {
    !name
        .split('.')
        .any(|part| part.starts_with('v') && (part.contains("alpha") || part.contains("beta")))
}

fn definition(name: &str, schema: &Value) -> Result<Definition, Box<dyn Error>> {
    let kinds = schema["x-kubernetes-group-version-kind"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let kind = match kinds {
        [] => None,
        [one] => Some(kind(one)),
        [_, ..] => Some(("v1".to_owned(), name.rsplit('.').next().unwrap_or_default().to_owned())),
    };
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let empty = Map::new();
    let mut fields = Vec::new();
    for (field, schema) in schema["properties"].as_object().unwrap_or(&empty) {
        let shape = shape(schema).ok_or_else(|| format!("{name}.{field} has a shape that is not known"))?;
        fields.push(Field {
            name: field.clone(),
            shape,
            flags: flags(schema, required.contains(&field.as_str())),
        });
    }
    fields.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Definition {
        name: name.to_owned(),
        kind,
        atomic: schema["x-kubernetes-map-type"] == "atomic",
        fields,
    })
}

fn kind(value: &Value) -> (String, String) {
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let version = match text("group") {
        "" => text("version").to_owned(),
        group => format!("{group}/{}", text("version")),
    };
    (version, text("kind").to_owned())
}

/// `[]` before what a list holds, `{}` before what a map holds, else a scalar or a type's name.
fn shape(schema: &Value) -> Option<String> {
    if let Some(target) = schema["$ref"].as_str() {
        return target.strip_prefix("#/$defs/").map(str::to_owned);
    }
    let type_ = schema["type"].as_str().or_else(|| schema["type"][0].as_str())?;
    match (type_, schema["format"].as_str()) {
        ("string", Some("byte")) => Some("bytes".to_owned()),
        ("string", _) => Some("string".to_owned()),
        ("boolean", _) => Some("bool".to_owned()),
        ("integer", Some("int32")) => Some("int32".to_owned()),
        ("integer", _) => Some("int64".to_owned()),
        ("number", _) => Some("double".to_owned()),
        ("array", _) => Some(format!("[]{}", shape(&schema["items"])?)),
        ("object", _) => Some(format!("{{}}{}", shape(&schema["additionalProperties"])?)),
        _ => None,
    }
}

fn flags(schema: &Value, required: bool) -> Vec<String> {
    let mut flags = Vec::new();
    if required {
        flags.push("required".to_owned());
    }
    match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            flags.push(format!("list=map:{}", keys.join(",")));
        }
        Some(other) => flags.push(format!("list={other}")),
        None => {}
    }
    for (key, flag) in [
        ("x-kubernetes-map-type", "map"),
        ("x-kubernetes-patch-merge-key", "merge"),
        ("x-kubernetes-patch-strategy", "strategy"),
    ] {
        if let Some(value) = schema[key].as_str() {
            flags.push(format!("{flag}={value}"));
        }
    }
    flags
}
