//! I1: at most one live VM a Machine. A stopped VM exists and costs money: it is live.

use std::collections::BTreeMap;

use crate::engine::observe::{Observation, Seen};
use crate::engine::world::WorldState;
use crate::stage::cloud::CloudEvent;

pub(super) fn check(world: &WorldState, observation: &Observation) -> Option<String> {
    let Seen::Cloud(CloudEvent::Vm(_)) = &observation.what else {
        return None;
    };
    let mut by_uid: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for vm in world
        .vms
        .values()
        .filter(|vm| vm.state.is_live() && !vm.machine_uid.is_empty())
    {
        by_uid
            .entry(&vm.machine_uid)
            .or_default()
            .push(format!("{} of machine {} is {}", vm.id, vm.machine, vm.state));
    }
    let (uid, vms) = by_uid.into_iter().find(|(_, vms)| vms.len() > 1)?;
    Some(format!(
        "machine uid {uid} has {} live VMs: {}",
        vms.len(),
        vms.join(", ")
    ))
}
