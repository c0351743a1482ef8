//! The table of built-in types: their fields with shape, protobuf tag and merge behavior. Parsed from
//! `kubernetes-1.36.tsv` (written by `make generate`) on first use, which keeps server start fast.
//!
//! A line that starts with a name is a type: OpenAPI name, apiVersion, kind (`-` for types that are only part of
//! others), `map=atomic` if server-side apply treats the object as one value. A line that starts with a tab is a
//! field of that type: name, protobuf tag (`2.5` is field 5 of the message in field 2, which JSON inlines), shape
//! (`[]` a list of, `{}` a map to, then a scalar or a type), flags, and the values of an enumeration.

use std::sync::LazyLock;

const TEXT: &str = include_str!("kubernetes-1.36.tsv");

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(TEXT));

pub(crate) fn table() -> &'static Table {
    &TABLE
}

/// All types, sorted by name.
#[derive(Debug)]
pub(crate) struct Table {
    types: Vec<Type>,
}

/// One type.
#[derive(Debug)]
pub(crate) struct Type {
    /// For instance `io.k8s.api.core.v1.Pod`.
    pub(crate) name: &'static str,
    /// apiVersion and kind, for types that are sent on their own.
    pub(crate) kind: Option<(&'static str, &'static str)>,
    /// Whether server-side apply treats the object as one value.
    pub(crate) atomic: bool,
    /// The JSON form.
    pub(crate) form: Form,
    /// Sorted by name; empty unless the form is `Object`.
    pub(crate) fields: Vec<Field>,
    /// The indexes of the fields that protobuf has, sorted by their tags.
    by_tag: Vec<u16>,
}

/// The JSON form of a type. All forms except `Object` have special rules throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An object with the listed fields.
    Object,
    /// `100m`, or a number.
    Quantity,
    /// `80` or `80%`.
    IntOrString,
    /// RFC 3339, whole seconds.
    Time,
    /// RFC 3339, microseconds.
    MicroTime,
    /// Anything.
    Json,
    /// Any object: `RawExtension`, `FieldsV1`.
    AnyObject,
    /// `items` of a JSON schema.
    SchemaOrArray,
    /// `additionalProperties` of a JSON schema.
    SchemaOrBool,
    /// `dependencies` of a JSON schema.
    SchemaOrStrings,
}

/// A field.
#[derive(Debug)]
pub(crate) struct Field {
    /// The name in JSON.
    pub(crate) name: &'static str,
    /// The field numbers from the message to the field; empty if protobuf has no such field.
    pub(crate) tag: Vec<u32>,
    /// The shape of its value.
    pub(crate) shape: Shape,
    /// Whether an explicit zero value is significant.
    pub(crate) keep: bool,
    /// Whether upstream writes it even if nothing is set.
    pub(crate) always: Option<Zero>,
    /// Whether the schema requires it.
    pub(crate) required: bool,
    /// `x-kubernetes-list-type` and its keys.
    pub(crate) list: Option<List>,
    /// `x-kubernetes-map-type: atomic`.
    pub(crate) atomic_map: bool,
    /// The key by which a strategic merge patch finds list items.
    pub(crate) merge_key: Option<&'static str>,
    /// Whether a strategic merge patch merges the list.
    pub(crate) merge: bool,
    /// Whether a patch may list the keys to retain, as for unions.
    pub(crate) retain_keys: bool,
    /// Whether a strategic merge patch replaces the map.
    pub(crate) replace: bool,
    /// The values that OpenAPI lists for the text, or for each text of the list; empty: any.
    pub(crate) values: Vec<&'static str>,
}

/// The value of a field that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    /// Null: a pointer, list or map.
    Null,
    /// The zero value of its type; that of an object contains the fields that are always written.
    Value,
}

/// How server-side apply treats a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// As one value.
    Atomic,
    /// As a set of scalars.
    Set,
    /// As items identified by keys.
    Map(Vec<&'static str>),
}

/// The shape of a field, list item or map value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Text.
    String,
    /// Base64 text.
    Bytes,
    /// true or false.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A number.
    Double,
    /// Another type, by its index in the table.
    Type(usize),
    /// A list.
    List(Box<Shape>),
    /// A map with string keys.
    Map(Box<Shape>),
}

