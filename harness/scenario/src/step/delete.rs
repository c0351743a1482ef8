//! Deletes an object.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition, Targets};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::Reference;

/// Deletes an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deletion {
    /// The API version of its kind; absent: the kind's name identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// For example `Machine`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The expected response of the API server; any other one fails the step.
    #[serde(default, skip_serializing_if = "Answer::is_deleted")]
    pub answer: Answer,
}

/// Response of the API server to a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The object is deleted.
    #[default]
    Deleted,
    /// The object is deleted, or did not exist.
    DeletedIfThere,
    /// The object does not exist.
    NotFound,
    /// The deletion is forbidden. The step deletes nothing: it repeats a dry run until it is refused, for at most
    /// `slack`, because API servers apply a new rule with a delay.
    Forbidden,
}

impl Answer {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    fn is_deleted(&self) -> bool {
        *self == Self::Deleted
    }
}

impl Deletion {
    /// The object, unless it must not exist.
    pub(super) fn references_of(&self, kinds: &Kinds, word: &str) -> Result<Vec<Reference>, Problem> {
        let object = Reference::object(kinds, word, self.api_version.as_deref(), &self.kind, &self.name)?;
        Ok(match self.answer {
            Answer::NotFound => Vec::new(),
            Answer::Deleted | Answer::DeletedIfThere | Answer::Forbidden => vec![object],
        })
    }
}

impl StepDefinition for Deletion {
    fn description(&self) -> String {
        let condition = match self.answer {
            Answer::Deleted => "",
            Answer::DeletedIfThere => " if it exists",
            Answer::NotFound => ", which does not exist",
            Answer::Forbidden => ", which must be forbidden",
        };
        format!("delete {} {}{condition}", self.kind, self.name)
    }

    fn is_user_request(&self) -> bool {
        true
    }

    fn request(&self) -> Request<'_> {
        Request::Delete {
            object: self,
            force: false,
        }
    }

    fn targets(&self) -> Targets {
        Targets::object(self.api_version.as_deref(), &self.kind, &self.name).deleted()
    }

    fn references(&self, kinds: &Kinds) -> Result<Vec<Reference>, Problem> {
        self.references_of(kinds, "delete")
    }
}
