//! OpenAPI v2: one document of everything, for clients that look up a kind no document of v3 has, such as kubectl with an
//! object of an unknown kind. It is converted from the documents of v3.

mod protobuf;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{document, document_name};
use crate::discovery::etag;
use crate::resource::Resource;

/// The media type of the document in protobuf. Clients also write `@` before the version, which no media type may
/// contain.
pub const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The document in its two forms, and its hash.
#[derive(Clone, Debug)]
pub struct Document {
    /// As JSON.
    pub json: Bytes,
    /// As a protobuf message.
    pub protobuf: Bytes,
    /// The hash of the content.
    pub etag: String,
}

impl Document {
    /// The document of these resources.
    pub fn of(resources: &[Arc<Resource>]) -> Self {
        let value = document_v2(resources);
        Self {
            json: value.to_string().into(),
            protobuf: protobuf::encode(&value).into(),
            etag: etag(&value),
        }
    }
}

fn document_v2(resources: &[Arc<Resource>]) -> Value {
    let names: BTreeSet<String> = resources.iter().map(|resource| document_name(resource)).collect();
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for document in names.iter().filter_map(|name| document(resources, name)) {
        for (path, item) in members(&document["paths"]) {
            paths.insert(path.clone(), path_item(item));
        }
        for (name, of_name) in members(&document["components"]["schemas"]) {
            definitions.insert(name.clone(), schema(of_name));
        }
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "v1.36.0" },
        "paths": paths,
        "definitions": definitions,
    })
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn path_item(item: &Value) -> Value {
    let converted = members(item).map(|(name, value)| match name.as_str() {
        "parameters" => (name.clone(), parameters(value).into()),
        _ => (name.clone(), operation(value)),
    });
    converted.collect::<Map<String, Value>>().into()
}

fn operation(operation: &Value) -> Value {
    let mut converted = Map::new();
    let mut all = parameters(&operation["parameters"]);
    for (name, value) in members(operation) {
        match name.as_str() {
            "parameters" => {}
            "requestBody" => {
                let types: Vec<&String> = members(&value["content"]).map(|(media_type, _)| media_type).collect();
                converted.insert("consumes".to_owned(), types.into_iter().cloned().collect());
                let body = members(&value["content"])
                    .next()
                    .map(|(_, content)| schema(&content["schema"]));
                all.push(json!({ "name": "body", "in": "body", "required": true, "schema": body }));
            }
            "responses" => {
                let responses = members(value).map(|(code, response)| (code.clone(), self::response(response)));
                converted.insert(name.clone(), responses.collect::<Map<String, Value>>().into());
                let types: BTreeSet<&String> = members(value)
                    .flat_map(|(_, response)| members(&response["content"]).map(|(media_type, _)| media_type))
                    .collect();
                converted.insert("produces".to_owned(), types.into_iter().cloned().collect());
            }
            _ => {
                converted.insert(name.clone(), value.clone());
            }
        }
    }
    if !all.is_empty() {
        converted.insert("parameters".to_owned(), all.into());
    }
    converted.into()
}

/// Parameters have their types beside their names, without a schema.
fn parameters(parameters: &Value) -> Vec<Value> {
    let flat = |parameter: &Value| {
        let own = members(parameter).filter(|(name, _)| *name != "schema");
        let own = own.chain(members(&parameter["schema"]));
        own.map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Map<String, Value>>()
            .into()
    };
    parameters.as_array().into_iter().flatten().map(flat).collect()
}

fn response(response: &Value) -> Value {
    let mut converted = json!({ "description": response["description"] });
    if let Some((_, content)) = members(&response["content"]).next() {
        converted["schema"] = schema(&content["schema"]);
    }
    converted
}

/// A schema without what v2 does not have: alternatives, and null as a value.
fn schema(value: &Value) -> Value {
    let Value::Object(members) = value else {
        return value.clone();
    };
    // Only a description stands beside a single `allOf`, which exists because of it.
    if let Some(reference) = value.pointer("/allOf/0/$ref") {
        let mut converted = json!({ "$ref": moved(reference) });
        if let Some(description) = members.get("description") {
            converted["description"] = description.clone();
        }
        return converted;
    }
    let mut converted = Map::new();
    for (name, member) in members {
        let member = match name.as_str() {
            "$ref" => moved(member),
            "properties" => self::members(member)
                .map(|(name, member)| (name.clone(), schema(member)))
                .collect::<Map<String, Value>>()
                .into(),
            "items" | "additionalProperties" => schema(member),
            "oneOf" | "anyOf" | "allOf" | "not" | "nullable" => continue,
            _ => member.clone(),
        };
        converted.insert(name.clone(), member);
    }
    // A type would exclude the other values.
    if members.get("nullable") == Some(&Value::Bool(true)) {
        for name in ["type", "properties", "items"] {
            converted.remove(name);
        }
    } else if members.contains_key("oneOf") && !members.contains_key("type") {
        converted.insert("type".to_owned(), "string".into());
    }
    converted.into()
}

fn moved(reference: &Value) -> Value {
    let name = reference.as_str().and_then(|text| text.rsplit('/').next());
    format!("#/definitions/{}", name.unwrap_or_default()).into()
}
