//! Sets annotations; null removes one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Merge, Request, StepDefinition, Targets, change};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::Reference;

/// Sets annotations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Annotate {
    /// The API version of its kind; absent: the kind's name identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// Values by key; null removes the key.
    pub annotations: BTreeMap<String, Option<String>>,
}

/// The annotations as `kubectl annotate` has them: `key=value`, and `key-` for one that is removed.
pub(super) fn texts(annotations: &BTreeMap<String, Option<String>>) -> String {
    let text = |(key, value): (&String, &Option<String>)| match value {
        Some(value) => format!("{key}={}", change::value(value)),
        None => format!("{key}-"),
    };
    let all: Vec<String> = annotations.iter().map(text).collect();
    all.join(", ")
}

impl StepDefinition for Annotate {
    fn description(&self) -> String {
        format!("annotate {} {}: {}", self.kind, self.name, texts(&self.annotations))
    }

    fn is_user_request(&self) -> bool {
        true
    }

    fn request(&self) -> Request<'_> {
        Request::Merge(Merge {
            api_version: self.api_version.as_deref(),
            kind: &self.kind,
            name: &self.name,
            namespace: None,
            change: json!({ "metadata": { "annotations": self.annotations } }),
            status: false,
        })
    }

    fn targets(&self) -> Targets {
        Targets::object(self.api_version.as_deref(), &self.kind, &self.name)
    }

    fn references(&self, kinds: &Kinds) -> Result<Vec<Reference>, Problem> {
        let version = self.api_version.as_deref();
        Ok(vec![Reference::object(
            kinds, "annotate", version, &self.kind, &self.name,
        )?])
    }
}
