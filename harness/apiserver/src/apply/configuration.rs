//! Applies a configuration.

use std::collections::BTreeMap;

use serde_json::Value;

use super::conflict::{Conflict, NotApplied};
use super::conform::violations;
use super::kind::Kind;
use super::last_applied;
use super::managers::{Manager, Managers, Operation, Owned};
use super::merge::merge;
use super::owned::{fields_of, with_declared_parents};
use super::path::same;
use super::reconcile::reconcile;
use super::remove::remove;
use super::set::FieldSet;
use super::tracking::{Changes, compare, filtered, name_of, track};
use super::{Write, kind_of, set_managers, unmanaged, without_managers};

/// The manager of the fields of an object that is applied for the first time and had no managers.
const BEFORE: &str = "before-first-apply";
/// The manager whose client-side applies are taken over.
const KUBECTL: &str = "kubectl";

/// Applies a configuration to an object; returns the new object with its managers. `empty` is the empty object of the kind, which is also the `live` one of a
/// creation.
///
/// # Errors
/// If the configuration does not have the type of the kind, or without `force`, if other managers own fields that it
/// changes.
pub(crate) fn apply(
    empty: &Value,
    live: &Value,
    configuration: &Value,
    force: bool,
    write: &Write<'_>,
) -> Result<Value, NotApplied> {
    let kind = kind_of(write);
    let violations = violations(kind, configuration);
    if !violations.is_empty() {
        return Err(NotApplied::Mistyped(violations));
    }
    let mut managers = Managers::of(live);
    let live = without_managers(live);
    if managers.is_empty() {
        let before = Write {
            manager: BEFORE,
            ..*write
        };
        managers = track(empty, &live, managers, &before);
    }
    let managers = reconcile(managers, write);
    let applied = match merged(&live, configuration, managers.clone(), force, write) {
        Err(NotApplied::Conflicts(conflicts)) if write.manager == KUBECTL => {
            let mine = last_applied::unchanged_fields(kind, &live, write.api_version);
            let others: Vec<Conflict> = conflicts
                .into_iter()
                .filter_map(|Conflict { manager, mut fields }| {
                    fields.subtract(&mine);
                    (!fields.is_empty()).then_some(Conflict { manager, fields })
                })
                .collect();
            if !others.is_empty() {
                return Err(NotApplied::Conflicts(others));
            }
            merged(&live, configuration, managers, true, write)?
        }
        result => result?,
    };
    let (mut object, managers) = applied;
    if write.manager == KUBECTL {
        last_applied::update(&mut object, configuration);
    }
    set_managers(&mut object, &managers);
    Ok(object)
}

fn merged(
    live: &Value,
    configuration: &Value,
    mut managers: Managers,
    force: bool,
    write: &Write<'_>,
) -> Result<(Value, Managers), NotApplied> {
    let kind = kind_of(write);
    let manager = Manager {
        operation: Operation::Apply,
        name: name_of(write.manager),
        version: String::new(),
        subresource: write.subresource.to_owned(),
    };
    let last = managers.remove(&manager);
    let fields = filtered(fields_of(kind, configuration), write);
    let mut object = merge(kind, live, configuration);
    if let Some(last) = &last {
        object = pruned(&object, last, &managers, &fields, write);
    }
    let changes = Changes::new(compare(live, &object, write), (live, &object), &managers, write);
    if !force {
        let conflicts = conflicts(&managers, &changes);
        if !conflicts.is_empty() {
            return Err(NotApplied::Conflicts(conflicts));
        }
    }
    managers.retain(|_, owned| changes.subtract(owned));
    let mut fields = fields;
    fields.subtract(&unmanaged());
    let unchanged = same(live, &object);
    let time = if unchanged {
        last.and_then(|last| last.time)
    } else {
        Some(write.now.to_owned())
    };
    let owned = Owned {
        fields,
        version: write.api_version.to_owned(),
        time,
    };
    managers.set(manager, owned);
    Ok((object, managers))
}

fn conflicts(managers: &Managers, changes: &Changes) -> Vec<Conflict> {
    let of_manager = |(manager, owned): (&Manager, &Owned)| {
        let fields = changes.taken_from(owned);
        (!fields.is_empty()).then(|| Conflict {
            manager: manager.clone(),
            fields,
        })
    };
    managers.iter().filter_map(of_manager).collect()
}

/// Removes the fields that the manager applied last time, not this time, and that no other manager owns.
fn pruned(merged: &Value, last: &Owned, others: &Managers, fields: &FieldSet, write: &Write<'_>) -> Value {
    let Some(shape) = write.versions.shape(&last.version) else {
        return merged.clone();
    };
    let kind = Kind::of(shape);
    let merged = write.versions.convert(merged, write.api_version, &last.version);
    let last_fields = with_declared_parents(kind, &last.fields);
    let removed = remove(kind, &merged, &last_fields);
    let kept = keep_owned(&merged, removed, last, others, fields, write);
    // Only what the manager applied itself is removed.
    let mut gone = with_declared_parents(kind, &fields_of(kind, &merged));
    gone.subtract(&with_declared_parents(kind, &fields_of(kind, &kept)));
    let pruned = remove(kind, &merged, &gone.intersection(&last_fields));
    write
        .versions
        .convert(&pruned, &last.version, write.api_version)
        .into_owned()
}

/// Restores the removed fields that any manager owns, including those of the new configuration. Both objects have the
/// version of `last`.
fn keep_owned(
    merged: &Value,
    removed: Value,
    last: &Owned,
    others: &Managers,
    fields: &FieldSet,
    write: &Write<'_>,
) -> Value {
    let mut of_versions = BTreeMap::from([(write.api_version, fields.clone())]);
    for (_, other) in others.iter() {
        of_versions
            .entry(&other.version)
            .or_default()
            .extend(other.fields.clone());
    }
    let mut result = removed;
    for (version, owned) in of_versions {
        let Some(shape) = write.versions.shape(version) else {
            continue;
        };
        let kind = Kind::of(shape);
        let convert = |object| write.versions.convert(object, &last.version, version);
        let (all, left) = (convert(merged), convert(&result));
        let mut gone = with_declared_parents(kind, &fields_of(kind, &all));
        gone.subtract(&with_declared_parents(kind, &fields_of(kind, &left)));
        gone.subtract(&with_declared_parents(kind, &owned));
        let kept = remove(kind, &all, &gone);
        result = write.versions.convert(&kept, version, &last.version).into_owned();
    }
    result
}
