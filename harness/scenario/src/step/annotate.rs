//! Sets annotations; null removes one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Merge, Request, StepDefinition, Targets};
use crate::Problem;
use crate::names::Reference;

/// Sets annotations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Annotate {
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// Values by key; null removes the key.
    pub annotations: BTreeMap<String, Option<String>>,
}

impl StepDefinition for Annotate {
    fn description(&self) -> String {
        format!("annotate {} {}", self.kind, self.name)
    }

    fn is_user_request(&self) -> bool {
        true
    }

    fn request(&self) -> Request<'_> {
        Request::Merge(Merge {
            kind: &self.kind,
            name: &self.name,
            namespace: None,
            change: json!({ "metadata": { "annotations": self.annotations } }),
            status: false,
        })
    }

    fn targets(&self) -> Targets {
        Targets::object(&self.kind, &self.name)
    }

    fn references(&self) -> Result<Vec<Reference>, Problem> {
        Ok(vec![Reference::object("annotate", &self.kind, &self.name)?])
    }
}
