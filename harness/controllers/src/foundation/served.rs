//! A kind that the server has.

use std::collections::BTreeSet;

use super::ResourceType;

/// A kind that the server has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// The type, in the version that its group prefers.
    pub resource: ResourceType,
    /// What can be done with it.
    pub verbs: BTreeSet<String>,
}

impl Served {
    /// Whether its objects can be seen and deleted, so that they can be owners and dependents. Events
    /// are left out, as by kube-controller-manager: there are many, and they end by themselves.
    pub fn can_be_collected(&self) -> bool {
        self.can("delete") && self.can("list") && self.can("watch") && self.resource.plural != "events"
    }

    /// Whether a verb is offered.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.contains(verb)
    }
}
