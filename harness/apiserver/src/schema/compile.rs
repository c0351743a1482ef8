//! Compiles an `openAPIV3Schema` to nodes and checks the rules of structural schemas: every value has a type,
//! references are not supported, and properties limited in `allOf` and similar are also specified outside.

use std::fmt;

use regex::Regex;
use serde_json::{Map, Value};

use super::defaults::Filler;
use super::node::{Additional, Bound, Limits, ListType, Node, Pattern, Type};
use super::{prune, validate};
use crate::regexes;
use crate::status::FieldError;

/// A position in the schema; formatted as `properties[spec].type`.
#[derive(Clone, Copy)]
enum At<'a> {
    Root,
    Key(&'a At<'a>, &'a str),
    In(&'a At<'a>, &'a str, &'a str),
    Index(&'a At<'a>, &'a str, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = match self {
            Self::Root => return Ok(()),
            Self::Key(parent, _) | Self::In(parent, ..) | Self::Index(parent, ..) => parent,
        };
        if !matches!(parent, At::Root) {
            write!(f, "{parent}.")?;
        }
        match self {
            Self::Root => Ok(()),
            Self::Key(_, key) => f.write_str(key),
            Self::In(_, key, name) => write!(f, "{key}[{name}]"),
            Self::Index(_, key, index) => write!(f, "{key}[{index}]"),
        }
    }
}

/// The kind of schema being compiled; the rules differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Property,
    Items,
    /// Within `allOf`, `anyOf`, `oneOf`, `not`.
    Logic,
}

struct Compiler {
    errors: Vec<FieldError>,
    filler: Filler,
}

/// Compiles the schema of a whole object.
pub(super) fn root(schema: &Value) -> Result<Node, Vec<FieldError>> {
    let mut compiler = Compiler {
        errors: Vec::new(),
        filler: Filler::of_schema(),
    };
    let mut node = compiler.node(schema, Place::Root, At::Root);
    compiler.metadata(schema);
    if compiler.errors.is_empty() {
        compiler.defaults(&mut node, At::Root);
    }
    if compiler.errors.is_empty() {
        Ok(node)
    } else {
        Err(compiler.errors)
    }
}

impl Compiler {
    fn forbid(&mut self, at: At<'_>, why: &str) {
        self.errors.push(FieldError::forbidden(at.to_string(), why));
    }

    fn invalid(&mut self, at: At<'_>, value: &Value, why: impl Into<String>) {
        self.errors
            .push(FieldError::invalid(at.to_string(), value.clone(), why));
    }

    fn require(&mut self, at: At<'_>, why: &str) {
        self.errors.push(FieldError::required(at.to_string(), why));
    }

    fn node(&mut self, schema: &Value, place: Place, at: At<'_>) -> Node {
        let Value::Object(map) = schema else {
            self.invalid(at, schema, "must be an object");
            return Node::default();
        };
        self.unsupported(map, at);
        let flag = |key: &str| map.get(key).and_then(Value::as_bool).unwrap_or(false);
        let mut node = Node {
            type_: self.type_(map, place, at),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            atomic_map: map.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            default: map.get("default").filter(|default| !default.is_null()).cloned(),
            ..Node::default()
        };
        self.members(map, &mut node, place, at);
        self.list_type(map, &mut node, at);
        node.limits = self.limits(map, at);
        if place == Place::Logic {
            self.logic_only(map, at);
        } else {
            self.complete(map, &node, at);
            for logical in node.limits.logical() {
                self.specified_outside(&node, logical, at);
            }
        }
        node
    }

