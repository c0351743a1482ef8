//! Converts messages to JSON, field by field according to the table of built-in types.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::wire::{Fields, Malformed, Wire};
use crate::types::table::{Field, Form, Shape, Type, table};
use crate::types::time;

/// Real objects nest about 15 messages; schemas of custom resources a few more.
const MAX_DEPTH: usize = 100;

/// Decodes a message of that type.
pub(super) fn object(type_: &Type, bytes: &[u8]) -> Result<Value, Malformed> {
    let mut map = Map::new();
    fields(type_, &[], bytes, &mut map, MAX_DEPTH)?;
    Ok(map.into())
}

/// Decodes the fields below a path of field numbers; messages that JSON inlines add to the same map.
fn fields(
    type_: &Type,
    inlined: &[u32],
    bytes: &[u8],
    map: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed::Depth)?;
    for next in Fields::new(bytes) {
        let (number, wire) = next?;
        let within = |field: &&Field| {
            field
                .tag
                .strip_prefix(inlined)
                .is_some_and(|below| below.first() == Some(&number))
        };
        let Some(field) = type_.fields.iter().find(within) else {
            continue;
        };
        if field.tag.len() > inlined.len().saturating_add(1) {
            let inlined: Vec<u32> = inlined.iter().copied().chain([number]).collect();
            fields(type_, &inlined, wire.bytes(type_.short_name())?, map, depth)?;
        } else {
            member(field, wire, map, depth)?;
        }
    }
    Ok(())
}

/// Adds one occurrence of a field.
fn member(field: &Field, wire: Wire<'_>, map: &mut Map<String, Value>, depth: usize) -> Result<(), Malformed> {
    match &field.shape {
        Shape::List(inner) => {
            if let Value::Array(items) = map.entry(field.name).or_insert_with(|| Value::Array(Vec::new())) {
                match (inner.as_ref(), wire) {
                    (Shape::Int32 | Shape::Int64, Wire::Bytes(packed)) => {
                        let mut numbers = Fields::new(packed);
                        while let Some(number) = numbers.next_varint() {
                            items.extend(value(inner, field.name, Wire::Varint(number?), Value::Null, depth)?);
                        }
                    }
                    _ => items.extend(value(inner, field.name, wire, Value::Null, depth)?),
                }
            }
        }
        Shape::Map(inner) => {
            let (key, item) = entry(inner, field.name, wire, depth)?;
            if let Value::Object(entries) = map.entry(field.name).or_insert_with(|| Value::Object(Map::new())) {
                entries.insert(key, item);
            }
        }
        shape => {
            let earlier = map.remove(field.name).unwrap_or(Value::Null);
            if let Some(value) = value(shape, field.name, wire, earlier, depth)?
                && (field.keep || !is_zero(&value))
            {
                map.insert(field.name.to_owned(), value);
            }
        }
    }
    Ok(())
}

/// Decodes one value. Merges a message that comes in several parts with the earlier parts. `None` is a value that
/// JSON omits.
fn value(
    shape: &Shape,
    name: &'static str,
    wire: Wire<'_>,
    earlier: Value,
    depth: usize,
) -> Result<Option<Value>, Malformed> {
    Ok(Some(match shape {
        Shape::String => wire.text(name)?.into(),
        Shape::Bytes => STANDARD.encode(wire.bytes(name)?).into(),
        Shape::Bool => (wire.integer(name)? != 0).into(),
        // Like protobuf's own decoders, keep the lower 32 bits.
        Shape::Int32 => (wire.integer(name)? as i32).into(),
        Shape::Int64 => wire.integer(name)?.into(),
        Shape::Double => match wire {
            Wire::Fixed64(bits) => Number::from_f64(f64::from_bits(bits))
                .ok_or(Malformed::Json(name))?
                .into(),
            _ => return Err(Malformed::WireType(name)),
        },
        Shape::Type(place) => {
            let Some(type_) = table().get(*place) else {
                return Ok(None);
            };
            return message(type_, name, wire.bytes(name)?, earlier, depth);
        }
        // Within a map, a list is a message with the repeated field 1.
        Shape::List(inner) => {
            let mut items = Vec::new();
            for next in Fields::new(wire.bytes(name)?) {
                if let (1, wire) = next? {
                    items.extend(value(inner, name, wire, Value::Null, depth)?);
                }
            }
            items.into()
        }
        Shape::Map(inner) => {
            let (key, item) = entry(inner, name, wire, depth)?;
            Value::Object(Map::from_iter([(key, item)]))
        }
    }))
}

/// Decodes a map entry: a message with the key in field 1 and the value in field 2.
fn entry(inner: &Shape, name: &'static str, wire: Wire<'_>, depth: usize) -> Result<(String, Value), Malformed> {
    let (mut key, mut item) = (String::new(), None);
    for next in Fields::new(wire.bytes(name)?) {
        match next? {
            (1, wire) => key = wire.text(name)?.to_owned(),
            (2, wire) => item = value(inner, name, wire, Value::Null, depth)?,
            _ => {}
        }
    }
    let item = match item {
        Some(item) => item,
        None => zero(inner),
    };
    Ok((key, item))
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String | Shape::Bytes => "".into(),
        Shape::Bool => false.into(),
        Shape::Int32 | Shape::Int64 | Shape::Double => 0.into(),
        Shape::List(_) => Value::Array(Vec::new()),
        Shape::Map(_) => Value::Object(Map::new()),
        Shape::Type(_) => match shape.type_().map(|type_| type_.form) {
            Some(Form::Quantity) => "0".into(),
            Some(Form::Object) => Value::Object(Map::new()),
            _ => Value::Null,
        },
    }
}

