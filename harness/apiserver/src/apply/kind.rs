//! The types of values as merging sees them: one view of the table of built-in types and of the schemas of custom
//! resources. The rules are those of upstream's conversion from OpenAPI (`kube-openapi/pkg/schemaconv`).

use serde_json::Value;

use super::path::Element;
use crate::resource;
use crate::schema::{Additional, ListType, Node, Type as JsonType};
use crate::types::table::{Field, Form, List, Shape, Type, Zero, table};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    /// Any value, without structure.
    Opaque,
    /// Any value; objects have structure, lists have none.
    Deduced,
    /// A string.
    Text,
    /// A built-in type.
    BuiltIn(&'a Type, Granularity),
    /// A field, item or member of a built-in type.
    Part(&'a Shape, Option<&'a Field>),
    /// A value of a custom resource.
    Custom(&'a Node, Openness),
    /// A custom resource itself, or an object embedded into one.
    Object(&'a Node, Openness),
}

/// Whether an object is one value for its managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// Its members have managers.
    Members,
    /// It has managers as a whole.
    Whole,
}

/// Whether undeclared fields are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Openness {
    /// Only where the schema of the value allows them.
    Declared,
    /// Everywhere, because a schema above preserves unknown fields.
    Open,
}

/// The structure of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Structure<'a> {
    /// None: one value.
    Scalar(Scalar),
    /// A list.
    List(Items<'a>),
    /// An object with members of this type.
    Object(Kind<'a>, Granularity),
}

/// The values that a scalar can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Any,
    Number,
    Text,
    Bool,
}

/// The items of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items<'a> {
    /// The type of each item.
    pub(crate) kind: Kind<'a>,
    /// How items are identified.
    pub(crate) identity: Identity<'a>,
}

/// How list items are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity<'a> {
    /// Not at all: the list is one value.
    Whole,
    /// By their value.
    Set,
    /// By one member.
    Key(&'a str),
    /// By members of a built-in type.
    BuiltInKeys(&'a [&'static str]),
    /// By members of a custom resource.
    CustomKeys(&'a [String]),
}

/// A list item cannot be identified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unidentified {
    #[error("associative list with keys may not have a null element")]
    Null,
    #[error("associative list with keys may not have non-map elements")]
    NotAnObject,
    #[error(
        "associative list with keys has an element that omits all key fields {} (and doesn't have default values for \
         any key fields)",
        quoted(.0)
    )]
    NoKeys(Vec<String>),
    #[error("associative list without keys has an element that's a map type")]
    ObjectInSet,
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
}

/// Texts as Go formats a list of quoted strings.
fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

impl<'a> Kind<'a> {
    /// The type of the objects of a resource.
    pub(crate) fn of(shape: &'a resource::Shape) -> Self {
        match shape {
            resource::Shape::BuiltIn(name) => built_in(name),
            resource::Shape::Custom(schema) => Self::Object(schema.root(), Openness::Declared),
        }
    }

    /// Whether the type changes with a definition.
    pub(crate) fn can_change(self) -> bool {
        matches!(self, Self::Custom(..) | Self::Object(..))
    }

    /// Whether objects can have any members, none of which is declared.
    pub(crate) fn is_free_form(self) -> bool {
        match self {
            Self::Opaque | Self::Deduced => true,
            Self::Custom(node, open) => {
                node.properties.is_empty() && matches!(undeclared(node, open), Some(Self::Deduced))
            }
            _ => false,
        }
    }

