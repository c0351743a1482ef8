//! Sends a JSON merge patch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Merge, Request, StepDefinition, Targets, change};
use crate::Problem;
use crate::kinds::Kinds;
use crate::names::{NameOf, Names, Reference};

/// A JSON merge patch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Patch {
    /// The API version of its kind; absent: the kind's name identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The object's namespace; absent: the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What is merged into the object.
    pub merge: Value,
    /// Whether the status is patched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub status: bool,
}

impl StepDefinition for Patch {
    fn description(&self) -> String {
        let fields = change::fields(&self.kind, &self.merge);
        format!("patch {} {}: {fields}", self.kind, self.name)
    }

    fn is_user_request(&self) -> bool {
        true
    }

    fn request(&self) -> Request<'_> {
        Request::Merge(Merge {
            api_version: self.api_version.as_deref(),
            kind: &self.kind,
            name: &self.name,
            namespace: self.namespace.as_deref(),
            change: self.merge.clone(),
            status: self.status,
        })
    }

    fn targets(&self) -> Targets {
        let targets = Targets::object(self.api_version.as_deref(), &self.kind, &self.name);
        match self.merge.pointer("/spec/unschedulable") {
            Some(unschedulable)
                if self.kind == "Node" && self.api_version.as_deref().is_none_or(|version| version == "v1") =>
            {
                targets.cordoned(*unschedulable == true)
            }
            _ => targets,
        }
    }

    fn references(&self, kinds: &Kinds) -> Result<Vec<Reference>, Problem> {
        let version = self.api_version.as_deref();
        let object = Reference::object(kinds, "patch", version, &self.kind, &self.name)?;
        let namespace = self.namespace.as_ref();
        let namespace = namespace.map(|name| Reference::name("patch.namespace", NameOf::Object("Namespace"), name));
        Ok([object].into_iter().chain(namespace).collect())
    }

    fn add_names(&self, names: &mut Names) {
        names.add_class_fields(&self.merge);
    }
}
