//! Events of VMs besides being switched on and off: preemption, kernel panic, a full disk.

use std::time::Duration;

use jiff::Timestamp;
use mcm_api::duration::GoDuration;

use super::kubelet_commands::Planned;
use super::{Caller, Cloud, CommandError, KubeletFault, NodeCondition, Reference, Vm, VmState, later};

/// The condition of a Node whose VM will be preempted.
pub const TERMINATION_SCHEDULED: &str = "TerminationScheduled";
/// The condition of a Node whose disk is full.
const DISK_PRESSURE: &str = "DiskPressure";

impl Cloud {
    /// Preempts the VM: its Node has a condition at once, and the VM stops after the notice.
    ///
    /// # Errors
    /// No single VM matches, or it is neither pending nor running.
    pub fn preempt_vm(&mut self, reference: &Reference, notice: Duration, now: Timestamp) -> Result<&Vm, CommandError> {
        let states = [VmState::Pending, VmState::Running];
        let ordinal = self.command(reference, "PreemptVm", &states, "pending or running", now)?;
        let due = later(now, notice);
        if let Some(vm) = self.vms.get_mut(&ordinal) {
            vm.preempted = Some(due);
            let condition = NodeCondition {
                status: "True".to_owned(),
                reason: "Preempted".to_owned(),
                message: format!("the cloud preempts the VM in {}", GoDuration(notice)),
            };
            vm.conditions.insert(TERMINATION_SCHEDULED.to_owned(), Some(condition));
        }
        self.planned.insert((due, ordinal, Planned::Preempt));
        let text = format!("it is preempted in {}", GoDuration(notice));
        self.say(ordinal, Caller::Control, "PreemptionNotice", &text, now);
        self.advance(now);
        self.answer(ordinal, reference)
    }

    /// Stops a VM at the end of its notice.
    pub(super) fn preempt_now(&mut self, ordinal: u64, now: Timestamp) {
        let state = self.vms.get(&ordinal).map(|vm| vm.state);
        if matches!(state, Some(VmState::Pending | VmState::Running)) {
            self.transition(ordinal, VmState::Stopped, "it was pre-empted", Caller::Cloud, now);
        }
        if let Some(vm) = self.vms.get_mut(&ordinal) {
            vm.preempted = None;
            vm.conditions.insert(TERMINATION_SCHEDULED.to_owned(), None);
        }
    }

    /// The VM's kernel panics: the cloud shows it as running, but nothing runs on it until the next boot.
    ///
    /// # Errors
    /// No single VM matches, or it is not running.
    pub fn panic_vm(&mut self, reference: &Reference, now: Timestamp) -> Result<&Vm, CommandError> {
        let ordinal = self.command(reference, "PanicVm", &[VmState::Running], "running", now)?;
        self.break_now(ordinal, KubeletFault::Stopped, None, now);
        if let Some(vm) = self.vms.get_mut(&ordinal) {
            vm.panicked = true;
        }
        self.say(
            ordinal,
            Caller::Control,
            "KernelPanic",
            "nothing on it runs until it boots again",
            now,
        );
        self.answer(ordinal, reference)
    }

    /// Fills the VM's disk: its Node has disk pressure until that condition is cleared.
    ///
    /// # Errors
    /// No single VM matches, or it is deleted.
    pub fn fill_disk(&mut self, reference: &Reference, now: Timestamp) -> Result<&Vm, CommandError> {
        let condition = NodeCondition {
            status: "True".to_owned(),
            reason: "KubeletHasDiskPressure".to_owned(),
            message: "kubelet has disk pressure: the boot disk is full".to_owned(),
        };
        self.set_node_condition(reference, DISK_PRESSURE, condition, now)
    }
}