    /// The structure of a value of this type. Null, absent values and those of a wrong type get the first structure
    /// that the type allows.
    pub(crate) fn structure(self, value: Option<&Value>) -> Structure<'a> {
        let (object, scalar, list) = (self.object(), self.scalar(), self.list());
        let object = object.map(|granularity| Structure::Object(self, granularity));
        let scalar = scalar.map(Structure::Scalar);
        let list = list.map(Structure::List);
        let matching = match value {
            Some(Value::Object(_)) => object,
            Some(Value::Array(_)) => list,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
            Some(Value::Null) | None => None,
        };
        let first = matching.or(object).or(scalar).or(list);
        first.unwrap_or(Structure::Scalar(Scalar::Any))
    }

    fn object(self) -> Option<Granularity> {
        match self {
            Self::Opaque => Some(Granularity::Whole),
            Self::Deduced => Some(Granularity::Members),
            Self::Text => None,
            Self::BuiltIn(type_, granularity) => match type_.form {
                Form::Object | Form::AnyObject | Form::Json => Some(granularity),
                Form::SchemaOrArray | Form::SchemaOrBool | Form::SchemaOrStrings => Some(granularity),
                Form::Quantity | Form::IntOrString | Form::Time | Form::MicroTime => None,
            },
            Self::Part(Shape::Type(place), field) => table().get(*place)?.kind_of(field).object(),
            Self::Part(Shape::Map(_), field) => Some(granularity_of(field)),
            Self::Part(..) => None,
            Self::Custom(node, _) | Self::Object(node, _) => {
                let granularity = if node.atomic_map {
                    Granularity::Whole
                } else {
                    Granularity::Members
                };
                matches!(node.type_, None | Some(JsonType::Object)).then_some(granularity)
            }
        }
    }

    fn scalar(self) -> Option<Scalar> {
        match self {
            Self::Opaque | Self::Deduced => Some(Scalar::Any),
            Self::Text => Some(Scalar::Text),
            Self::BuiltIn(type_, _) => match type_.form {
                Form::Object | Form::AnyObject if !is_raw(type_) => None,
                _ => Some(Scalar::Any),
            },
            Self::Part(Shape::Type(place), field) => table().get(*place)?.kind_of(field).scalar(),
            Self::Part(Shape::String | Shape::Bytes, _) => Some(Scalar::Text),
            Self::Part(Shape::Bool, _) => Some(Scalar::Bool),
            Self::Part(Shape::Int32 | Shape::Int64 | Shape::Double, _) => Some(Scalar::Number),
            Self::Part(Shape::List(_) | Shape::Map(_), _) => None,
            Self::Custom(node, _) | Self::Object(node, _) => match node.type_ {
                None => Some(Scalar::Any),
                Some(JsonType::Integer | JsonType::Number) => Some(Scalar::Number),
                Some(JsonType::Boolean) => Some(Scalar::Bool),
                Some(JsonType::String) => match node.limits.format.as_deref() {
                    None | Some("" | "byte") => Some(Scalar::Text),
                    Some(_) => Some(Scalar::Any),
                },
                Some(JsonType::Object | JsonType::Array) => None,
            },
        }
    }

    fn list(self) -> Option<Items<'a>> {
        let whole = |kind| Items {
            kind,
            identity: Identity::Whole,
        };
        match self {
            Self::Opaque | Self::Deduced => Some(whole(Self::Opaque)),
            Self::Text => None,
            Self::BuiltIn(type_, _) => match type_.form {
                Form::Json | Form::SchemaOrArray | Form::SchemaOrBool | Form::SchemaOrStrings => {
                    Some(whole(Self::Opaque))
                }
                Form::AnyObject if is_raw(type_) => Some(whole(Self::Opaque)),
                _ => None,
            },
            Self::Part(Shape::Type(place), field) => table().get(*place)?.kind_of(field).list(),
            Self::Part(Shape::List(inner), field) => Some(Items {
                kind: Self::Part(inner, None),
                identity: field.map_or(Identity::Whole, identity_of),
            }),
            Self::Part(..) => None,
            Self::Custom(node, open) | Self::Object(node, open) => {
                let open = opened(node, open);
                let kind = node.items.as_deref().map_or(Self::Opaque, |item| custom(item, open));
                let identity = match &node.list {
                    ListType::Atomic => Identity::Whole,
                    ListType::Set => Identity::Set,
                    ListType::Map(keys) => Identity::CustomKeys(keys),
                };
                matches!(node.type_, None | Some(JsonType::Array)).then_some(Items { kind, identity })
            }
        }
    }

    /// The type of a member, and whether the schema declares it; `None` if no such member is allowed.
    pub(crate) fn member(self, name: &str) -> Option<(Kind<'a>, bool)> {
        match self {
            Self::Opaque => Some((Self::Opaque, false)),
            Self::Deduced => Some((Self::Deduced, false)),
            Self::Text => None,
            Self::BuiltIn(type_, _) if type_.form != Form::Object => {
                let kind = if is_raw(type_) { Self::Opaque } else { Self::Deduced };
                Some((kind, false))
            }
            Self::BuiltIn(type_, _) => {
                let field = type_.field(name)?;
                Some((Self::Part(&field.shape, Some(field)), true))
            }
            Self::Part(Shape::Type(place), field) => table().get(*place)?.kind_of(field).member(name),
            Self::Part(Shape::Map(inner), _) => Some((Self::Part(inner, None), false)),
            Self::Part(..) => None,
            Self::Object(node, open) => match name {
                "apiVersion" | "kind" => Some((Self::Text, true)),
                "metadata" => Some((built_in(OBJECT_META), true)),
                _ => custom_member(node, open, name, true),
            },
            Self::Custom(node, open) => custom_member(node, open, name, false),
        }
    }

    /// The built-in type, if it is an object with declared fields.
    fn type_(self) -> Option<&'a Type> {
        let type_ = match self {
            Self::BuiltIn(type_, _) => type_,
            Self::Part(Shape::Type(place), _) => table().get(*place)?,
            _ => return None,
        };
        (type_.form == Form::Object).then_some(type_)
    }

    /// The value that a member has when it is absent: null for a field that upstream always writes.
    pub(crate) fn absent(self, name: &str) -> Option<&'static Value> {
        let field = self.type_()?.field(name)?;
        is_null_if_unset(field).then_some(&Value::Null)
    }

    /// The fields that an object without them has as null.
    pub(crate) fn nulls(self) -> impl Iterator<Item = &'a str> {
        let fields = self.type_().map(|type_| type_.fields.iter()).into_iter().flatten();
        fields.filter(|field| is_null_if_unset(field)).map(|field| field.name)
    }

    /// The default of a member that identifies an item.
    fn key_default(self, name: &str) -> Option<Value> {
        match self {
            Self::Custom(node, _) | Self::Object(node, _) => node.properties.get(name)?.default.clone(),
            _ => {
                let (Self::Part(shape, Some(field)), _) = self.member(name)? else {
                    return None;
                };
                match (name, shape) {
                    ("protocol", Shape::String) => Some("TCP".into()),
                    (_, Shape::String) if field.always.is_some() => Some("".into()),
                    (_, Shape::Int32 | Shape::Int64) if field.always.is_some() => Some(0.into()),
                    _ => None,
                }
            }
        }
    }
}

