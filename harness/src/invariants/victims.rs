//! I15: the right victim, and no churn. Nobody is removed beyond the request; a controller never makes what it then
//! removes without a change of the spec in between.
//!
//! Judged of Machines of a MachineSet. Nothing to judge while no controller makes any.

use std::collections::BTreeMap;

use super::Check;
use super::sight::{Sight, is_deleting, name, owner, phase, uid};

/// By Machine uid: the set's generation and replicas when it was made.
#[derive(Debug, Default)]
pub(super) struct Victims(BTreeMap<String, (i64, i64)>);

impl Check for Victims {
    fn see(&mut self, sight: &Sight) -> Option<String> {
        if let Some(machine) = sight.deleted("Machine") {
            self.0.remove(uid(machine));
        }
        let machine = sight.applied("Machine")?;
        let set = sight.world.object("MachineSet", owner(machine, "MachineSet")?)?;
        let generation = set["metadata"]["generation"].as_i64().unwrap_or_default();
        let replicas = set["spec"]["replicas"].as_i64().unwrap_or_default();
        if sight.before.is_none() {
            self.0.insert(uid(machine).to_owned(), (generation, replicas));
            return None;
        }
        let removed = is_deleting(machine) && !sight.before.is_some_and(is_deleting);
        let asked = is_deleting(set) || sight.terms.is_by_user("Machine", name(machine)) || phase(machine) == "Failed";
        if !removed || asked {
            return None;
        }
        let left = sight
            .world
            .of_kind("Machine")
            .filter(|other| owner(other, "MachineSet") == Some(name(set)) && !is_deleting(other))
            .count() as i64;
        if left < replicas {
            return Some(format!(
                "machine {} of set {} was removed beyond the request: {left} are left of {replicas}",
                name(machine),
                name(set)
            ));
        }
        let made_under = self.0.get(uid(machine))?;
        (*made_under == (generation, replicas)).then(|| {
            format!(
                "set {} removed machine {}, which it made without a change of its spec since",
                name(set),
                name(machine)
            )
        })
    }
}
