//! Creates an object, or merges it into the existing one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Request, StepDefinition, Targets};
use crate::Problem;
use crate::duration::{DurationExpression, Timeouts};
use crate::fixtures;
use crate::kinds::Kinds;
use crate::names::{NameOf, Names, Reference};
use crate::workload::{self, Budget, Kind, Priority, Workload};

/// An object to apply: a complete object, or a fixture with its relevant fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Apply {
    /// A machine of class `class-a` with that name.
    Machine(String),
    /// Any object, with `apiVersion`, `kind` and `metadata.name`.
    Object(Value),
    /// A Deployment.
    Deployment(Workload),
    /// A StatefulSet.
    StatefulSet(Workload),
    /// A DaemonSet.
    DaemonSet(Workload),
    /// A disruption budget.
    Budget(Budget),
    /// A priority class.
    Priority(Priority),
    /// The StorageClass of the simulated cloud.
    StorageClass,
    /// A namespace of that name.
    Namespace(String),
}

impl Apply {
    /// The object that it expands to; `namespace` is the namespace of machines, `timeouts` are those of the stage.
    pub fn object(&self, namespace: &str, timeouts: &Timeouts) -> Value {
        match self {
            Self::Machine(name) => fixtures::machine(name, namespace),
            Self::Object(object) => object.clone(),
            Self::Deployment(workload) => workload.object(Kind::Deployment, timeouts),
            Self::StatefulSet(workload) => workload.object(Kind::StatefulSet, timeouts),
            Self::DaemonSet(workload) => workload.object(Kind::DaemonSet, timeouts),
            Self::Budget(budget) => budget.object(),
            Self::Priority(priority) => priority.object(),
            Self::StorageClass => workload::storage_class(),
            Self::Namespace(name) => workload::namespace(name),
        }
    }

    /// The namespace that it specifies: its own, or the one that it creates.
    pub fn namespace(&self) -> Option<&str> {
        let named = match self {
            Self::Object(object) => object.pointer("/metadata/namespace")?.as_str()?,
            Self::Deployment(workload) | Self::StatefulSet(workload) | Self::DaemonSet(workload) => {
                workload.namespace.as_deref()?
            }
            Self::Namespace(name) => name,
            Self::Machine(_) | Self::Budget(_) | Self::Priority(_) | Self::StorageClass => return None,
        };
        (!named.is_empty()).then_some(named)
    }

    /// The workload with its name in files and its kind.
    fn workload(&self) -> Option<(&'static str, &Workload, Kind)> {
        match self {
            Self::Deployment(workload) => Some(("deployment", workload, Kind::Deployment)),
            Self::StatefulSet(workload) => Some(("statefulSet", workload, Kind::StatefulSet)),
            Self::DaemonSet(workload) => Some(("daemonSet", workload, Kind::DaemonSet)),
            Self::Machine(_) | Self::Object(_) | Self::Budget(_) => None,
            Self::Priority(_) | Self::StorageClass | Self::Namespace(_) => None,
        }
    }

    /// The name of its form in files.
    fn word(&self) -> &'static str {
        match self {
            Self::Machine(_) => "machine",
            Self::Object(_) => "object",
            Self::Budget(_) => "budget",
            Self::Priority(_) => "priority",
            Self::StorageClass => "storageClass",
            Self::Namespace(_) => "namespace",
            Self::Deployment(_) | Self::StatefulSet(_) | Self::DaemonSet(_) => {
                self.workload().map_or("", |(word, ..)| word)
            }
        }
    }
}

fn validate_object(object: &Value) -> Result<(), Problem> {
    for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
        if !object.pointer(pointer).is_some_and(Value::is_string) {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            return Err((
                format!("apply.object.{field}"),
                "is missing: it is required for every object".to_owned(),
            ));
        }
    }
    Ok(())
}

impl StepDefinition for Apply {
    fn description(&self) -> String {
        let targets = self.targets();
        let object = targets.object.unwrap_or_default();
        format!("apply {} {}", object.kind, object.name)
    }

    fn is_user_request(&self) -> bool {
        true
    }

    fn request(&self) -> Request<'_> {
        Request::Apply(self)
    }

    fn targets(&self) -> Targets {
        let object = self.object("", &Timeouts::production());
        let of = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let version = Some(of("/apiVersion")).filter(|version| !version.is_empty());
        Targets::object(version, of("/kind"), of("/metadata/name"))
    }

    fn validate(&self) -> Result<(), Problem> {
        if let Self::Object(object) = self {
            return validate_object(object);
        }
        let Some((word, workload, kind)) = self.workload() else {
            return Ok(());
        };
        workload
            .validate(kind)
            .map_err(|(field, message)| (format!("apply.{word}.{field}"), message.to_owned()))
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        let word = self.word();
        if let Self::Budget(budget) = self {
            return Ok(vec![Reference::name("apply.budget.of", NameOf::Workload, &budget.of)]);
        }
        let namespace = self.namespace().map(|name| {
            let field = match self {
                Self::Object(_) => "apply.object.metadata.namespace".to_owned(),
                Self::Namespace(_) => "apply.namespace".to_owned(),
                _ => format!("apply.{word}.namespace"),
            };
            Reference::name(field, NameOf::Object("Namespace"), name)
        });
        let class = self
            .workload()
            .and_then(|(_, workload, _)| workload.priority_class.as_ref());
        let class = class.map(|class| {
            Reference::name(
                format!("apply.{word}.priorityClass"),
                NameOf::Object("PriorityClass"),
                class,
            )
        });
        Ok(namespace.into_iter().chain(class).collect())
    }

    fn add_names(&self, names: &mut Names) {
        names.add_object(&self.object("", &Timeouts::production()));
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        let toleration = self
            .workload()
            .and_then(|(word, workload, _)| Some((word, workload.toleration.as_ref()?)));
        toleration
            .map(|(word, time)| (format!("apply.{word}.toleration"), time))
            .into_iter()
            .collect()
    }
}