fn message(
    type_: &Type,
    name: &'static str,
    bytes: &[u8],
    earlier: Value,
    depth: usize,
) -> Result<Option<Value>, Malformed> {
    Ok(match type_.form {
        Form::Object => {
            let mut map = match earlier {
                Value::Object(map) => map,
                _ => Map::new(),
            };
            fields(type_, &[], bytes, &mut map, depth)?;
            Some(map.into())
        }
        Form::Quantity => {
            let text = last(bytes, 1)?.map_or(Ok("0"), |wire| wire.text(name))?;
            Some(text.into())
        }
        Form::IntOrString => {
            let is_text = last(bytes, 1)?.map_or(Ok(0), |wire| wire.integer(name))? == 1;
            if is_text {
                Some(last(bytes, 3)?.map_or(Ok(""), |wire| wire.text(name))?.into())
            } else {
                let number = last(bytes, 2)?.map_or(Ok(0), |wire| wire.integer(name))?;
                Some((number as i32).into())
            }
        }
        Form::Time | Form::MicroTime => instant(type_.form, name, bytes)?,
        Form::Json | Form::AnyObject => match last(bytes, 1)? {
            None => None,
            Some(wire) => json(wire.bytes(name)?, name)?,
        },
        Form::SchemaOrArray => alternative(name, bytes, depth, Alternative::Schemas)?,
        Form::SchemaOrBool => alternative(name, bytes, depth, Alternative::Bool)?,
        Form::SchemaOrStrings => alternative(name, bytes, depth, Alternative::Strings)?,
    })
}

/// The last occurrence of a field, which overrides the others.
fn last(bytes: &[u8], wanted: u32) -> Result<Option<Wire<'_>>, Malformed> {
    let mut found = None;
    for next in Fields::new(bytes) {
        let (number, wire) = next?;
        if number == wanted {
            found = Some(wire);
        }
    }
    Ok(found)
}

/// Seconds in field 1 and nanoseconds in field 2; an empty message means no time.
fn instant(form: Form, name: &'static str, bytes: &[u8]) -> Result<Option<Value>, Malformed> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let seconds = last(bytes, 1)?.map_or(Ok(0), |wire| wire.integer(name))?;
    let nanos = last(bytes, 2)?.map_or(Ok(0), |wire| wire.integer(name))?;
    // Upstream sends a `Time` without the fraction.
    let nanos = if form == Form::Time { 0 } else { nanos };
    let nanos = i32::try_from(nanos).map_err(|_| Malformed::Json(name))?;
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|_| Malformed::Json(name))?;
    let text = if form == Form::Time {
        time::seconds(time)
    } else {
        time::micros(time)
    };
    Ok(Some(text.into()))
}

/// JSON inside protobuf; it can itself be a whole object in protobuf.
fn json(bytes: &[u8], name: &'static str) -> Result<Option<Value>, Malformed> {
    if bytes.is_empty() {
        return Ok(None);
    }
    crate::json::parse(bytes).map(Some).map_err(|_| Malformed::Json(name))
}

/// The alternatives to a schema in a JSON schema.
enum Alternative {
    /// A list of schemas in field 2, one schema in field 1.
    Schemas,
    /// A boolean in field 1, a schema in field 2.
    Bool,
    /// A list of strings in field 2, a schema in field 1.
    Strings,
}

fn alternative(
    name: &'static str,
    bytes: &[u8],
    depth: usize,
    alternative: Alternative,
) -> Result<Option<Value>, Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed::Depth)?;
    let Some(type_) = table().find("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps") else {
        return Ok(None);
    };
    let (mut schema, mut flag, mut items) = (None, false, Vec::new());
    for next in Fields::new(bytes) {
        match (&alternative, next?) {
            (Alternative::Bool, (1, wire)) => flag = wire.integer(name)? != 0,
            (Alternative::Bool, (2, wire)) | (_, (1, wire)) => {
                schema = message(type_, name, wire.bytes(name)?, schema.unwrap_or(Value::Null), depth)?;
            }
            (Alternative::Schemas, (2, wire)) => {
                items.extend(message(type_, name, wire.bytes(name)?, Value::Null, depth)?);
            }
            (Alternative::Strings, (2, wire)) => items.push(wire.text(name)?.into()),
            _ => {}
        }
    }
    Ok(match alternative {
        Alternative::Bool => Some(schema.unwrap_or(Value::Bool(flag))),
        _ if !items.is_empty() => Some(items.into()),
        _ => schema,
    })
}

/// Whether Go omits the scalar from JSON.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}
