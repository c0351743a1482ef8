//! The compiled form of a schema.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// The schema of one value. In `all_of` and similar only the limits are set.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// `None` if the schema allows any type, or an integer or string.
    pub(super) type_: Option<Type>,
    pub(super) nullable: bool,
    pub(super) int_or_string: bool,
    pub(super) preserve_unknown: bool,
    /// Whether the value is an object with its own apiVersion, kind and metadata.
    pub(super) embedded: bool,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Option<Additional>,
    pub(super) items: Option<Box<Node>>,
    pub(super) default: Option<Value>,
    pub(super) list: ListType,
    pub(super) limits: Limits,
}

/// JSON types, with integers separate from numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// The treatment of members that are not among the properties.
#[derive(Clone, Debug)]
pub(super) enum Additional {
    /// They can have any value.
    Anything,
    /// They match this schema.
    Schema(Box<Node>),
}

/// The identity of list items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
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
pub(super) struct Limits {
    pub(super) required: Vec<String>,
    pub(super) allowed: Option<Vec<Value>>,
    pub(super) format: Option<String>,
    pub(super) pattern: Option<Regex>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

/// A minimum or maximum of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) value: f64,
    /// Whether the value itself is out of bounds.
    pub(super) exclusive: bool,
}

impl Type {
    /// The type of that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
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
    pub(super) fn name(self) -> &'static str {
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
    pub(super) fn fits(self, value: &Value) -> bool {
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
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(node), _) => Some(node),
            (None, Some(Additional::Schema(node))) => Some(node),
            (None, _) => None,
        }
    }

    /// Whether a null is dropped.
    pub(super) fn drops_null(&self) -> bool {
        let open = self.preserve_unknown && self.type_.is_none();
        !self.nullable && !open
    }
}

impl Limits {
    /// The schemas in `allOf`, `anyOf`, `oneOf` and `not`.
    pub(super) fn logical(&self) -> impl Iterator<Item = &Node> {
        self.all_of
            .iter()
            .chain(&self.any_of)
            .chain(&self.one_of)
            .chain(self.not.as_deref())
    }
}
