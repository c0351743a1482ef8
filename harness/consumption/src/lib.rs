//! What objects consume of the resource quotas of their namespace, by upstream's rules (`pkg/quota/v1/evaluator/core`). The
//! API server's admission and the quota controller count by the same rules. The crate does not know who counts.

// Numbers come from users: arithmetic saturates, or is checked. An exception states why it cannot overflow.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod scopes;
pub mod sums;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use quantity::Quantity;
use serde_json::Value;

/// Amounts by the name that quotas use for them.
pub type Usage = BTreeMap<String, Quantity>;

/// Amounts by the name of their resource.
pub type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// A resource of the API, as in its paths.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// `pods`
    pub plural: &'a str,
}

impl<'a> Counted<'a> {
    /// A resource of the core group.
    pub const fn core(plural: &'a str) -> Self {
        Self { group: "", plural }
    }

    /// Whether it is this resource of the core group.
    pub fn is_core(self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    /// Whether objects of this resource can consume what a quota calls `name`.
    pub fn is_limited(self, name: &str) -> bool {
        let counts = |name: &str| name == self.count() || Some(name) == usage::alias_of(self);
        match (self.group, self.plural) {
            ("", "pods") => counts(name) || usage::is_of_pods(name),
            ("", "services") => counts(name) || name.starts_with("services."),
            ("", "persistentvolumeclaims") => {
                counts(name) || name == "requests.storage" || name.contains(usage::OF_STORAGE_CLASS)
            }
            _ => counts(name),
        }
    }

    /// `count/deployments.apps`
    pub fn count(self) -> String {
        let point = if self.group.is_empty() { "" } else { "." };
        format!("count/{}{point}{}", self.plural, self.group)
    }

    /// What an object of this resource consumes.
    pub fn usage(self, object: &Value) -> Usage {
        usage::of(self, object)
    }

    /// Whether an object of this resource is in all scopes of a quota. Objects other than pods are in none.
    pub fn is_in_scopes(self, quota: &Value, object: &Value) -> bool {
        scopes::contain(self, quota, object)
    }
}

/// The resources that a quota counts under their own names, too: `pods`, and not only `count/pods`.
pub const OWN_NAMES: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// What a quota limits and a container of the pod does not give, in upstream's words.
pub fn missing_values(limited: &BTreeSet<&str>, pod: &Value) -> Option<String> {
    usage::missing_values(limited, pod)
}

/// The quantities of the object at a pointer; without those that are none.
pub fn amounts<'a>(value: &'a Value, pointer: &str) -> Amounts<'a> {
    let members = value.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let parsed = members.filter_map(|(name, amount)| Some((name.as_str(), amount.as_str()?.parse().ok()?)));
    parsed.collect()
}

/// A string; empty if absent.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A list; empty if absent.
fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}
