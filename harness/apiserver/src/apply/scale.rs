//! Ownership of the number of replicas that the subresource `scale` writes: the fields of `Scale` are those of its
//! object under other names.

use serde_json::Value;

use super::conflict::{Conflict, NotApplied};
use super::managers::{Manager, Managers, Operation, Owned};
use super::path::Element;
use super::set::FieldSet;
use super::tracking::name_of;

/// A write of a Scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaleWrite<'a> {
    /// The manager, as the client calls itself.
    pub(crate) manager: &'a str,
    /// The `apiVersion` of the scaled object.
    pub(crate) api_version: &'a str,
    /// The path of the number of replicas in the object, such as `.spec.replicas`.
    pub(crate) path: &'a str,
    /// Whether the number changes.
    pub(crate) changes: bool,
}

/// The managers after an ordinary write of a Scale.
pub(crate) fn track_scale(mut managers: Managers, write: ScaleWrite<'_>) -> Managers {
    let path = path(write.path);
    // As upstream, replicas without a manager stay without.
    let is_managed = managers.iter().any(|(_, owned)| owned.fields.contains(&path));
    if write.changes && is_managed {
        take(&mut managers, write);
        managers.set(manager(Operation::Update, write), owned(write));
    }
    managers
}

/// The managers after a Scale was applied that states the number of replicas.
///
/// # Errors
/// Without `force`, if another manager owns a number that changes.
pub(crate) fn apply_scale(mut managers: Managers, write: ScaleWrite<'_>, force: bool) -> Result<Managers, NotApplied> {
    let manager = manager(Operation::Apply, write);
    if write.changes && !force {
        let path = path(write.path);
        let others = managers
            .iter()
            .filter(|(other, owned)| **other != manager && owned.fields.contains(&path));
        let conflicts: Vec<Conflict> = others
            .map(|(other, _)| Conflict {
                manager: other.clone(),
                fields: FieldSet::of_fields(&[&["spec", "replicas"]]),
            })
            .collect();
        if !conflicts.is_empty() {
            return Err(NotApplied::Conflicts(conflicts));
        }
    }
    if write.changes {
        take(&mut managers, write);
    }
    managers.set(manager, owned(write));
    Ok(managers)
}

/// Takes the number of replicas from all managers.
fn take(managers: &mut Managers, write: ScaleWrite<'_>) {
    let fields = fields(write);
    managers.retain(|_, owned| {
        owned.fields.subtract(&fields);
        true
    });
}

fn manager(operation: Operation, write: ScaleWrite<'_>) -> Manager {
    let version = if operation == Operation::Apply {
        ""
    } else {
        write.api_version
    };
    Manager {
        operation,
        name: name_of(write.manager),
        version: version.to_owned(),
        subresource: "scale".to_owned(),
    }
}

/// Upstream loses the time of such entries.
fn owned(write: ScaleWrite<'_>) -> Owned {
    Owned {
        fields: fields(write),
        version: write.api_version.to_owned(),
        time: None,
    }
}

fn fields(write: ScaleWrite<'_>) -> FieldSet {
    let mut fields = FieldSet::default();
    fields.insert(&path(write.path));
    fields
}

fn path(path: &str) -> Vec<Element> {
    let names = path.split('.').filter(|name| !name.is_empty());
    names.map(|name| Element::Field(name.to_owned())).collect()
}

/// The number of replicas that an applied Scale states.
pub(crate) fn stated_replicas(scale: &Value) -> Option<&Value> {
    scale.pointer("/spec/replicas").filter(|value| !value.is_null())
}
