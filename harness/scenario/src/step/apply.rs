//! Creates an object, or merges it into the existing one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Request, StepDefinition, Targets};
use crate::duration::Timeouts;
use crate::fixtures;
use crate::workload::{self, Budget, Kind, Priority, Workload};

/// An object to apply: a complete object, or a fixture with its relevant fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

    fn check(&self) -> Result<(), (String, String)> {
        let (word, workload, kind) = match self {
            Self::Object(object) => return validate_object(object),
            Self::Deployment(workload) => ("deployment", workload, Kind::Deployment),
            Self::StatefulSet(workload) => ("statefulSet", workload, Kind::StatefulSet),
            Self::DaemonSet(workload) => ("daemonSet", workload, Kind::DaemonSet),
            Self::Machine(_) | Self::Budget(_) | Self::Priority(_) | Self::StorageClass | Self::Namespace(_) => {
                return Ok(());
            }
        };
        workload
            .validate(kind)
            .map_err(|(field, message)| (format!("apply.{word}.{field}"), message.to_owned()))
    }
}

fn validate_object(object: &Value) -> Result<(), (String, String)> {
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
        Targets::object(of("/kind"), of("/metadata/name"))
    }

    fn validate(&self) -> Result<(), (String, String)> {
        self.check()
    }
}