impl<'a> Items<'a> {
    /// Whether each item has managers.
    pub(crate) fn is_associative(&self) -> bool {
        self.identity != Identity::Whole
    }

    /// What identifies an item of an associative list.
    pub(crate) fn element(&self, item: &Value) -> Result<Element, Unidentified> {
        match self.identity {
            Identity::Whole | Identity::Set => match item {
                Value::Object(_) => Err(Unidentified::ObjectInSet),
                Value::Array(_) => Err(Unidentified::ListInSet),
                Value::Null => Err(Unidentified::NullInSet),
                scalar => Ok(Element::Item(scalar.clone().into())),
            },
            Identity::Key(key) => self.keyed(item, [key].into_iter()),
            Identity::BuiltInKeys(keys) => self.keyed(item, keys.iter().copied()),
            Identity::CustomKeys(keys) => self.keyed(item, keys.iter().map(String::as_str)),
        }
    }

    fn keyed<'k>(&self, item: &Value, keys: impl Iterator<Item = &'k str> + Clone) -> Result<Element, Unidentified> {
        let members = match item {
            Value::Null => return Err(Unidentified::Null),
            Value::Object(members) => members,
            _ => return Err(Unidentified::NotAnObject),
        };
        let found = keys.clone().filter_map(|key| {
            let value = members.get(key).cloned().or_else(|| self.kind.key_default(key))?;
            Some((key.to_owned(), value.into()))
        });
        let found: std::collections::BTreeMap<_, _> = found.collect();
        if found.is_empty() {
            return Err(Unidentified::NoKeys(keys.map(str::to_owned).collect()));
        }
        Ok(Element::Key(found))
    }
}

