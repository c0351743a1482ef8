//! Defaults of custom resources, and the removal of nulls before defaulting.

use serde_json::Value;

use super::node::Node;
use crate::json;

/// The defaults of a schema would make an object larger than can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its defaults exceed {} bytes", json::MAX_OBJECT)]
pub struct TooLarge;

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

/// Sets defaults.
pub(super) struct Filler {
    /// How many bytes of defaults may follow.
    left: usize,
}

impl Filler {
    /// For an object. Without a limit, a default within lists in lists would multiply.
    pub(super) fn new() -> Self {
        Self { left: json::MAX_OBJECT }
    }

    /// For all defaults of one schema, each of which is completed with those within it.
    pub(super) fn of_schema() -> Self {
        Self {
            left: json::MAX_OBJECT.saturating_mul(4),
        }
    }

    fn default(&mut self, default: &Value) -> Result<Value, TooLarge> {
        self.left = self.left.checked_sub(json::least_size(default)).ok_or(TooLarge)?;
        Ok(default.clone())
    }

    /// Sets the defaults of absent members in every existing object. The recursion follows the schema, whose depth is
    /// limited.
    ///
    /// # Errors
    /// If the defaults are too large. The value is then incomplete.
    pub(super) fn fill(&mut self, node: &Node, value: &mut Value) -> Result<(), TooLarge> {
        match value {
            Value::Object(map) => {
                for (name, node) in &node.properties {
                    if let Some(default) = &node.default
                        && !map.contains_key(name)
                    {
                        map.insert(name.clone(), self.default(default)?);
                    }
                }
                for (name, value) in map.iter_mut() {
                    if let Some(node) = node.member(name) {
                        self.fill(node, value)?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(node) = &node.items else { return Ok(()) };
                for item in items {
                    if item.is_null()
                        && node.drops_null()
                        && let Some(default) = &node.default
                    {
                        *item = self.default(default)?;
                    }
                    self.fill(node, item)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
