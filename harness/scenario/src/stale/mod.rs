//! Scenarios of `drydock stale`: a controller whose view of the API server is old.
//!
//! Objects that the controller creates have generated names, so the steps here select objects by labels.
//! What is the same as in other scenarios (`apply`, `patch`, fault rules, the files of objects) has the same form.

mod check;
mod lag;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use apiserver::faults::{Pattern, Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::lag::{Lag, LagError, LagList, LagListError};
use crate::file::{self, FileError, Source};
use crate::kinds::Kinds;
use crate::manifest::{self, Manifest};
use crate::step::Patch;

/// A scenario of `drydock stale`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaleScenario {
    /// Name in reports: lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// One sentence for lists.
    pub about: String,
    /// The controller's user.
    #[serde(default)]
    pub controller: User,
    /// The built-in controllers that run beside it, as for `drydock apiserver --controllers`. Leave out those that the
    /// controller replaces.
    #[serde(default = "all_controllers")]
    pub built_in_controllers: Vec<String>,
    /// Objects, or files of objects, that exist before the controller starts. Definitions of kinds come first. Those of
    /// namespaces are in `default` unless they name another one.
    #[serde(default)]
    pub objects: Vec<Manifest>,
    /// What the controller sees late.
    pub lag: Lagging,
    /// Other fault rules of the API server, from the controller's start on. A rule without `match.client` applies to the
    /// controller.
    #[serde(default)]
    pub faults: Vec<Rule>,
    /// What happens after the controller has started, in order.
    pub steps: Vec<StaleStep>,
    /// What must be true for the whole run.
    #[serde(default)]
    pub expect: Vec<ExpectedCount>,
}

/// The user of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct User {
    /// The user's name.
    pub user: String,
    /// The user's groups. The default, `system:masters`, may do everything.
    pub groups: Vec<String>,
}

impl Default for User {
    fn default() -> Self {
        Self {
            user: "controller".to_owned(),
            groups: vec!["system:masters".to_owned()],
        }
    }
}

fn all_controllers() -> Vec<String> {
    vec!["*".to_owned()]
}

/// What a controller sees late, by the lag of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lagging {
    /// The resources whose watches lag, as in fault rules: `pods`, `widgets.example.com`, `*`.
    pub watches: Vec<Pattern>,
    /// The resources whose lists are as old, if a cache may answer them; absent: those of `watches`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<Vec<Pattern>>,
}

/// A step. The lag begins with the controller, or with the step `beginLag` if there is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum StaleStep {
    /// Creates an object, or merges it into the existing one.
    Apply(AppliedObject),
    /// Sends a JSON merge patch.
    Patch(Patch),
    /// Deletes objects.
    Delete(DeletedObjects),
    /// Waits until objects exist, or have a value.
    WaitFor(WaitFor),
    /// Lets time pass.
    Wait(Lag),
    /// The controller's view begins to lag.
    BeginLag {},
    /// The controller's view ends to lag: what was held back arrives.
    EndLag {},
}

/// An object to apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AppliedObject {
    /// The object, with `apiVersion`, `kind` and `metadata.name`.
    pub object: Value,
}

/// Objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeletedObjects {
    /// The API version of their kind; absent: the kind's name identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Their kind.
    pub kind: String,
    /// The name of one object; absent: they are selected by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Their labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How many, in the order of their names; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// A condition that a step waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitFor {
    /// The API version of the kind; absent: the kind's name identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The name of the object whose field has a value; absent: objects are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// JSON pointer to the field: `/status/replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The value of the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<Value>,
    /// The labels of the counted objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The number of objects that are not being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// The run fails if the condition is not true after this time.
    pub within: Lag,
}

/// How many objects of a kind may exist at a time. Objects that are being deleted do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectedCount {
    /// The API version of the kind; absent: the kind's name identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The labels of the objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// At no time are there more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
    /// At no time are there fewer, once there were that many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
}

impl StaleScenario {
    /// Reads a YAML file, and the files that it names.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let (text, shown) = file::text(path)?;
        Self::parse(&text, &shown, path.parent())
    }

    /// Reads YAML text; `origin` names it in errors.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn from_yaml(text: &str, origin: &str) -> Result<Self, FileError> {
        Self::parse(text, origin, None)
    }

    fn parse(text: &str, origin: &str, folder: Option<&Path>) -> Result<Self, FileError> {
        let source = Source { text, origin };
        let mut scenario: Self = source.parse()?;
        scenario
            .read_objects(folder)
            .map_err(|problem| source.invalid(problem))?;
        scenario.check().map_err(|problem| source.invalid(problem))?;
        Ok(scenario)
    }

    /// Replaces the files of objects by their content, definitions first.
    fn read_objects(&mut self, folder: Option<&Path>) -> Result<(), crate::Problem> {
        let mut objects = Vec::new();
        for (index, entry) in self.objects.iter().enumerate() {
            match entry {
                Manifest::Object(object) => objects.push(object.clone()),
                Manifest::File(file) => {
                    let read = manifest::objects_of(file, folder);
                    objects.extend(read.map_err(|message| (format!("objects[{index}]"), message))?);
                }
            }
        }
        objects.sort_by_key(|object| object["kind"] != "CustomResourceDefinition");
        self.objects = objects.into_iter().map(Manifest::Object).collect();
        Ok(())
    }

    /// The kinds of Kubernetes, and those of its definitions.
    pub fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::default();
        for object in self.objects.iter().filter_map(Manifest::object) {
            kinds.add_definition(object);
        }
        kinds
    }

    /// Whether a step begins the lag.
    pub fn begins_lag_itself(&self) -> bool {
        self.steps.contains(&StaleStep::BeginLag {})
    }
}

impl StaleStep {
    /// Description of the step, for the narrative.
    pub fn description(&self) -> String {
        match self {
            Self::Apply(AppliedObject { object }) => {
                let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                format!("apply {} {}", text("/kind"), text("/metadata/name"))
            }
            Self::Patch(patch) => format!("patch {} {}", patch.kind, patch.name),
            Self::Delete(DeletedObjects { kind, name, count, .. }) => match (name, count) {
                (Some(name), _) => format!("delete {kind} {name}"),
                (None, Some(count)) => format!("delete {count} {kind}s"),
                (None, None) => format!("delete all {kind}s"),
            },
            Self::WaitFor(condition) => format!("wait until {condition}"),
            Self::Wait(time) => format!("wait {time}"),
            Self::BeginLag {} => "begin to lag".to_owned(),
            Self::EndLag {} => "end the lag".to_owned(),
        }
    }
}

impl std::fmt::Display for WaitFor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.name, &self.field, &self.is, self.count) {
            (Some(name), Some(field), Some(is), _) => write!(f, "{} {name} has {field} = {is}", self.kind),
            (_, _, _, Some(count)) => write!(f, "there are {count} {}s", self.kind),
            _ => write!(f, "there is a {}", self.kind),
        }
    }
}