impl Table {
    /// Skips lines that it cannot parse; a test checks that there are none.
    fn parse(text: &'static str) -> Self {
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let mut types: Vec<Type> = lines()
            .filter(|line| !line.starts_with('\t'))
            .filter_map(Type::parse)
            .collect();
        let names: Vec<&str> = types.iter().map(|type_| type_.name).collect();
        let mut current = 0;
        for line in lines() {
            match line.strip_prefix('\t') {
                None => {
                    let name = line.split('\t').next().unwrap_or_default();
                    current = names.binary_search(&name).unwrap_or(usize::MAX);
                }
                Some(line) => {
                    if let (Some(type_), Some(field)) = (types.get_mut(current), Field::parse(line, &names)) {
                        type_.fields.push(field);
                    }
                }
            }
        }
        types.iter_mut().for_each(Type::sort_tags);
        Self { types }
    }

    /// All types, sorted by name.
    pub(crate) fn types(&self) -> &[Type] {
        &self.types
    }

    /// The type with that name.
    pub(crate) fn find(&self, name: &str) -> Option<&Type> {
        let index = self.types.binary_search_by(|type_| type_.name.cmp(name)).ok()?;
        self.types.get(index)
    }

    /// The type of a kind's objects. Delete options exist in every group.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Type> {
        match (api_version, kind) {
            (_, "DeleteOptions") => self.find("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
            ("policy/v1beta1", "Eviction") => self.find("io.k8s.api.policy.v1.Eviction"),
            ("v1", "Status") => self.find("io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
            _ => self.types.iter().find(|type_| type_.kind == Some((api_version, kind))),
        }
    }

    /// The type at that index.
    pub(crate) fn get(&self, index: usize) -> Option<&Type> {
        self.types.get(index)
    }
}

impl Type {
    fn parse(line: &'static str) -> Option<Self> {
        let mut parts = line.split('\t');
        let (name, version, kind) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            name,
            kind: (kind != "-").then_some((version, kind)),
            atomic: parts.next() == Some("map=atomic"),
            form: Form::of(name),
            fields: Vec::new(),
            by_tag: Vec::new(),
        })
    }

    fn sort_tags(&mut self) {
        let mut tags: Vec<(&[u32], u16)> = (0_u16..)
            .zip(&self.fields)
            .filter(|(_, field)| !field.tag.is_empty())
            .map(|(index, field)| (field.tag.as_slice(), index))
            .collect();
        tags.sort_unstable();
        self.by_tag = tags.into_iter().map(|(_, index)| index).collect();
    }

    /// The indexes of the fields that protobuf has, sorted by their tags.
    pub(crate) fn by_tag(&self) -> &[u16] {
        &self.by_tag
    }

    /// The field with that name.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let index = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        self.fields.get(index)
    }

    /// The last part of the name, for instance `Pod`.
    pub(crate) fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Form {
    fn of(name: &str) -> Self {
        match name {
            "io.k8s.apimachinery.pkg.api.resource.Quantity" => Self::Quantity,
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Self::IntOrString,
            "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Self::Time,
            "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Self::MicroTime,
            "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1" | "io.k8s.apimachinery.pkg.runtime.RawExtension" => {
                Self::AnyObject
            }
            _ => match name.strip_prefix("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.") {
                Some("JSON") => Self::Json,
                Some("JSONSchemaPropsOrArray") => Self::SchemaOrArray,
                Some("JSONSchemaPropsOrBool") => Self::SchemaOrBool,
                Some("JSONSchemaPropsOrStringArray") => Self::SchemaOrStrings,
                _ => Self::Object,
            },
        }
    }
}

