//! I3: collection of orphans never deletes the VM of a Machine that is not Terminating in truth, whatever caches say:
//! neither the one that it names by its provider id nor its only one while it names none.
//!
//! After the collection of a VM without a Machine, none of its name comes within an orphan period: restores take their time.
//!
//! Every DeleteMachine of the driver is looked at, whoever made it: a deletion that a Machine's own end asks for finds a
//! deletionTimestamp. The one exception is a VM whose node name an older Node has: that VM goes again at once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use scenario::cloud::Vm;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::{after, is_deleting, name, text, time};

#[derive(Debug, Default)]
pub(super) struct NoHealthyVmCollected {
    /// When the VM of a machine that was not there was deleted, by name.
    collected: BTreeMap<String, Timestamp>,
    /// Machines that went, as they do: the deletion of their VMs may be seen after them.
    gone: BTreeSet<String>,
}

impl Check for NoHealthyVmCollected {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(machine) = context.deleted("Machine") {
            self.gone.insert(name(machine).to_owned());
        }
        if let Some(machine) = context.applied("Machine").filter(|_| context.before.is_none()) {
            let collected = self.collected.remove(name(machine))?;
            // One that was made before is seen late, and may be gone.
            let made = time(machine, "/metadata/creationTimestamp").is_none_or(|made| made > collected);
            let restored = made && context.at() < after(collected, context.rules.timeouts.orphan_period);
            return restored.then(|| {
                format!(
                    "the VM of machine {}, which was restored at {}, had been collected at {collected}",
                    name(machine),
                    context.at()
                )
            });
        }
        let call = context
            .call()
            .filter(|call| call.call == "DeleteMachine" && call.code == "OK")?;
        let known = context.world.object("Machine", &call.machine).is_some() || self.gone.contains(&call.machine);
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
        let named = text(machine, "/spec/providerID");
        let another_lives = context.world.vms_of(&call.machine).any(|other| other.state.is_live());
        let its_own = named == vm.provider_id || (named.is_empty() && !another_lives);
        (its_own && !has_foreign_node(context, machine, vm)).then(|| {
            format!(
                "VM {} of machine {}, which is not being deleted, was deleted",
                vm.id,
                name(machine)
            )
        })
    }
}

/// Whether the name under which the VM would join is taken: by the Node of another VM, or by one of nobody's that is older
/// than the machine.
fn has_foreign_node(context: &CheckContext, machine: &Value, vm: &Vm) -> bool {
    let Some(node) = context.world.object("Node", &vm.node) else {
        return false;
    };
    let of = text(node, "/spec/providerID");
    let created = |object| time(object, "/metadata/creationTimestamp");
    if of.is_empty() {
        created(node) < created(machine)
    } else {
        of != vm.provider_id
    }
}
