//! Structural schemas of CustomResourceDefinitions: compile, prune, default, validate. Nothing here
//! knows resources or requests.

mod compile;
mod defaults;
mod formats;
mod node;
mod prune;
mod rules;
mod validate;

#[cfg(test)]
mod tests;

use serde_json::Value;

use self::node::Node;
use self::rules::Rules;
use crate::status::FieldError;

/// A compiled `openAPIV3Schema`. Cloning copies the tree, so share it.
#[derive(Clone, Debug)]
pub struct StructuralSchema {
    raw: Value,
    root: Node,
    rules: Rules,
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
            rules: Rules::compile(openapi_v3_schema)?,
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

    /// Checks an object, and where that finds nothing against it, the rules of `x-kubernetes-validations`. On update, parts that are as in the old object are tolerated though they
    /// are invalid: a schema may have become stricter since.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, new, old);
        if errors.is_empty() {
            errors = self.rules.check(new, old);
        } else {
            errors.extend(self.rules.unchecked(&errors));
        }
        errors
    }
}
