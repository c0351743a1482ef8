//! The static types of expressions, with the maximum sizes of their values, and the types of schemas.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::MAX_REQUEST;

/// Literals, which cannot be names.
const LITERALS: [&str; 3] = ["true", "false", "null"];

/// Reserved words, which cannot be names.
pub(super) const RESERVED: [&str; 18] = [
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A type. `most` is the maximum size: bytes of a text, items of a list, entries of a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// Not known before the evaluation.
    Dynamic,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text {
        most: u64,
    },
    Bytes {
        most: u64,
    },
    Timestamp,
    Duration,
    List {
        items: Arc<Type>,
        most: u64,
    },
    Map {
        values: Arc<Type>,
        most: u64,
    },
    /// An object with these fields, by escaped name.
    Object(Arc<BTreeMap<String, Type>>),
    Optional(Arc<Type>),
    /// A message type, whose fields are not known.
    Message(String),
}

impl Type {
    /// The type of the values of a schema; `None` if expressions cannot use them.
    pub(crate) fn of_schema(schema: &Value) -> Option<Self> {
        let set = |key: &str| schema.get(key) == Some(&Value::Bool(true));
        let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
        if set("x-kubernetes-int-or-string") {
            return Some(Self::Dynamic);
        }
        Some(match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
            "boolean" => Self::Bool,
            "integer" => Self::Int,
            "number" => Self::Double,
            "string" => Self::of_text(schema),
            "array" => {
                let items = schema.get("items")?;
                let most = limit("maxItems").unwrap_or_else(|| fitting(least_size(items).saturating_add(1)));
                let items = Arc::new(Self::of_schema(items)?);
                Self::List { items, most }
            }
            "object" => match schema.get("additionalProperties") {
                Some(values) if values.is_object() => {
                    let most = limit("maxProperties").unwrap_or_else(|| fitting(least_size(values).saturating_add(6)));
                    let values = Arc::new(Self::of_schema(values)?);
                    Self::Map { values, most }
                }
                _ => Self::of_object(schema, set("x-kubernetes-embedded-resource")),
            },
            _ => return None,
        })
    }

    /// The type of the root of a schema, where the name is part of the metadata.
    pub(crate) fn of_root(schema: &Value) -> Self {
        Self::of_object(schema, true)
    }

    /// The type of a map's keys. Upstream's estimate of their size is 0.
    pub(crate) const KEY: Self = Self::Text { most: 0 };

    /// The type of a text without further limits.
    pub(crate) const fn any_text() -> Self {
        Self::Text {
            most: MAX_REQUEST.saturating_sub(2),
        }
    }

    fn of_object(schema: &Value, is_resource: bool) -> Self {
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let mut fields: BTreeMap<String, Self> = properties
            .filter_map(|(name, schema)| Some((escape(name)?, Self::of_schema(schema)?)))
            .collect();
        if is_resource {
            let names = ["name", "generateName"].map(|name| (name.to_owned(), Self::any_text()));
            fields.insert("metadata".to_owned(), Self::Object(Arc::new(names.into())));
            fields.insert("apiVersion".to_owned(), Self::any_text());
            fields.insert("kind".to_owned(), Self::any_text());
        }
        Self::Object(Arc::new(fields))
    }

    fn of_text(schema: &Value) -> Self {
        let longest = || {
            let allowed = schema.get("enum").and_then(Value::as_array)?;
            let lengths = allowed.iter().filter_map(Value::as_str).map(str::len);
            lengths.max().map(|length| length as u64)
        };
        // A character has up to four bytes.
        let most = schema
            .get("maxLength")
            .and_then(Value::as_u64)
            .map(|characters| characters.saturating_mul(4))
            .or_else(longest)
            .unwrap_or(MAX_REQUEST.saturating_sub(2));
        match schema.get("format").and_then(Value::as_str) {
            Some("date-time" | "date") => Self::Timestamp,
            Some("duration") => Self::Duration,
            Some("byte") => Self::Bytes { most },
            _ => Self::Text { most },
        }
    }

    /// The maximum size of a value; `None` for types without a size.
    pub(super) fn most(&self) -> Option<u64> {
        match self {
            Self::Text { most } | Self::Bytes { most } | Self::List { most, .. } | Self::Map { most, .. } => {
                Some(*most)
            }
            Self::Dynamic => Some(MAX_REQUEST.saturating_sub(2)),
            _ => None,
        }
    }

    /// The type of elements, or of keys, over which a comprehension iterates.
    pub(super) fn elements(&self) -> Self {
        match self {
            Self::List { items, .. } => items.as_ref().clone(),
            Self::Map { .. } => Self::KEY,
            _ => Self::Dynamic,
        }
    }

    /// As in error messages of upstream.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Dynamic => "dyn".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Uint => "uint".to_owned(),
            Self::Double => "double".to_owned(),
            Self::Text { .. } => "string".to_owned(),
            Self::Bytes { .. } => "bytes".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::List { items, .. } => format!("list({})", items.name()),
            Self::Map { values, .. } => format!("map(string, {})", values.name()),
            Self::Object(_) => "object".to_owned(),
            Self::Optional(inner) => format!("optional_type({})", inner.name()),
            Self::Message(name) => name.clone(),
        }
    }
}

/// How many values of that size a request can contain.
fn fitting(size: u64) -> u64 {
    MAX_REQUEST.saturating_sub(2).checked_div(size).unwrap_or(MAX_REQUEST)
}

/// The minimum size of an encoded value.
pub(crate) fn least_size(schema: &Value) -> u64 {
    match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
        "boolean" => 4,
        "string" => match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => 21,
            Some("date") => 12,
            Some("duration") => 4,
            _ => 2,
        },
        "array" => 2,
        "object" => {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let properties = schema.get("properties");
            required
                .filter_map(Value::as_str)
                .filter_map(|name| {
                    let property = properties?.get(name)?;
                    let least = least_size(property).saturating_add(name.len() as u64);
                    property.get("default").is_none().then(|| least.saturating_add(4))
                })
                .fold(2, u64::saturating_add)
        }
        _ => 1,
    }
}

/// The name of a property in expressions; `None` if it cannot be used in them.
pub(crate) fn escape(name: &str) -> Option<String> {
    if LITERALS.contains(&name) || RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let first = name.chars().next()?;
    let good = |next: char| next.is_ascii_alphanumeric() || "_.-/".contains(next);
    if first.is_ascii_digit() || !name.chars().all(good) {
        return None;
    }
    Some(
        name.replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__"),
    )
}
