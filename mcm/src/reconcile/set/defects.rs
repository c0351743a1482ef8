//! Changes by planted defects to a set's view.

use mcm_api::{Machine, MachineSet};

use super::Controllers;
use crate::cache::Key;

impl Controllers {
    /// Adds all machines without a controller to a set, or removes the preservation of machines whose Node is absent,
    /// depending on the defect.
    pub(super) fn defective_machines(&self, set: &MachineSet) -> Vec<std::sync::Arc<Machine>> {
        let mut machines = self.executor.state.machines_for(set);
        if defect!(EmptySelectorTakesAll) {
            let all = self.executor.state.machines.all().into_iter();
            machines.extend(all.filter(|machine| mcm_core::ownership::controller(&machine.metadata).is_none()));
        }
        let blind = defect!(FailedMachinesKeptWithNodeOnly);
        let Some(target) = self.executor.state.target.as_ref().filter(|_| blind) else {
            return machines;
        };
        for machine in &mut machines {
            let labels = machine.metadata.labels.as_ref();
            let node = labels.and_then(|labels| labels.get(mcm_api::keys::NODE_LABEL));
            if node.is_none_or(|node| target.nodes.get(&Key::new("", node)).is_none()) {
                let machine = std::sync::Arc::make_mut(machine);
                machine.status.preservation = None;
                machine.status.current_status.preserve_expiry_time = None;
            }
        }
        machines
    }
}