impl Type {
    /// The type of a field of this type.
    fn kind_of(&self, field: Option<&Field>) -> Kind<'_> {
        let whole = self.atomic || field.is_some_and(|field| field.atomic_map);
        Kind::BuiltIn(
            self,
            if whole || is_raw(self) {
                Granularity::Whole
            } else {
                Granularity::Members
            },
        )
    }
}

fn built_in(name: &str) -> Kind<'static> {
    table().find(name).map_or(Kind::Deduced, |type_| type_.kind_of(None))
}

/// `RawExtension` has no structure; other objects without declared fields have.
fn is_raw(type_: &Type) -> bool {
    type_.form == Form::AnyObject && type_.name.ends_with(".RawExtension")
}

fn granularity_of(field: Option<&Field>) -> Granularity {
    if field.is_some_and(|field| field.atomic_map) {
        Granularity::Whole
    } else {
        Granularity::Members
    }
}

fn identity_of(field: &Field) -> Identity<'_> {
    match (&field.list, field.merge, field.merge_key) {
        (Some(List::Atomic), _, _) | (None, false, _) => Identity::Whole,
        (Some(List::Set), _, _) | (None, true, None) => Identity::Set,
        (Some(List::Map(keys)), _, _) => Identity::BuiltInKeys(keys),
        (None, true, Some(key)) => Identity::Key(key),
    }
}

/// Whether upstream writes the field as null if it is not set. Of zero values that are not null, stored objects have
/// the fields.
fn is_null_if_unset(field: &Field) -> bool {
    match field.always {
        Some(Zero::Null) => true,
        Some(Zero::Value) => field.type_().is_some_and(|type_| {
            field.shape.is_type() && matches!(type_.form, Form::Time | Form::MicroTime | Form::Json | Form::AnyObject)
        }),
        None => false,
    }
}

fn opened(node: &Node, open: Openness) -> Openness {
    if node.preserve_unknown { Openness::Open } else { open }
}

fn custom(node: &Node, open: Openness) -> Kind<'_> {
    if node.embedded {
        Kind::Object(node, open)
    } else {
        Kind::Custom(node, open)
    }
}

fn custom_member<'a>(node: &'a Node, open: Openness, name: &str, is_object: bool) -> Option<(Kind<'a>, bool)> {
    match node.properties.get(name) {
        Some(member) => Some((custom(member, opened(node, open)), true)),
        // An object has at least apiVersion, kind and metadata.
        None if is_object && node.additional.is_none() && opened(node, open) == Openness::Declared => None,
        None => undeclared(node, open).map(|kind| (kind, false)),
    }
}

/// The type of members that are not declared.
fn undeclared(node: &Node, open: Openness) -> Option<Kind<'_>> {
    let open = opened(node, open);
    match &node.additional {
        Some(Additional::Schema(member)) => Some(custom(member, open)),
        Some(Additional::Anything) => Some(Kind::Deduced),
        None if open == Openness::Open || node.properties.is_empty() => Some(Kind::Deduced),
        None => None,
    }
}
