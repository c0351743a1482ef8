//! `metadata.managedFields`: which manager owns which fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::path::InvalidElement;
use super::set::FieldSet;

/// How many managers of updates an object has at most; older ones are merged.
const MAX_UPDATERS: usize = 10;
/// The manager of the fields of merged managers.
const MERGED: &str = "ancient-changes";

/// The managers of an object and their fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managers {
    entries: BTreeMap<Manager, Owned>,
}

/// What identifies an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    pub(crate) operation: Operation,
    pub(crate) name: String,
    /// The version of updates; empty for configurations, of which a manager has one in all versions.
    pub(crate) version: String,
    /// `status`, `scale`, or empty for the object itself.
    pub(crate) subresource: String,
}

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// It applies configurations.
    Apply,
    /// It creates, updates and patches.
    Update,
}

/// The fields of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) fields: FieldSet,
    /// The `apiVersion` of the fields.
    pub(crate) version: String,
    /// The last change; upstream has entries without one.
    pub(crate) time: Option<String>,
}

/// `managedFields` that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidManagers {
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    Version,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {1:?} in managed fields entry {0}")]
    FieldsType(usize, String),
    #[error(transparent)]
    Fields(#[from] InvalidElement),
}

impl Managers {
    /// Decodes `managedFields`.
    ///
    /// # Errors
    /// For the first invalid entry.
    pub(crate) fn decode(value: &Value) -> Result<Self, InvalidManagers> {
        let mut managers = Self::default();
        for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let operation = match text("operation").as_str() {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(InvalidManagers::Operation),
            };
            let version = text("apiVersion");
            if version.is_empty() {
                return Err(InvalidManagers::Version);
            }
            match text("fieldsType").as_str() {
                "FieldsV1" => {}
                "" => return Err(InvalidManagers::NoFieldsType(index)),
                other => return Err(InvalidManagers::FieldsType(index, other.to_owned())),
            }
            let manager = Manager {
                operation,
                name: text("manager"),
                version: if operation == Operation::Apply {
                    String::new()
                } else {
                    version.clone()
                },
                subresource: text("subresource"),
            };
            let owned = Owned {
                fields: FieldSet::parse(entry.get("fieldsV1").unwrap_or(&Value::Null))?,
                version,
                time: Some(text("time")).filter(|time| !time.is_empty()),
            };
            managers.entries.insert(manager, owned);
        }
        Ok(managers)
    }

    /// The managers of an object; none if they cannot be decoded.
    pub(crate) fn of(object: &Value) -> Self {
        let value = object.pointer("/metadata/managedFields").unwrap_or(&Value::Null);
        Self::decode(value).unwrap_or_default()
    }

    /// The managers in the order that an object has them in: the last one to change a field is the last one of its operation.
    fn in_order(&self) -> Vec<(&Manager, &Owned)> {
        fn key<'a>(manager: &'a Manager, owned: &'a Owned) -> impl Ord + use<'a> {
            let name = (&manager.name, &owned.version, &manager.subresource);
            (manager.operation, &owned.time, name)
        }
        let mut entries: Vec<(&Manager, &Owned)> = self.entries.iter().collect();
        entries.sort_by(|(one, of_one), (other, of_other)| key(one, of_one).cmp(&key(other, of_other)));
        entries
    }

    /// The form in an object; `None` if there are no managers.
    pub(crate) fn encode(&self) -> Option<Value> {
        let entries = self.in_order();
        let encode = |(manager, owned): (&Manager, &Owned)| {
            let operation = match manager.operation {
                Operation::Apply => "Apply",
                Operation::Update => "Update",
            };
            let mut entry = Map::new();
            for (name, text) in [
                ("manager", manager.name.as_str()),
                ("operation", operation),
                ("apiVersion", &owned.version),
                ("time", owned.time.as_deref().unwrap_or_default()),
                ("fieldsType", "FieldsV1"),
                ("subresource", &manager.subresource),
            ] {
                if !text.is_empty() {
                    entry.insert(name.to_owned(), text.into());
                }
            }
            entry.insert("fieldsV1".to_owned(), owned.fields.encode());
            Value::Object(entry)
        };
        (!entries.is_empty()).then(|| entries.into_iter().map(encode).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets the fields of a manager, or removes the manager if there are none.
    pub(crate) fn set(&mut self, manager: Manager, owned: Owned) {
        if owned.fields.is_empty() {
            self.entries.remove(&manager);
        } else {
            self.entries.insert(manager, owned);
        }
    }

    pub(crate) fn remove(&mut self, manager: &Manager) -> Option<Owned> {
        self.entries.remove(manager)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Manager, &Owned)> {
        self.entries.iter()
    }

    /// Changes the fields of all managers and removes those that are left without.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Manager, &mut Owned) -> bool) {
        self.entries
            .retain(|manager, owned| keep(manager, owned) && !owned.fields.is_empty());
    }

    /// Merges the oldest managers of updates if there are too many.
    pub(crate) fn limit_updaters(&mut self) {
        let updaters = self
            .entries
            .iter()
            .filter(|(manager, _)| manager.operation == Operation::Update);
        let mut oldest: Vec<(Option<String>, Manager)> = updaters
            .map(|(manager, owned)| (owned.time.clone(), manager.clone()))
            .collect();
        oldest.sort();
        let mut count = oldest.len();
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for (_, manager) in oldest {
            if count <= MAX_UPDATERS {
                return;
            }
            let Some(version) = self.entries.get(&manager).map(|owned| owned.version.clone()) else {
                continue;
            };
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, manager);
                continue;
            };
            let bucket = Manager {
                operation: Operation::Update,
                name: MERGED.to_owned(),
                version: version.clone(),
                subresource: String::new(),
            };
            if !self.entries.contains_key(&bucket)
                && let Some(owned) = self.entries.remove(&first.clone())
            {
                self.entries.insert(bucket.clone(), owned);
            }
            if let Some(newer) = self.entries.remove(&manager)
                && let Some(merged) = self.entries.get_mut(&bucket)
            {
                merged.fields.extend(newer.fields);
                merged.time = newer.time;
                count = count.saturating_sub(1);
            }
        }
    }

    /// Whether two objects have the same managers in the same order, whatever the times. As upstream, times count where
    /// they change the order: a manager that applies the same again after another one becomes the last one.
    pub(crate) fn same_except_times(&self, other: &Self) -> bool {
        let (one, other) = (self.in_order(), other.in_order());
        one.len() == other.len()
            && one.iter().zip(&other).all(|((manager, owned), (same, of_same))| {
                manager == same && owned.version == of_same.version && owned.fields == of_same.fields
            })
    }
}

/// Whether a client asks for the removal of all managers: an empty list, or one empty entry.
pub(crate) fn is_reset(value: &Value) -> bool {
    *value == json!([]) || *value == json!([{}])
}
