//! Converts JSON to messages, field by field according to the table of built-in types: the inverse of `message`.
//!
//! Like the encoders that Kubernetes generates, this one writes fields in the order of their numbers, and fields without
//! a pointer in Go even if JSON omits them, as zero.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::writer::Writer;
use crate::types::table::{Field, Form, Shape, Type, table};
use crate::types::time;

/// Real objects nest about 15 messages; schemas of custom resources a few more.
const MAX_DEPTH: usize = 130;
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// Encodes an object of that type, without an envelope.
pub(super) fn object(type_: &Type, value: &Value) -> Vec<u8> {
    let mut out = Writer::with_capacity(1024);
    fields(&mut out, type_, type_.by_tag(), 0, value.as_object(), MAX_DEPTH);
    out.finish()
}

/// Writes fields that are sorted by their numbers and share the first `level` ones.
fn fields(
    out: &mut Writer,
    type_: &Type,
    sorted: &[u16],
    level: usize,
    map: Option<&Map<String, Value>>,
    depth: usize,
) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let field_at = |index: &u16| type_.fields.get(usize::from(*index));
    let number_at = |index: &u16| field_at(index).and_then(|field| field.tag.get(level).copied());
    let mut rest = sorted;
    while let Some((first, others)) = rest.split_first() {
        let (Some(field), Some(number)) = (field_at(first), number_at(first)) else {
            rest = others;
            continue;
        };
        if field.tag.len() == level.saturating_add(1) {
            member(out, field, number, map.and_then(|map| map.get(field.name)), depth);
            rest = others;
            continue;
        }
        // A message that JSON inlines contains the following fields, too.
        let end = rest.iter().take_while(|index| number_at(index) == Some(number)).count();
        let (inlined, others) = rest.split_at(end);
        out.message(number, |out| {
            fields(out, type_, inlined, level.saturating_add(1), map, depth)
        });
        rest = others;
    }
}

fn member(out: &mut Writer, field: &Field, number: u32, value: Option<&Value>, depth: usize) {
    let value = value.filter(|value| !value.is_null());
    match (&field.shape, value) {
        (Shape::List(inner), Some(Value::Array(items))) => {
            for item in items {
                one(out, inner, number, Some(item), depth);
            }
        }
        (Shape::Map(inner), Some(Value::Object(entries))) => {
            for (key, item) in entries {
                out.message(number, |out| {
                    out.text(1, key);
                    one(out, inner, 2, Some(item), depth);
                });
            }
        }
        (Shape::List(_) | Shape::Map(_), _) => {}
        (shape, Some(value)) => one(out, shape, number, Some(value), depth),
        (Shape::Bytes, None) => {}
        // Go writes what is no pointer.
        (shape, None) if !field.keep => one(out, shape, number, None, depth),
        (_, None) => {}
    }
}

/// Writes one value; `None` is zero.
fn one(out: &mut Writer, shape: &Shape, number: u32, value: Option<&Value>, depth: usize) {
    match shape {
        Shape::String => out.text(number, value.and_then(Value::as_str).unwrap_or_default()),
        Shape::Bytes => {
            let text = value.and_then(Value::as_str).unwrap_or_default();
            out.bytes(number, &STANDARD.decode(text).unwrap_or_default());
        }
        Shape::Bool => out.varint(number, u64::from(value.and_then(Value::as_bool).unwrap_or_default())),
        Shape::Int32 | Shape::Int64 => out.signed(number, integer(value)),
        Shape::Double => out.fixed64(number, value.and_then(Value::as_f64).unwrap_or_default().to_bits()),
        Shape::Type(place) => {
            if let Some(type_) = table().get(*place) {
                out.message(number, |out| message(out, type_, value, depth));
            }
        }
        // Within a map, a list is a message with the repeated field 1.
        Shape::List(inner) => {
            let items = value.and_then(Value::as_array).into_iter().flatten();
            out.message(number, |out| {
                for item in items {
                    one(out, inner, 1, Some(item), depth);
                }
            });
        }
        Shape::Map(_) => {}
    }
}

fn integer(value: Option<&Value>) -> i64 {
    value.and_then(Value::as_i64).unwrap_or_default()
}

fn message(out: &mut Writer, type_: &Type, value: Option<&Value>, depth: usize) {
    match type_.form {
        Form::Object => fields(out, type_, type_.by_tag(), 0, value.and_then(Value::as_object), depth),
        Form::Quantity => match value {
            Some(Value::String(text)) => out.text(1, text),
            Some(Value::Number(number)) => out.text(1, &number.to_string()),
            _ => out.text(1, "0"),
        },
        Form::IntOrString => {
            let text = value.and_then(Value::as_str);
            out.varint(1, u64::from(text.is_some()));
            out.signed(2, integer(value));
            out.text(3, text.unwrap_or_default());
        }
        Form::Time | Form::MicroTime => {
            if let Some(time) = value.and_then(Value::as_str).and_then(time::parse) {
                let nanos = if type_.form == Form::Time {
                    0
                } else {
                    time.subsec_nanosecond()
                };
                // Times before 1970 have a negative fraction, which Go does not know.
                let (seconds, nanos) = match nanos {
                    ..0 => (time.as_second().saturating_sub(1), nanos.saturating_add(1_000_000_000)),
                    _ => (time.as_second(), nanos),
                };
                out.signed(1, seconds);
                out.signed(2, i64::from(nanos));
            }
        }
        Form::Json | Form::AnyObject => {
            if let Some(value) = value {
                out.text(1, &value.to_string());
            }
        }
        Form::SchemaOrArray | Form::SchemaOrBool | Form::SchemaOrStrings => alternative(out, type_.form, value, depth),
    }
}

/// The alternatives to a schema in a JSON schema.
fn alternative(out: &mut Writer, form: Form, value: Option<&Value>, depth: usize) {
    let (Some(schema), Some(depth)) = (table().find(SCHEMA), depth.checked_sub(1)) else {
        return;
    };
    let one_schema = |out: &mut Writer, number: u32, value: &Value| {
        out.message(number, |out| message(out, schema, Some(value), depth));
    };
    match (form, value) {
        (Form::SchemaOrBool, Some(value)) => {
            // A schema allows what it describes.
            out.varint(1, u64::from(value.as_bool().unwrap_or(value.is_object())));
            if value.is_object() {
                one_schema(out, 2, value);
            }
        }
        (Form::SchemaOrBool, None) => out.varint(1, 0),
        (Form::SchemaOrArray, Some(Value::Array(items))) => {
            items.iter().for_each(|item| one_schema(out, 2, item));
        }
        (Form::SchemaOrStrings, Some(Value::Array(items))) => {
            items
                .iter()
                .filter_map(Value::as_str)
                .for_each(|item| out.text(2, item));
        }
        (_, Some(value @ Value::Object(_))) => one_schema(out, 1, value),
        _ => {}
    }
}
