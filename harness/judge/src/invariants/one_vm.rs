//! I1: at every moment at most one live VM carries a given Machine uid. A stopped VM exists and costs money, so it is
//! live.
//!
//! Weak form, while the cloud or the API server violates its own contract: at most two.

use scenario::cloud::Vm;

use super::Check;
use super::check_context::CheckContext;

#[derive(Debug)]
pub(super) struct OneVm;

impl Check for OneVm {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        let changed = context
            .vm()
            .filter(|vm| vm.state.is_live() && !vm.machine_uid.is_empty())?;
        let is_of_machine = |vm: &&Vm| vm.state.is_live() && vm.machine_uid == changed.machine_uid;
        let live: Vec<String> = context
            .world
            .vms
            .values()
            .filter(is_of_machine)
            .map(|vm| format!("{} of machine {} is {}", vm.id, vm.machine, vm.state))
            .collect();
        let limit = if context.rules.byzantine.is_empty() { 1 } else { 2 };
        (live.len() > limit).then(|| {
            format!(
                "machine uid {} has {} live VMs: {}",
                changed.machine_uid,
                live.len(),
                live.join(", ")
            )
        })
    }
}
