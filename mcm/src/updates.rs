//! Which providers' drivers have no UpdateMachine, as this process has learnt.
//!
//! Machines that came from another controller are updated once, since nobody knows what their VMs have; without this
//! memory a driver that cannot do it would be asked again for each of them in every pass. What must not live here: when a
//! VM is updated.

use std::collections::BTreeSet;

use mcm_api::{Code, DriverError, Machine};
use parking_lot::Mutex;

use crate::cache::Key;
use crate::world::World;

/// By provider.
#[derive(Debug, Default)]
pub(crate) struct Updates(Mutex<BTreeSet<String>>);

impl Updates {
    /// Whether the driver of the machine's class is known to lack the call.
    pub(crate) fn is_missing(&self, machine: &Machine, world: &World) -> bool {
        let missing = self.0.lock();
        !missing.is_empty() && missing.contains(&provider(machine, world))
    }

    /// The driver of the machine's class answered.
    pub(crate) fn answered(&self, machine: &Machine, world: &World, error: Option<&DriverError>) {
        let provider = provider(machine, world);
        let mut missing = self.0.lock();
        if error.is_some_and(|error| error.code == Code::Unimplemented) {
            missing.insert(provider);
        } else {
            missing.remove(&provider);
        }
    }
}

fn provider(machine: &Machine, world: &World) -> String {
    let class = world.classes.get(&Key::new(&world.namespace, &machine.spec.class.name));
    class.and_then(|class| class.provider.clone()).unwrap_or_default()
}
