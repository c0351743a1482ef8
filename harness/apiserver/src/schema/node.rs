//! The compiled form of a schema.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// The schema of one value. In `all_of` and similar only the limits are set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// `None` if the schema allows any type, or an integer or string.
    pub(crate) type_: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) preserve_unknown: bool,
    /// Whether the value is an object with its own apiVersion, kind and metadata.
    pub(crate) embedded: bool,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional: Option<Additional>,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) default: Option<Value>,
    pub(crate) list: ListType,
    /// Whether server-side apply treats the object as one value.
    pub(crate) atomic_map: bool,
    pub(crate) limits: Limits,
}

/// JSON types, with integers separate from numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// The treatment of members that are not among the properties.
#[derive(Clone, Debug)]
pub(crate) enum Additional {
    /// They can have any value.
    Anything,
    /// They match this schema.
    Schema(Box<Node>),
}

/// The identity of list items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// None: the list is one value.
    #[default]
    Atomic,
    /// The value; no two items are equal.
    Set,
    /// The values of these members; no two items agree in all of them.
    Map(Vec<String>),
}

/// Limits beyond the type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) required: Vec<String>,
    pub(crate) allowed: Option<Vec<Value>>,
    pub(crate) format: Option<String>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
}

/// A pattern of texts.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// As the schema has it.
    pub(crate) text: String,
    pub(crate) regex: Regex,
}

/// A minimum or maximum of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    /// Whether the value itself is out of bounds.
    pub(crate) exclusive: bool,
}

impl Type {
    /// The type of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "object" => Some(Self::Object),
            "array" => Some(Self::Array),
            "string" => Some(Self::String),
            "integer" => Some(Self::Integer),
            "number" => Some(Self::Number),
            "boolean" => Some(Self::Boolean),
            _ => None,
        }
    }

    /// The name in schemas.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// Whether a value has this type. Whole numbers are integers in any notation.
    pub(crate) fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Integer, Value::Number(number)) => {
                number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            (Self::Object, Value::Object(_))
            | (Self::Array, Value::Array(_))
            | (Self::String, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Boolean, Value::Bool(_)) => true,
            _ => false,
        }
    }
}

impl Node {
    /// The schema of a member, if it is specified.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(node), _) => Some(node),
            (None, Some(Additional::Schema(node))) => Some(node),
            (None, _) => None,
        }
    }

    /// Whether a null is dropped.
    pub(crate) fn drops_null(&self) -> bool {
        let open = self.preserve_unknown && self.type_.is_none();
        !self.nullable && !open
    }
}

impl Limits {
    /// The schemas in `allOf`, `anyOf`, `oneOf` and `not`.
    pub(crate) fn logical(&self) -> impl Iterator<Item = &Node> {
        self.all_of
            .iter()
            .chain(&self.any_of)
            .chain(&self.one_of)
            .chain(self.not.as_deref())
    }
}
