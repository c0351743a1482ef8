//! A kind that the API server serves.

use std::collections::BTreeSet;

use super::ResourceType;

/// A kind that the API server serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// The type, in its group's preferred version.
    pub resource: ResourceType,
    /// The supported verbs.
    pub verbs: BTreeSet<String>,
}

impl Served {
    /// Whether its objects can be watched and deleted, and so can be owners and dependents. Events are
    /// excluded, as in kube-controller-manager: they are numerous and expire.
    pub fn can_be_collected(&self) -> bool {
        self.can("delete") && self.can("list") && self.can("watch") && self.resource.plural != "events"
    }

    /// Whether the kind supports a verb.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.contains(verb)
    }
}
