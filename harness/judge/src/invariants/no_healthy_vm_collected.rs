//! I3: orphan collection never deletes the VM of a Machine that is not Terminating on the API server, whatever caches
//! contain: neither the VM in the Machine's provider ID, nor its only VM while the provider ID is not set.
//!
//! After a VM without a Machine was collected, no Machine of its name appears within an orphan period: a restore takes
//! some time.
//!
//! Every DeleteMachine call is checked, whatever its cause: a call for a deleted Machine finds a deletionTimestamp. One
//! exception: a VM whose node name belongs to an older Node is deleted at once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use scenario::cloud::Vm;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, is_deleting, name, text, time};

#[derive(Debug, Default)]
pub(super) struct NoHealthyVmCollected {
    /// By machine name: when a VM without a Machine was deleted.
    collected: BTreeMap<String, Timestamp>,
    /// Machines that were removed regularly. The deletion of their VMs may be observed later.
    removed: BTreeSet<String>,
}

impl Check for NoHealthyVmCollected {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(machine) = context.deleted("Machine") {
            self.removed.insert(name(machine).to_owned());
        }
        if let Some(machine) = context.applied("Machine").filter(|_| context.before.is_none()) {
            let collected = self.collected.remove(name(machine))?;
            // A Machine that was created before the collection may be observed late, and may already be removed.
            let created_later = time(machine, "/metadata/creationTimestamp").is_none_or(|created| created > collected);
            let restored = created_later && context.at() < after(collected, context.rules.timeouts.orphan_period);
            return restored.then(|| {
                format!(
                    "the VM of machine {}, which was restored at {}, was collected at {collected}",
                    name(machine),
                    context.at()
                )
            });
        }
        let call = context
            .call()
            .filter(|call| call.call == "DeleteMachine" && call.code == "OK")?;
        let known = context.world.object("Machine", &call.machine).is_some() || self.removed.contains(&call.machine);
        if !known && context.truth.machine().is_none() {
            self.collected.insert(call.machine.clone(), context.at());
            return None;
        }
        let machine = context.truth.machine().filter(|machine| !is_deleting(machine))?;
        let vm = context
            .world
            .vms
            .values()
            .filter(|vm| vm.machine == call.machine && !vm.state.is_live())
            .max_by_key(|vm| vm.revision)?;
        let provider_id = text(machine, "/spec/providerID");
        let another_lives = context.world.vms_of(&call.machine).any(|other| other.state.is_live());
        let is_current_vm = provider_id == vm.provider_id || (provider_id.is_empty() && !another_lives);
        (is_current_vm && !has_foreign_node(context, machine, vm)).then(|| {
            format!(
                "VM {} of machine {}, which is not being deleted, was deleted",
                vm.id,
                name(machine)
            )
        })
    }
}

/// Whether the VM's node name is taken: by the Node of another VM, or by a Node without a provider ID that is older
/// than the machine.
fn has_foreign_node(context: &CheckContext, machine: &Value, vm: &Vm) -> bool {
    let Some(node) = context.world.object("Node", &vm.node) else {
        return false;
    };
    let node_provider_id = text(node, "/spec/providerID");
    let created = |object| time(object, "/metadata/creationTimestamp");
    if node_provider_id.is_empty() {
        created(node) < created(machine)
    } else {
        node_provider_id != vm.provider_id
    }
}
