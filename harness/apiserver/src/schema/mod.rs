//! Structural schemas of CustomResourceDefinitions: compile, prune, default, validate. Nothing here
//! knows resources or requests. Rules of `x-kubernetes-validations` are kept, not evaluated.

mod compile;
mod defaults;
mod formats;
mod node;
mod prune;
mod validate;

#[cfg(test)]
mod tests;

use serde_json::Value;

use self::node::Node;
use crate::status::FieldError;

/// A compiled `openAPIV3Schema`. Cloning copies the tree, so share it.
#[derive(Clone, Debug)]
pub struct StructuralSchema {
    raw: Value,
    root: Node,
}

impl StructuralSchema {
    /// Compiles an `openAPIV3Schema`.
    ///
    /// # Errors
    /// Everything that keeps it from being structural. Paths are relative to the schema, as
    /// `properties[spec].type`; prefix them with where it stands.
    pub fn compile(openapi_v3_schema: &Value) -> Result<Self, Vec<FieldError>> {
        let root = compile::root(openapi_v3_schema)?;
        Ok(Self {
            raw: openapi_v3_schema.clone(),
            root,
        })
    }

    /// The schema as it was given.
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// Drops what the schema does not specify and returns the paths of that, sorted. Metadata, also
    /// of embedded resources, keeps the fields of `ObjectMeta` only. Idempotent.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Drops nulls where the schema allows none, then fills in defaults. Idempotent.
    pub fn default(&self, object: &mut Value) {
        defaults::drop_nulls(&self.root, object);
        defaults::fill(&self.root, object);
    }

    /// Checks an object. On update, parts that are as in the old object are tolerated though they
    /// are invalid: a schema may have become stricter since.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::validate(&self.root, new, old)
    }
}
