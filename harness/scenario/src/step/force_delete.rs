//! Removes an object at once (`kubectl delete --force`), regardless of finalizers and grace periods.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::delete::Deletion;
use super::{Request, StepDefinition, Targets};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::Reference;

/// Deletes an object without a grace period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ForceDeletion(pub Deletion);

impl StepDefinition for ForceDeletion {
    fn description(&self) -> String {
        format!("delete {} {} at once", self.0.kind, self.0.name)
    }

    fn is_user_request(&self) -> bool {
        true
    }

    fn request(&self) -> Request<'_> {
        Request::Delete {
            object: &self.0,
            force: true,
        }
    }

    fn targets(&self) -> Targets {
        Targets::object(self.0.api_version.as_deref(), &self.0.kind, &self.0.name)
            .deleted()
            .forced()
    }

    fn references(&self, kinds: &Kinds) -> Result<Vec<Reference>, Problem> {
        self.0.references_of(kinds, "forceDelete")
    }
}
