//! I2a: at the removal of a Machine object no VM of it is left.

use crate::engine::observe::{Observation, Seen};
use crate::engine::world::{WorldState, text};

pub(super) fn check(world: &WorldState, observation: &Observation) -> Option<String> {
    let Seen::Deleted(kind, machine) = &observation.what else {
        return None;
    };
    if kind.kind != "Machine" {
        return None;
    }
    let uid = text(machine, "/metadata/uid");
    let left: Vec<String> = world
        .vms
        .values()
        .filter(|vm| vm.state.is_live() && vm.machine_uid == uid)
        .map(|vm| format!("{} is {}", vm.id, vm.state))
        .collect();
    (!left.is_empty()).then(|| {
        format!(
            "machine {} is gone, and VM {}",
            text(machine, "/metadata/name"),
            left.join(", VM ")
        )
    })
}
