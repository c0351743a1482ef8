//! Adapts owned fields to a schema that has changed since.

use serde_json::Value;

use super::Write;
use super::kind::{Granularity, Kind, Structure};
use super::managers::Managers;
use super::path::Element;
use super::set::FieldSet;

/// Replaces fields inside lists and objects that have become one value by these lists and objects.
pub(super) fn reconcile(mut managers: Managers, write: &Write<'_>) -> Managers {
    managers.retain(|_, owned| {
        if let Some(shape) = write.versions.shape(&owned.version) {
            let kind = Kind::of(shape);
            if kind.can_change() {
                owned.fields = joined(kind, &owned.fields);
            }
        }
        true
    });
    managers
}

fn joined(kind: Kind<'_>, fields: &FieldSet) -> FieldSet {
    let mut result = FieldSet::default();
    for (element, is_member, below) in fields.elements() {
        let Some(kind) = kind_below(kind, element) else {
            result.insert_below(element, is_member, below.clone());
            continue;
        };
        if !below.is_empty() && is_whole(kind) {
            result.insert_below(element, true, FieldSet::default());
        } else {
            result.insert_below(element, is_member, joined(kind, below));
        }
    }
    result
}

fn kind_below<'a>(kind: Kind<'a>, element: &Element) -> Option<Kind<'a>> {
    match element {
        Element::Field(name) => kind.member(name).map(|(member, _)| member),
        _ => match kind.structure(Some(&Value::Array(Vec::new()))) {
            Structure::List(items) => Some(items.kind),
            _ => None,
        },
    }
}

/// Whether fields below a value of this type have no managers.
fn is_whole(kind: Kind<'_>) -> bool {
    match kind.structure(None) {
        Structure::Object(kind, granularity) => granularity == Granularity::Whole && !kind.is_free_form(),
        Structure::List(items) => !items.is_associative(),
        Structure::Scalar(_) => false,
    }
}
