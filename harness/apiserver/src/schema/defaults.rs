//! Defaults of custom resources, and the removal of nulls before defaulting.

use serde_json::Value;

use super::node::Node;

/// Drops null members if their schema does not allow null.
pub(super) fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|name, value| match node.member(name) {
            Some(node) if value.is_null() => !node.drops_null(),
            Some(node) => {
                drop_nulls(node, value);
                true
            }
            None => true,
        }),
        Value::Array(items) => {
            if let Some(node) = &node.items {
                items.iter_mut().for_each(|item| drop_nulls(node, item));
            }
        }
        _ => {}
    }
}

/// Sets the defaults of absent members in every existing object.
pub(super) fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, node) in &node.properties {
                if let Some(default) = &node.default
                    && !map.contains_key(name)
                {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(node) = node.member(name) {
                    fill(node, value);
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = &node.items else { return };
            for item in items {
                if item.is_null()
                    && node.drops_null()
                    && let Some(default) = &node.default
                {
                    *item = default.clone();
                }
                fill(node, item);
            }
        }
        _ => {}
    }
}
