//! The fields that a configuration mentions: those that its manager owns.

use std::collections::BTreeSet;

use serde_json::Value;

use super::kind::{Granularity, Kind, Structure};
use super::path::Element;
use super::set::FieldSet;

/// The fields and list items of a value.
pub(crate) fn fields_of(kind: Kind<'_>, value: &Value) -> FieldSet {
    below(kind, value).1
}

/// Whether a value itself counts as a field of its parent, and the fields below it.
fn below(kind: Kind<'_>, value: &Value) -> (bool, FieldSet) {
    let mut fields = FieldSet::default();
    match (kind.structure(Some(value)), value) {
        (Structure::Scalar(_) | Structure::Object(_, Granularity::Whole), _) => return (true, fields),
        (Structure::List(items), _) if !items.is_associative() => return (true, fields),
        (Structure::Object(kind, Granularity::Members), Value::Object(members)) => {
            for (name, member) in members {
                let (kind, declared) = kind.member(name).unwrap_or((Kind::Deduced, false));
                let (is_field, children) = below(kind, member);
                let is_empty = member.is_null() || member.as_object().is_some_and(serde_json::Map::is_empty);
                let is_field = is_field || is_empty || !declared;
                fields.insert_below(&Element::Field(name.clone()), is_field, children);
            }
        }
        (Structure::List(items), Value::Array(list)) => {
            let elements: Vec<Option<Element>> = list.iter().map(|item| items.element(item).ok()).collect();
            let mut seen = BTreeSet::new();
            let twice: BTreeSet<&Element> = elements
                .iter()
                .flatten()
                .filter(|element| !seen.insert(*element))
                .collect();
            for (item, element) in list.iter().zip(&elements) {
                let Some(element) = element else { continue };
                let children = if twice.contains(element) {
                    FieldSet::default()
                } else {
                    below(items.kind, item).1
                };
                fields.insert_below(element, true, children);
            }
        }
        (Structure::Object(..) | Structure::List(_), _) => {}
    }
    (false, fields)
}

/// Adds to a set the declared fields above its fields, so that they are removed with the last of these.
pub(crate) fn with_declared_parents(kind: Kind<'_>, fields: &FieldSet) -> FieldSet {
    let mut result = FieldSet::default();
    for (element, is_member, children) in fields.elements() {
        let (below, declared) = match element {
            Element::Field(name) => kind.member(name).unwrap_or((Kind::Opaque, false)),
            _ => match kind.structure(Some(&Value::Array(Vec::new()))) {
                Structure::List(items) => (items.kind, false),
                _ => (Kind::Opaque, false),
            },
        };
        let is_member = is_member || (declared && !children.is_empty());
        result.insert_below(element, is_member, with_declared_parents(below, children));
    }
    result
}
