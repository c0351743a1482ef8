//! Structural schemas of CustomResourceDefinitions: compiles, prunes, defaults and validates. This module knows no
//! resources or requests.

mod compile;
mod defaults;
mod formats;
mod node;
mod prune;
mod recent;
mod rules;
mod validate;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

pub use self::defaults::TooLarge;
pub(crate) use self::node::{Additional, ListType, Node, Type};

use self::defaults::Filler;
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
    /// All violations of the rules for structural schemas. Paths are relative to the schema, for instance
    /// `properties[spec].type`; prefix them with its position.
    pub fn compile(openapi_v3_schema: &Value) -> Result<Self, Vec<FieldError>> {
        let root = compile::root(openapi_v3_schema)?;
        Ok(Self {
            raw: openapi_v3_schema.clone(),
            root,
            rules: Rules::compile(openapi_v3_schema)?,
        })
    }

    /// Like [`compile`](Self::compile); servers of one process share equal schemas.
    ///
    /// # Errors
    /// As `compile`.
    pub(crate) fn compiled(openapi_v3_schema: &Value) -> Result<Arc<Self>, Vec<FieldError>> {
        recent::schema(openapi_v3_schema)
    }

    /// The compiled schema.
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// The uncompiled schema.
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// Drops fields that the schema does not specify and returns the sorted paths of the first hundred. Metadata, including that of
    /// embedded resources, keeps only the fields of `ObjectMeta`. Idempotent.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Drops nulls that the schema does not allow, then sets defaults. Idempotent.
    ///
    /// # Errors
    /// If the defaults are larger than an object may be.
    pub fn default(&self, object: &mut Value) -> Result<(), TooLarge> {
        defaults::drop_nulls(&self.root, object);
        Filler::new().fill(&self.root, object)
    }

    /// The errors of nulls that the schema does not allow and has no default for.
    pub(crate) fn invalid_nulls(&self, object: &Value) -> Vec<FieldError> {
        validate::nulls(&self.root, object)
    }

    /// Validates an object, and evaluates the rules of `x-kubernetes-validations` unless a required field is missing or a type
    /// is wrong. Updates tolerate invalid values that have not changed, because a schema can become stricter.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, new, old);
        match self.rules.unchecked(&errors) {
            None => errors.extend(self.rules.check(new, old)),
            unchecked => errors.extend(unchecked),
        }
        errors
    }
}
