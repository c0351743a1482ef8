//! Ordinary writes: the writer owns what it changes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::Comparison;
use super::kind::Kind;
use super::managers::{Manager, Managers, Operation, Owned};
use super::reconcile::reconcile;
use super::set::FieldSet;
use super::{Write, kind_of, unmanaged};

/// The managers after a write that changes `old` to `new`; `managers` are those before. `old` is the empty object of
/// the kind for a creation.
pub(crate) fn track(old: &Value, new: &Value, managers: Managers, write: &Write<'_>) -> Managers {
    record(compare(old, new, write), (old, new), managers, write)
}

/// What a write changes, as its endpoint and version see it.
pub(crate) fn compare(old: &Value, new: &Value, write: &Write<'_>) -> Comparison {
    let convert = |object| write.versions.convert(object, write.form, write.api_version);
    Comparison::of(kind_of(write), &convert(old), &convert(new)).without(write.ignored)
}

/// The managers after a write with these changes.
pub(crate) fn record(
    changes: Comparison,
    (old, new): (&Value, &Value),
    managers: Managers,
    write: &Write<'_>,
) -> Managers {
    let mut managers = reconcile(managers, write);
    let mut own = changes.written();
    let changes = Changes::new(changes, (old, new), &managers, write);
    managers.retain(|_, owned| changes.subtract(owned));
    own.subtract(&unmanaged());
    if !own.is_empty() {
        let manager = updater(write);
        let before = managers.remove(&manager);
        let mut fields = before.map(|owned| owned.fields).unwrap_or_default();
        fields.extend(own);
        let owned = Owned {
            fields,
            version: write.api_version.to_owned(),
            time: Some(write.now.to_owned()),
        };
        managers.set(manager, owned);
    }
    managers.limit_updaters();
    managers
}

/// The identity of the writer of an ordinary write.
pub(super) fn updater(write: &Write<'_>) -> Manager {
    Manager {
        operation: Operation::Update,
        name: name_of(write.manager),
        version: write.api_version.to_owned(),
        subresource: write.subresource.to_owned(),
    }
}

/// The name of a manager in an entry.
pub(super) fn name_of(manager: &str) -> String {
    if manager.is_empty() { "unknown" } else { manager }.to_owned()
}

/// The fields that the endpoint writes.
pub(super) fn filtered(mut fields: FieldSet, write: &Write<'_>) -> FieldSet {
    fields.subtract_trees(write.ignored);
    fields
}

/// The changes between two objects in the versions of their managers.
#[derive(Debug)]
pub(super) struct Changes {
    versions: BTreeMap<String, Change>,
}

/// The changes in a version.
#[derive(Debug)]
enum Change {
    Known(Comparison),
    /// The version is not served any more, and its managers are dropped.
    Gone,
}

impl Changes {
    /// Compares two objects in the versions of the managers; `own` are the changes in the version of the request.
    pub(super) fn new(own: Comparison, (old, new): (&Value, &Value), managers: &Managers, write: &Write<'_>) -> Self {
        let mut versions = BTreeMap::from([(write.api_version.to_owned(), Change::Known(own))]);
        for (_, owned) in managers.iter() {
            if !versions.contains_key(&owned.version) {
                let convert = |object| write.versions.convert(object, write.form, &owned.version);
                let change = match write.versions.shape(&owned.version) {
                    Some(shape) => Change::Known(Comparison::of(Kind::of(shape), &convert(old), &convert(new))),
                    None => Change::Gone,
                };
                versions.insert(owned.version.clone(), change);
            }
        }
        Self { versions }
    }

    /// The fields of a manager that the request writes.
    pub(super) fn taken_from(&self, owned: &Owned) -> FieldSet {
        match self.versions.get(&owned.version) {
            Some(Change::Known(changes)) => owned.fields.intersection(&changes.written()),
            _ => FieldSet::default(),
        }
    }

    /// Takes the changed and removed fields from a manager. Returns whether the manager's version is served.
    pub(super) fn subtract(&self, owned: &mut Owned) -> bool {
        match self.versions.get(&owned.version) {
            Some(Change::Known(changes)) => {
                owned.fields.subtract(&changes.added);
                owned.fields.subtract(&changes.modified);
                owned.fields.subtract(&changes.removed);
                true
            }
            Some(Change::Gone) => false,
            None => true,
        }
    }
}