    fn type_(&mut self, map: &Map<String, Value>, place: Place, at: At<'_>) -> Option<Type> {
        let here = At::Key(&at, "type");
        let name = map.get("type").and_then(Value::as_str).unwrap_or("");
        let type_ = Type::from_name(name);
        if type_.is_none() && !name.is_empty() {
            self.errors.push(FieldError::not_supported(
                here.to_string(),
                name,
                &["array", "boolean", "integer", "number", "object", "string"],
            ));
        }
        let set = |key: &str| map.get(key) == Some(&Value::Bool(true));
        let open = set("x-kubernetes-int-or-string") || set("x-kubernetes-preserve-unknown-fields");
        match (place, name) {
            (Place::Root, "") => self.require(here, "must not be empty at the root"),
            (Place::Root, other) if other != "object" => {
                self.invalid(here, &other.into(), "must be object at the root")
            }
            (Place::Property, "") if !open => self.require(here, "must not be empty for specified object fields"),
            (Place::Items, "") if !open => self.require(here, "must not be empty for specified array items"),
            _ => {}
        }
        type_
    }

    /// Rejects keys that structural schemas do not allow.
    fn unsupported(&mut self, map: &Map<String, Value>, at: At<'_>) {
        for key in [
            "$ref",
            "definitions",
            "dependencies",
            "deprecated",
            "discriminator",
            "id",
            "patternProperties",
            "readOnly",
            "writeOnly",
            "xml",
            "additionalItems",
        ] {
            if map.contains_key(key) {
                self.forbid(At::Key(&at, key), &format!("{key} is not supported"));
            }
        }
        if map.get("uniqueItems") == Some(&Value::Bool(true)) {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic; use x-kubernetes-list-type: set";
            self.forbid(At::Key(&at, "uniqueItems"), why);
        }
        let key = "x-kubernetes-preserve-unknown-fields";
        if let Some(value @ Value::Bool(false)) = map.get(key) {
            self.invalid(At::Key(&at, key), value, "must be true or undefined");
        }
    }

    fn members(&mut self, map: &Map<String, Value>, node: &mut Node, place: Place, at: At<'_>) {
        let (inner, items) = match place {
            Place::Logic => (Place::Logic, Place::Logic),
            _ => (Place::Property, Place::Items),
        };
        if let Some(properties) = map.get("properties").and_then(Value::as_object) {
            for (name, schema) in properties {
                let property = self.node(schema, inner, At::In(&at, "properties", name));
                node.properties.insert(name.clone(), property);
            }
        }
        let here = At::Key(&at, "additionalProperties");
        match map.get("additionalProperties") {
            None => {}
            Some(Value::Bool(false)) => self.forbid(here, "additionalProperties cannot be set to false"),
            Some(Value::Bool(true)) => node.additional = Some(Additional::Anything),
            Some(schema) => node.additional = Some(Additional::Schema(Box::new(self.node(schema, inner, here)))),
        }
        if node.additional.is_some() && !node.properties.is_empty() {
            self.forbid(here, "additionalProperties and properties are mutual exclusive");
        }
        match map.get("items") {
            None => {}
            Some(Value::Array(_)) => {
                self.forbid(At::Key(&at, "items"), "items must be a schema object and not an array")
            }
            Some(schema) => node.items = Some(Box::new(self.node(schema, items, At::Key(&at, "items")))),
        }
    }

    /// Checks the keys that a schema requires because of its type.
    fn complete(&mut self, map: &Map<String, Value>, node: &Node, at: At<'_>) {
        if node.type_ == Some(Type::Array) && node.items.is_none() {
            self.require(At::Key(&at, "items"), "must be specified");
        }
        if node.embedded {
            let here = At::Key(&at, "x-kubernetes-embedded-resource");
            if node.type_ != Some(Type::Object) {
                self.invalid(
                    At::Key(&at, "type"),
                    map.get("type").unwrap_or(&Value::Null),
                    "must be object if x-kubernetes-embedded-resource is true",
                );
            } else if node.properties.is_empty() && !node.preserve_unknown {
                self.require(
                    here,
                    "needs properties or x-kubernetes-preserve-unknown-fields: true beside it",
                );
            }
        }
    }

