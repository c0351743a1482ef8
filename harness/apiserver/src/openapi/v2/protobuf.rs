//! The document as a message of the package `openapi.v2`, which kubectl requests. A table has the numbers of the fields
//! that our documents use; the numbers are those of gnostic's `OpenAPIv2.proto`.

use serde_json::Value;

/// The form of a field.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Bool,
    Whole,
    Double,
    /// Any value as YAML, of which JSON is a part.
    Any,
    /// A message.
    One(&'static [Field]),
    /// A message that is the only member of another one, and so on: the numbers on the way.
    Within(&'static [u32], &'static Form),
    /// A list, with one field for each item.
    Each(&'static Form),
    /// A parameter, whose message depends on its place.
    Parameter,
    /// `true`, `false` or a schema.
    Additional,
    /// The members whose names begin with `x-`.
    Extensions,
    /// All members: messages with a name and a value.
    Named(&'static Form),
}

/// A field: its name in JSON (empty: the message itself), its number and form.
struct Field(&'static str, u32, Form);

static DOCUMENT: &[Field] = &[
    Field("swagger", 1, Form::Text),
    Field(
        "info",
        2,
        Form::One(&[Field("title", 1, Form::Text), Field("version", 2, Form::Text)]),
    ),
    Field("paths", 8, Form::One(&[Field("", 2, Form::Named(&Form::One(PATH)))])),
    Field(
        "definitions",
        9,
        Form::One(&[Field("", 1, Form::Named(&Form::One(&SCHEMA)))]),
    ),
];

static PATH: &[Field] = &[
    Field("get", 2, Form::One(OPERATION)),
    Field("put", 3, Form::One(OPERATION)),
    Field("post", 4, Form::One(OPERATION)),
    Field("delete", 5, Form::One(OPERATION)),
    Field("patch", 8, Form::One(OPERATION)),
    Field("parameters", 9, Form::Each(&Form::Parameter)),
];

static OPERATION: &[Field] = &[
    Field("description", 3, Form::Text),
    Field("operationId", 5, Form::Text),
    Field("produces", 6, Form::Each(&Form::Text)),
    Field("consumes", 7, Form::Each(&Form::Text)),
    Field("parameters", 8, Form::Each(&Form::Parameter)),
    Field(
        "responses",
        9,
        Form::One(&[Field("", 1, Form::Named(&Form::Within(&[1], &Form::One(RESPONSE))))]),
    ),
    Field("", 13, Form::Extensions),
];

static RESPONSE: &[Field] = &[
    Field("description", 1, Form::Text),
    Field("schema", 2, Form::Within(&[1], &Form::One(&SCHEMA))),
];

static BODY: &[Field] = &[
    Field("description", 1, Form::Text),
    Field("name", 2, Form::Text),
    Field("in", 3, Form::Text),
    Field("required", 4, Form::Bool),
    Field("schema", 5, Form::One(&SCHEMA)),
];

static QUERY: &[Field] = &[
    Field("required", 1, Form::Bool),
    Field("in", 2, Form::Text),
    Field("description", 3, Form::Text),
    Field("name", 4, Form::Text),
    Field("type", 6, Form::Text),
    Field("uniqueItems", 20, Form::Bool),
];

static IN_PATH: &[Field] = &[
    Field("required", 1, Form::Bool),
    Field("in", 2, Form::Text),
    Field("description", 3, Form::Text),
    Field("name", 4, Form::Text),
    Field("type", 5, Form::Text),
    Field("uniqueItems", 19, Form::Bool),
];

static SCHEMA: [Field; 25] = [
    Field("$ref", 1, Form::Text),
    Field("format", 2, Form::Text),
    Field("title", 3, Form::Text),
    Field("description", 4, Form::Text),
    Field("default", 5, Form::Any),
    Field("multipleOf", 6, Form::Double),
    Field("maximum", 7, Form::Double),
    Field("exclusiveMaximum", 8, Form::Bool),
    Field("minimum", 9, Form::Double),
    Field("exclusiveMinimum", 10, Form::Bool),
    Field("maxLength", 11, Form::Whole),
    Field("minLength", 12, Form::Whole),
    Field("pattern", 13, Form::Text),
    Field("maxItems", 14, Form::Whole),
    Field("minItems", 15, Form::Whole),
    Field("uniqueItems", 16, Form::Bool),
    Field("maxProperties", 17, Form::Whole),
    Field("minProperties", 18, Form::Whole),
    Field("required", 19, Form::Each(&Form::Text)),
    Field("enum", 20, Form::Each(&Form::Any)),
    Field("additionalProperties", 21, Form::Additional),
    Field("type", 22, Form::Within(&[1], &Form::Text)),
    Field("items", 23, Form::Within(&[1], &Form::One(&SCHEMA))),
    Field(
        "properties",
        25,
        Form::One(&[Field("", 1, Form::Named(&Form::One(&SCHEMA)))]),
    ),
    Field("", 31, Form::Extensions),
];

/// Encodes a document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    message(DOCUMENT, document)
}

fn message(fields: &[Field], value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for Field(name, number, form) in fields {
        let value = match *name {
            "" => Some(value),
            name => value.get(name),
        };
        if let Some(value) = value {
            field(&mut out, *number, form, value);
        }
    }
    out
}

fn field(out: &mut Vec<u8>, number: u32, form: &Form, value: &Value) {
    match form {
        Form::Text => delimited(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Form::Bool => {
            key(out, number, 0);
            varint(out, value.as_bool().unwrap_or_default().into());
        }
        Form::Whole => {
            key(out, number, 0);
            varint(out, value.as_u64().unwrap_or_default());
        }
        Form::Double => {
            key(out, number, 1);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Form::Any => delimited(out, number, &any(value)),
        Form::One(fields) => delimited(out, number, &message(fields, value)),
        Form::Within(numbers, form) => match numbers.split_first() {
            None => field(out, number, form, value),
            Some((inner, rest)) => {
                let mut within = Vec::new();
                field(&mut within, *inner, &Form::Within(rest, form), value);
                delimited(out, number, &within);
            }
        },
        Form::Each(form) => {
            let items = value.as_array().into_iter().flatten();
            items.for_each(|item| field(out, number, form, item));
        }
        Form::Named(form) => {
            for (name, value) in value.as_object().into_iter().flatten() {
                delimited(out, number, &named(name, form, value));
            }
        }
        Form::Parameter => {
            let (numbers, fields): (&'static [u32], &'static [Field]) = match value["in"].as_str() {
                Some("body") => (&[1, 1], BODY),
                Some("path") => (&[1, 2, 4], IN_PATH),
                _ => (&[1, 2, 3], QUERY),
            };
            let mut encoded = message(fields, value);
            for inner in numbers.iter().rev() {
                let mut outer = Vec::new();
                delimited(&mut outer, *inner, &encoded);
                encoded = outer;
            }
            delimited(out, number, &encoded);
        }
        Form::Additional => {
            let mut encoded = Vec::new();
            match value {
                Value::Bool(_) => field(&mut encoded, 2, &Form::Bool, value),
                schema => field(&mut encoded, 1, &Form::One(&SCHEMA), schema),
            }
            delimited(out, number, &encoded);
        }
        Form::Extensions => {
            let members = value.as_object().into_iter().flatten();
            for (name, value) in members.filter(|(name, _)| name.starts_with("x-")) {
                delimited(out, number, &named(name, &Form::Any, value));
            }
        }
    }
}

fn named(name: &str, form: &Form, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    delimited(&mut out, 1, name.as_bytes());
    field(&mut out, 2, form, value);
    out
}

fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    delimited(&mut out, 2, value.to_string().as_bytes());
    out
}

fn delimited(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    key(out, number, 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn key(out: &mut Vec<u8>, number: u32, wire: u64) {
    varint(out, u64::from(number) << 3 | wire);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = (value & 0x7f).to_le_bytes()[0];
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}
