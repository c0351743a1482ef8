//! Counts of what occurred in a world, by kind.

use std::collections::BTreeMap;

use scenario::Occurred;

use crate::world::WorldState;

/// Counts from the world state. The harness adds faults and reasons.
pub fn in_world(world: &WorldState) -> Occurred {
    let mut occurred = Occurred {
        preservations: world.preserved.clone(),
        health_checks: world.checked.clone(),
        ..Occurred::default()
    };
    let count = |counts: &mut BTreeMap<String, u64>, name: String| *counts.entry(name).or_default() += 1;
    for history in world.machines.values() {
        let phases = history.phases.iter().map(|(_, phase)| phase.as_str());
        let from = std::iter::once("new").chain(phases.clone());
        for (from, to) in from.zip(phases) {
            count(&mut occurred.transitions, format!("{from} -> {to}"));
        }
        if let Some((_, last)) = history.phases.last().filter(|_| !history.exists) {
            count(&mut occurred.transitions, format!("{last} -> gone"));
        }
    }
    occurred
}