    fn list_type(&mut self, map: &Map<String, Value>, node: &mut Node, at: At<'_>) {
        let keys = map.get("x-kubernetes-list-map-keys");
        let here = At::Key(&at, "x-kubernetes-list-type");
        let Some(list_type) = map.get("x-kubernetes-list-type") else {
            if keys.is_some() {
                self.forbid(
                    At::Key(&at, "x-kubernetes-list-map-keys"),
                    "may only be set if x-kubernetes-list-type is map",
                );
            }
            return;
        };
        if node.type_ != Some(Type::Array) {
            self.invalid(
                At::Key(&at, "type"),
                map.get("type").unwrap_or(&Value::Null),
                "must be array if x-kubernetes-list-type is specified",
            );
        }
        match list_type.as_str() {
            Some("atomic") => {}
            Some("set") => {
                node.list = ListType::Set;
                let composite = node
                    .items
                    .as_ref()
                    .is_some_and(|items| matches!(items.type_, Some(Type::Array)));
                if composite {
                    self.forbid(
                        here,
                        "set as x-kubernetes-list-type is only for scalars, atomic maps and atomic lists",
                    );
                }
            }
            Some("map") => {
                let keys: Vec<String> = keys
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect();
                self.map_keys(&keys, node, at);
                node.list = ListType::Map(keys);
            }
            _ => {
                let given = list_type.as_str().unwrap_or_default();
                self.errors.push(FieldError::not_supported(
                    here.to_string(),
                    given,
                    &["atomic", "set", "map"],
                ));
            }
        }
    }

    fn map_keys(&mut self, keys: &[String], node: &Node, at: At<'_>) {
        let here = At::Key(&at, "x-kubernetes-list-map-keys");
        if keys.is_empty() {
            self.require(here, "must not be empty if x-kubernetes-list-type is map");
        }
        let Some(items) = &node.items else { return };
        if items.type_ != Some(Type::Object) {
            self.invalid(
                here,
                &keys.into(),
                "items must be of type object if x-kubernetes-list-type is map",
            );
        }
        for (index, key) in keys.iter().enumerate() {
            let here = At::Index(&at, "x-kubernetes-list-map-keys", index);
            match items.properties.get(key) {
                None => self.invalid(
                    here,
                    &key.as_str().into(),
                    "entries must all be names of item properties",
                ),
                Some(property) if property.default.is_none() && !items.limits.required.contains(key) => {
                    self.require(
                        here,
                        "the item's property must be required or have a default, as it is a key",
                    );
                }
                Some(_) => {}
            }
        }
    }

