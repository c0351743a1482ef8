//! A Machine's provider id is written once: another one means that a VM was forgotten.

use crate::engine::observe::Observation;
use crate::engine::world::WorldState;

pub(super) fn check(world: &WorldState, _: &Observation) -> Option<String> {
    let (name, history) = world
        .machines
        .iter()
        .find(|(_, history)| history.provider_ids.len() > 1)?;
    let ids: Vec<&str> = history.provider_ids.iter().map(String::as_str).collect();
    Some(format!("machine {name} had {}", ids.join(" and ")))
}
