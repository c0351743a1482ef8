//! Performs a step as another user, with that user's rights.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, Step, StepDefinition, Targets};
use crate::Problem;
use crate::names::Names;

/// A step that is performed by another user than the administrator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActAs {
    /// The user's name in RBAC bindings.
    pub user: String,
    /// The step: apply, delete, forceDelete, drain, annotate or patch.
    pub step: Box<Step>,
    /// Whether the API server must forbid it; otherwise a refusal fails the step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

impl StepDefinition for ActAs {
    fn description(&self) -> String {
        let refused = if self.refused { ", which must be refused" } else { "" };
        format!("{} as {}{refused}", self.step.description(), self.user)
    }

    fn request(&self) -> Request<'_> {
        Request::As(self)
    }

    fn targets(&self) -> Targets {
        let targets = self.step.targets();
        match self.refused {
            true => Targets {
                subject: targets.subject,
                ..Targets::default()
            },
            false => targets,
        }
    }

    fn add_names(&self, names: &mut Names) {
        self.step.add_names(names);
    }

    fn validate(&self) -> Result<(), Problem> {
        if self.user.trim().is_empty() {
            return Err(("as.user".to_owned(), "the user's name is required".to_owned()));
        }
        if !self.step.definition().is_user_request() {
            return Err((
                "as.step".to_owned(),
                "the step must be apply, delete, forceDelete, drain, annotate or patch".to_owned(),
            ));
        }
        let inside = |(field, message): Problem| (format!("as.step.{field}"), message);
        self.step.validate().map_err(inside)
    }
}