    fn limits(&mut self, map: &Map<String, Value>, at: At<'_>) -> Limits {
        let number = |key: &str| map.get(key).and_then(Value::as_f64);
        let count = |key: &str| map.get(key).and_then(Value::as_u64);
        let exclusive = |key: &str| map.get(key) == Some(&Value::Bool(true));
        let bound = |key: &str, other: &str| {
            number(key).map(|value| Bound {
                value,
                exclusive: exclusive(other),
            })
        };
        let texts = |key: &str| -> Vec<String> {
            let list = map.get(key).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Limits {
            required: texts("required"),
            allowed: map.get("enum").and_then(Value::as_array).cloned(),
            format: map.get("format").and_then(Value::as_str).map(str::to_owned),
            pattern: self.pattern(map, at),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: number("multipleOf").filter(|number| *number > 0.0),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of: self.alternatives(map, "allOf", at),
            any_of: self.alternatives(map, "anyOf", at),
            one_of: self.alternatives(map, "oneOf", at),
            not: map
                .get("not")
                .map(|schema| Box::new(self.node(schema, Place::Logic, At::Key(&at, "not")))),
        }
    }

    fn pattern(&mut self, map: &Map<String, Value>, at: At<'_>) -> Option<Pattern> {
        let value = map.get("pattern")?;
        let text = value.as_str().filter(|text| !text.is_empty())?;
        match Regex::new(&regexes::from_go(text)) {
            Ok(regex) => Some(Pattern {
                text: text.to_owned(),
                regex,
            }),
            Err(error) => {
                let why = format!("must be a valid regular expression, but isn't: {error}");
                self.invalid(At::Key(&at, "pattern"), value, why);
                None
            }
        }
    }

    fn alternatives(&mut self, map: &Map<String, Value>, key: &str, at: At<'_>) -> Vec<Node> {
        let schemas = map.get(key).and_then(Value::as_array).into_iter().flatten();
        schemas
            .enumerate()
            .map(|(index, schema)| self.node(schema, Place::Logic, At::Index(&at, key, index)))
            .collect()
    }

    /// `allOf` and similar may contain only limits, and the types of an int-or-string.
    fn logic_only(&mut self, map: &Map<String, Value>, at: At<'_>) {
        let types_only =
            map.len() == 1 && matches!(map.get("type").and_then(Value::as_str), Some("integer" | "string"));
        for key in [
            "type",
            "additionalProperties",
            "default",
            "nullable",
            "title",
            "description",
        ] {
            if map.contains_key(key) && !(key == "type" && types_only) {
                self.forbid(At::Key(&at, key), "must be empty to be structural");
            }
        }
        for key in map
            .keys()
            .filter(|key| key.starts_with("x-kubernetes-") && *key != "x-kubernetes-validations")
        {
            self.forbid(At::Key(&at, key), "must not be set to be structural");
        }
    }

    /// Properties limited in `allOf` and similar must be specified outside of them.
    fn specified_outside(&mut self, node: &Node, logical: &Node, at: At<'_>) {
        for (name, limited) in &logical.properties {
            match node.member(name) {
                Some(node) => self.specified_outside(node, limited, At::In(&at, "properties", name)),
                None if node.preserve_unknown || node.additional.is_some() => {}
                None => self.require(
                    At::In(&at, "properties", name),
                    "because it is limited in allOf, anyOf, oneOf or not",
                ),
            }
        }
        if let Some(limited) = &logical.items {
            match &node.items {
                Some(node) => self.specified_outside(node, limited, At::Key(&at, "items")),
                None => self.require(
                    At::Key(&at, "items"),
                    "because it is limited in allOf, anyOf, oneOf or not",
                ),
            }
        }
        for inner in logical.limits.logical() {
            self.specified_outside(node, inner, at);
        }
    }

    /// Metadata is implicit; a schema may only limit its names.
    fn metadata(&mut self, schema: &Value) {
        let Some(metadata) = schema.pointer("/properties/metadata") else {
            return;
        };
        let at = At::In(&At::Root, "properties", "metadata");
        let others = metadata["properties"].as_object().into_iter().flatten();
        let names_only = others
            .map(|(name, _)| name)
            .all(|name| name == "name" || name == "generateName");
        if !names_only || metadata.get("additionalProperties").is_some() || metadata.get("required").is_some() {
            self.forbid(
                at,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            );
        }
    }

    /// Prunes each default, completes it with nested defaults, and checks it.
    fn defaults(&mut self, node: &mut Node, at: At<'_>) {
        for (name, property) in &mut node.properties {
            self.defaults(property, At::In(&at, "properties", name));
        }
        if let Some(Additional::Schema(inner)) = &mut node.additional {
            self.defaults(inner, At::Key(&at, "additionalProperties"));
        }
        if let Some(items) = &mut node.items {
            self.defaults(items, At::Key(&at, "items"));
        }
        let Some(mut default) = node.default.take() else { return };
        let here = At::Key(&at, "default");
        let unknown = prune::prune_part(node, &mut default);
        if !unknown.is_empty() {
            self.invalid(
                here,
                &default,
                format!("must not have unknown fields: {}", unknown.join(", ")),
            );
        }
        if let Err(error) = self.filler.fill(node, &mut default) {
            self.forbid(here, &error.to_string());
            return;
        }
        let here = here.to_string();
        self.errors.extend(
            validate::validate(node, &default, None)
                .into_iter()
                .map(|error| FieldError {
                    field: if error.field.is_empty() {
                        here.clone()
                    } else {
                        format!("{here}.{}", error.field)
                    },
                    ..error
                }),
        );
        node.default = Some(default);
    }
}
