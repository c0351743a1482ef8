//! The objects of a world before its first step: definitions of kinds, and manifests such as roles. A scenario names
//! files; reading it replaces them by their content, so that a plan contains everything that its run needs.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::check::Checker;
use crate::file::read_text;
use crate::kinds::Kinds;
use crate::step::{Apply, Request};
use crate::{Problem, Scenario, World};

/// An object, or a YAML file with objects, relative to the scenario's file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Manifest {
    /// A file that is not read yet.
    File(String),
    /// An object.
    Object(Value),
}

impl<'de> Deserialize<'de> for Manifest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(file) => Ok(Self::File(file)),
            object @ Value::Object(_) => Ok(Self::Object(object)),
            other => Err(serde::de::Error::custom(format!(
                "found {other}, expected the name of a file, or an object"
            ))),
        }
    }
}

impl JsonSchema for Manifest {
    fn schema_name() -> Cow<'static, str> {
        "Manifest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A YAML file with objects, relative to the scenario's file, or an object.",
            "type": ["string", "object"],
        })
    }
}

impl Manifest {
    /// The object; `None`: a file that is not read.
    pub fn object(&self) -> Option<&Value> {
        match self {
            Self::File(_) => None,
            Self::Object(object) => Some(object),
        }
    }
}

/// The definitions of the example remediation controller.
static REMEDIATION: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let text = include_str!("../../../deploy/rbac/fakecloud-remediation.yaml");
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_default();
    objects.retain(|object| object["kind"] == "CustomResourceDefinition");
    objects
});

/// Selects a list of a world.
type ListOf = fn(&mut World) -> &mut Vec<Manifest>;

/// The lists of manifests of a world, with their names: definitions come first.
const LISTS: [(&str, ListOf); 2] = [
    ("crds", |world| &mut world.crds),
    ("manifests", |world| &mut world.manifests),
];

impl World {
    /// All objects of the world before its first step, definitions first.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        let remediation = self.remediation.then(|| REMEDIATION.as_slice());
        let own = self.crds.iter().chain(&self.manifests).filter_map(Manifest::object);
        remediation.unwrap_or_default().iter().chain(own)
    }

    /// Whether one of its bindings gives rights to this service account.
    pub fn has_roles_of(&self, account: &str) -> bool {
        let binds = |object: &Value| {
            let is_binding = matches!(object["kind"].as_str(), Some("RoleBinding" | "ClusterRoleBinding"));
            let subjects = object["subjects"].as_array().into_iter().flatten();
            let mut accounts = subjects.filter(|subject| subject["kind"] == "ServiceAccount");
            is_binding && accounts.any(|subject| subject["name"] == account)
        };
        self.objects().any(binds)
    }

    /// The kind of its first object outside of namespaces, if it has one.
    pub(crate) fn cluster_wide_kind(&self) -> Option<&'static str> {
        let kinds = Scenario::kinds_of(self.objects());
        let mut found = self.objects().filter_map(|object| kinds.of_object(object).ok());
        found.find(|kind| !kind.namespaced).map(|kind| kind.kind)
    }
}

impl Scenario {
    /// The kinds that its steps and conditions can use.
    pub fn kinds(&self) -> Kinds {
        let applied = self.steps.iter().filter_map(|step| match step.request() {
            Request::Apply(Apply::Object(object)) => Some(object),
            _ => None,
        });
        Self::kinds_of(self.world.objects().chain(applied))
    }

    fn kinds_of<'a>(objects: impl Iterator<Item = &'a Value>) -> Kinds {
        let mut kinds = Kinds::default();
        objects.for_each(|object| kinds.add_definition(object));
        kinds
    }

    /// Reads the files of its world. `folder` contains them; `None`: the scenario has no file.
    pub(crate) fn read_manifests(&mut self, folder: Option<&Path>) -> Result<(), Problem> {
        for (list, of) in LISTS {
            let mut read = Vec::new();
            for (index, manifest) in std::mem::take(of(&mut self.world)).into_iter().enumerate() {
                let Manifest::File(file) = &manifest else {
                    read.push((index, None, manifest));
                    continue;
                };
                let objects =
                    objects_of(file, folder).map_err(|message| (format!("world.{list}[{index}]"), message))?;
                let numbered = (1..).zip(objects);
                read.extend(
                    numbered.map(|(number, object)| (index, Some((file.clone(), number)), Manifest::Object(object))),
                );
            }
            *of(&mut self.world) = read.iter().map(|(.., manifest)| manifest.clone()).collect();
            // Positions in the scenario's file refer to the list before the files were read.
            let checker = Checker::new(self);
            for (index, origin, manifest) in &read {
                let (Some((file, number)), Some(object)) = (origin, manifest.object()) else {
                    continue;
                };
                checker.check_manifest(list, object).map_err(|(field, message)| {
                    let place = if field.is_empty() {
                        String::new()
                    } else {
                        format!("{field}: ")
                    };
                    (
                        format!("world.{list}[{index}]"),
                        format!("{file}, object {number}: {place}{message}"),
                    )
                })?;
            }
        }
        Ok(())
    }
}

/// The objects of a file: those of all its documents, and the items of lists.
pub(crate) fn objects_of(file: &str, folder: Option<&Path>) -> Result<Vec<Value>, String> {
    let Some(folder) = folder else {
        return Err(format!(
            "{file:?} cannot be read: the scenario itself is not read from a file; write the object here"
        ));
    };
    let text = read_text(&folder.join(file)).map_err(|error| format!("cannot read {file:?}: {error}"))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| {
        format!(
            "{file:?} is not valid YAML: {}",
            one_line(&error.without_snippet().to_string())
        )
    })?;
    let mut objects = Vec::new();
    for (document, number) in documents.into_iter().zip(1..) {
        match document {
            Value::Null => {}
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                match list.remove("items") {
                    Some(Value::Array(items)) => objects.extend(items),
                    _ => return Err(format!("{file}: document {number} is a List without `items`")),
                }
            }
            object @ Value::Object(_) => objects.push(object),
            _ => return Err(format!("{file}: document {number} is not an object")),
        }
    }
    match objects.is_empty() {
        true => Err(format!("{file:?} contains no object")),
        false => Ok(objects),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
