//! I2: (a) at the commit that removes a Machine object no live VM carries its uid. Exceptions: a byzantine fault is
//! active, or a user removed the object by force.
//!
//! (b) After a quiet period of the orphan period plus the lag of listings plus the duration of a deletion, and one
//! orphan period for each further orphan, every live VM has a Machine.

use scenario::cloud::Vm;
use scenario::observation::{Quiet, Seen};

use super::Check;
use super::check_context::CheckContext;
use crate::object::{name, uid};
use crate::world::WorldState;

#[derive(Debug)]
pub(super) struct NoLeak;

impl Check for NoLeak {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        if let Some(machine) = context.deleted("Machine") {
            let left = describe_live(context, |vm| vm.machine_uid == uid(machine));
            let excused = !context.rules.byzantine.is_empty() || context.rules.forced.contains(name(machine));
            return (!left.is_empty() && !excused)
                .then(|| format!("machine {} has been removed, but VM {left}", name(machine)));
        }
        if !matches!(context.observation.what, Seen::Quiet(Quiet::Silent { .. })) {
            return None;
        }
        let left = describe(vms_without_machine(context.world));
        (!left.is_empty()).then(|| format!("after the time to settle these VMs have no Machine: VM {left}"))
    }
}

/// The live VMs that were created for a Machine that does not exist any more.
pub fn vms_without_machine(world: &WorldState) -> impl Iterator<Item = &Vm> {
    let has_machine = |vm: &Vm| world.of_kind("Machine").any(|machine| uid(machine) == vm.machine_uid);
    let live = world.vms.values().filter(|vm| vm.state.is_live());
    live.filter(move |vm| !vm.machine_uid.is_empty() && !has_machine(vm))
}

fn describe_live(context: &CheckContext, predicate: impl Fn(&Vm) -> bool) -> String {
    let live = context.world.vms.values().filter(|vm| vm.state.is_live());
    describe(live.filter(|vm| predicate(vm)))
}

fn describe<'a>(vms: impl Iterator<Item = &'a Vm>) -> String {
    let each: Vec<String> = vms
        .map(|vm| {
            format!(
                "{} of machine {} ({}) is {}",
                vm.id, vm.machine, vm.machine_uid, vm.state
            )
        })
        .collect();
    each.join(", VM ")
}
