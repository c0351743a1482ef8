//! The drain of a preserved machine whose node does not answer: its kubelet confirms no end of a container, and the VM
//! may run for as long as it is preserved. The condition and the event name the pods that left the API and those that stay.

use super::super::drain::Removal;
use super::super::pass::Pass;
use super::super::{Plan, Pod};
use super::keep::settle;
use super::{DRAINED, Facts, count, names};

/// Removes the pods that may be removed, evicts the others, and ends the drain.
pub(super) fn decide(pass: &Pass, facts: &Facts, pods: Vec<Pod>) -> Plan {
    let removal = Removal::of(pass, pods);
    let mut plan = settle(pass, facts, Some(&message(&removal)));
    plan.actions.splice(0..0, removal.actions());
    plan
}

fn message(removal: &Removal) -> String {
    let (kept, removed) = (removal.kept.as_slice(), removal.removed.len());
    if kept.is_empty() && removed == 0 {
        return DRAINED.to_owned();
    }
    if removal.stopped {
        return format!("Preserved node is stopped: {} left the API.", count(removed));
    }
    let left = format!(
        "Preserved node does not answer: {} left the API; the node did not confirm",
        count(removed)
    );
    if kept.is_empty() {
        return format!("{left}.");
    }
    format!("{left}; {} kept: {}.", count(kept.len()), names(kept))
}
