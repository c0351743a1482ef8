//! Deletes an object.

use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition, Targets};

/// Deletes an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deletion {
    /// For instance `Machine`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What the API server must answer; else the step fails.
    #[serde(default, skip_serializing_if = "Answer::is_deleted")]
    pub answer: Answer,
}

/// What an API server answers to a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// It is deleted.
    #[default]
    Deleted,
    /// It is deleted, or was gone already.
    DeletedIfThere,
    /// There is no such object.
    NotFound,
    /// It is forbidden. Nothing is deleted if it is not: a dry run is asked for until it is refused, for as long as slack, since
    /// API servers take a moment to heed a new rule.
    Forbidden,
}

impl Answer {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
    fn is_deleted(&self) -> bool {
        *self == Self::Deleted
    }
}

impl StepDefinition for Deletion {
    fn description(&self) -> String {
        let condition = match self.answer {
            Answer::Deleted => "",
            Answer::DeletedIfThere => " if it is there",
            Answer::NotFound => ", which is not there",
            Answer::Forbidden => ", in vain",
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
        Targets::object(&self.kind, &self.name).deleted()
    }
}