impl Field {
    fn parse(line: &'static str, names: &[&str]) -> Option<Self> {
        let mut parts = line.split('\t');
        let (name, tag, shape) = (parts.next()?, parts.next()?, parts.next()?);
        let tag = match tag {
            "-" => Vec::new(),
            numbers => numbers.split('.').map(str::parse).collect::<Result<_, _>>().ok()?,
        };
        let mut field = Self {
            name,
            keep: tag.is_empty(),
            tag,
            shape: Shape::parse(shape, names)?,
            always: None,
            required: false,
            list: None,
            atomic_map: false,
            merge_key: None,
            merge: false,
            retain_keys: false,
            replace: false,
            values: Vec::new(),
        };
        let flags = parts.next().filter(|flags| !flags.is_empty());
        if let Some(values) = parts.next() {
            field.values = values.split(',').collect();
        }
        for flag in flags.into_iter().flat_map(|flags| flags.split(' ')) {
            match flag.split_once('=').unwrap_or((flag, "")) {
                ("keep", _) => field.keep = true,
                ("always", "null") => field.always = Some(Zero::Null),
                ("always", _) => field.always = Some(Zero::Value),
                ("required", _) => field.required = true,
                ("list", "atomic") => field.list = Some(List::Atomic),
                ("list", "set") => field.list = Some(List::Set),
                ("list", keys) => {
                    field.list = Some(List::Map(keys.strip_prefix("map:")?.split(',').collect()));
                }
                ("map", value) => field.atomic_map = value == "atomic",
                ("merge", key) => field.merge_key = Some(key),
                ("strategy", strategies) => {
                    field.merge = strategies.split(',').any(|strategy| strategy == "merge");
                    field.retain_keys = strategies.split(',').any(|strategy| strategy == "retainKeys");
                    field.replace = strategies.split(',').any(|strategy| strategy == "replace");
                }
                _ => return None,
            }
        }
        Some(field)
    }

    /// The type of the field itself, or of its items or values.
    pub(crate) fn type_(&self) -> Option<&'static Type> {
        self.shape.type_()
    }
}

impl Shape {
    fn parse(text: &str, names: &[&str]) -> Option<Self> {
        if let Some(inner) = text.strip_prefix("[]") {
            return Some(Self::List(Box::new(Self::parse(inner, names)?)));
        }
        if let Some(inner) = text.strip_prefix("{}") {
            return Some(Self::Map(Box::new(Self::parse(inner, names)?)));
        }
        match text {
            "string" => Some(Self::String),
            "bytes" => Some(Self::Bytes),
            "bool" => Some(Self::Bool),
            "int32" => Some(Self::Int32),
            "int64" => Some(Self::Int64),
            "double" => Some(Self::Double),
            name => names.binary_search(&name).ok().map(Self::Type),
        }
    }

    /// Whether it is a type itself, not a list or map of one.
    pub(crate) fn is_type(&self) -> bool {
        matches!(self, Self::Type(_))
    }

    /// The innermost type of nested lists and maps.
    pub(crate) fn type_(&self) -> Option<&'static Type> {
        match self {
            Self::Type(index) => table().get(*index),
            Self::List(inner) | Self::Map(inner) => inner.type_(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_parsed() {
        let lines = TEXT.lines().filter(|line| !line.starts_with('#')).count();
        let fields: usize = table().types.iter().map(|type_| type_.fields.len()).sum();
        assert_eq!(lines, table().types.len() + fields);
    }

    #[test]
    fn types_and_fields_are_sorted() {
        assert!(table().types.is_sorted_by(|one, other| one.name < other.name));
        for type_ in &table().types {
            assert!(
                type_.fields.is_sorted_by(|one, other| one.name < other.name),
                "{}",
                type_.name
            );
        }
    }

    #[test]
    fn kinds_are_found_by_group_version_and_kind() {
        let name = |version, kind| table().of_kind(version, kind).map(|type_| type_.name);
        assert_eq!(name("v1", "Event"), Some("io.k8s.api.core.v1.Event"));
        assert_eq!(name("events.k8s.io/v1", "Event"), Some("io.k8s.api.events.v1.Event"));
        assert_eq!(
            name("apps/v1", "DeleteOptions"),
            Some("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
        );
        assert_eq!(name("apps/v1", "Pod"), None);
    }

    #[test]
    fn merge_keys_are_those_of_upstream() {
        let spec = table().find("io.k8s.api.core.v1.PodSpec").unwrap();
        let key = |field: &str| {
            spec.field(field)
                .and_then(|field| field.merge_key.filter(|_| field.merge))
        };
        assert_eq!(key("containers"), Some("name"));
        assert_eq!(key("topologySpreadConstraints"), Some("topologyKey"));
        assert_eq!(key("tolerations"), None);
        assert!(spec.field("volumes").unwrap().retain_keys);
    }
}
