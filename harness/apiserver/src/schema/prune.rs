//! Pruning: drops fields that the schema does not specify and does not preserve.

use serde_json::{Map, Value};

use super::node::{Additional, Node};
use crate::types;
use crate::types::path::Path;
use crate::types::paths::Paths;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Prunes a whole object and returns the sorted paths of the first hundred dropped fields.
pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut dropped = Paths::default();
    prune_value(root, object, true, Path::Root, &mut dropped);
    let mut dropped = dropped.into_texts();
    dropped.sort();
    dropped
}

/// Prunes a part of an object.
pub(super) fn prune_part(node: &Node, value: &mut Value) -> Vec<String> {
    let mut dropped = Paths::default();
    prune_value(node, value, false, Path::Root, &mut dropped);
    dropped.into_texts()
}

fn prune_value(node: &Node, value: &mut Value, is_object: bool, path: Path<'_>, dropped: &mut Paths) {
    match value {
        Value::Object(map) => prune_members(node, map, is_object || node.embedded, path, dropped),
        Value::Array(items) => {
            if let Some(node) = &node.items {
                for (index, item) in items.iter_mut().enumerate() {
                    prune_value(node, item, false, path.index(index), dropped);
                }
            }
        }
        _ => {}
    }
}

/// `is_object`: whether apiVersion, kind and metadata are implicit.
fn prune_members(node: &Node, map: &mut Map<String, Value>, is_object: bool, path: Path<'_>, dropped: &mut Paths) {
    map.retain(|name, value| {
        let path = path.field(name);
        if is_object && name == "metadata" {
            coerce_metadata(value, path, dropped);
            return true;
        }
        if is_object && (name == "apiVersion" || name == "kind") {
            return true;
        }
        if let Some(node) = node.member(name) {
            prune_value(node, value, false, path, dropped);
            return true;
        }
        let kept = node.preserve_unknown || matches!(node.additional, Some(Additional::Anything));
        if !kept {
            dropped.push(path);
        }
        kept
    });
}

/// Drops fields that `ObjectMeta` does not have. Leaves values of the wrong type to validation.
fn coerce_metadata(metadata: &mut Value, path: Path<'_>, dropped: &mut Paths) {
    let mut coerced = metadata.clone();
    if let Ok(unknown) = types::check(OBJECT_META, &mut coerced) {
        *metadata = coerced;
        for name in &unknown {
            dropped.push(path.field(name));
        }
    }
}
