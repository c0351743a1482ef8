//! Commands of users and tests, and reports of kubelets.

use jiff::Timestamp;

use super::command_error::{CommandError, Reference};
use super::{
    Caller, Cloud, DuplicateCreates, Fault, FaultError, FaultKind, FaultRule, KubeletFault, LimitKind, Record,
    RecordKind, Token, Vm, VmState,
};
use crate::glob;

impl Cloud {
    /// Finds the VM of a reference.
    ///
    /// # Errors
    /// No VM matches, or several do.
    pub fn find(&self, reference: &Reference) -> Result<&Vm, CommandError> {
        let missing = || CommandError::NotFound(reference.clone());
        match reference {
            Reference::Id(id) => self.vm(id).ok_or_else(missing),
            Reference::ProviderId(provider_id) => {
                let id = provider_id.rsplit('/').next().unwrap_or_default();
                self.vm(id)
                    .filter(|vm| vm.provider_id == *provider_id)
                    .ok_or_else(missing)
            }
            Reference::Machine(machine) => {
                let fits = |key: &str| key == machine || key.rsplit('/').next() == Some(machine);
                let live = self
                    .live
                    .iter()
                    .filter(|(key, _)| fits(key))
                    .flat_map(|(_, ordinals)| ordinals);
                let found: Vec<&Vm> = live.filter_map(|ordinal| self.vms.get(ordinal)).collect();
                match *found {
                    [] => Err(missing()),
                    [vm] => Ok(vm),
                    ref several => {
                        let ids = several.iter().map(|vm| vm.id.clone()).collect();
                        Err(CommandError::Several {
                            reference: reference.clone(),
                            ids,
                        })
                    }
                }
            }
        }
    }

    /// The VM dies: it stops and still exists.
    ///
    /// # Errors
    /// No single VM matches, or it is neither pending nor running.
    pub fn kill_vm(&mut self, reference: &Reference, now: Timestamp) -> Result<&Vm, CommandError> {
        self.halt(reference, "KillVm", "it died", now)
    }

    /// Switches the VM off.
    ///
    /// # Errors
    /// No single VM matches, or it is neither pending nor running.
    pub fn stop_vm(&mut self, reference: &Reference, now: Timestamp) -> Result<&Vm, CommandError> {
        self.halt(reference, "StopVm", "it was switched off", now)
    }

    fn halt(
        &mut self,
        reference: &Reference,
        operation: &'static str,
        reason: &str,
        now: Timestamp,
    ) -> Result<&Vm, CommandError> {
        let needed = "pending or running";
        let ordinal = self.command(reference, operation, &[VmState::Pending, VmState::Running], needed, now)?;
        self.transition(ordinal, VmState::Stopped, reason, Caller::Control, now);
        self.answer(ordinal, reference)
    }

    /// Starts a stopped VM, with a new boot ID.
    ///
    /// # Errors
    /// No single VM matches, it is not stopped, its zone is down, or there is no capacity.
    pub fn start_vm(&mut self, reference: &Reference, now: Timestamp) -> Result<&Vm, CommandError> {
        self.advance(now);
        let vm = self.find(reference)?;
        self.check_hosts(vm)?;
        if vm.state == VmState::Stopped {
            self.check_room(&vm.machine_type, &vm.zone, &[LimitKind::Capacity])
                .map_err(|error| CommandError::NoRoom(error.message))?;
        }
        let ordinal = self.command(reference, "StartVm", &[VmState::Stopped], "stopped", now)?;
        self.boot(ordinal, "it was switched on", Caller::Control, now);
        self.answer(ordinal, reference)
    }

    /// Restarts a running VM, with a new boot ID.
    ///
    /// # Errors
    /// No single VM matches, or it is not running.
    pub fn reboot_vm(&mut self, reference: &Reference, now: Timestamp) -> Result<&Vm, CommandError> {
        let ordinal = self.command(reference, "RebootVm", &[VmState::Running], "running", now)?;
        self.boot(ordinal, "it rebooted", Caller::Control, now);
        self.answer(ordinal, reference)
    }

    fn check_hosts(&self, vm: &Vm) -> Result<(), CommandError> {
        if self.is_down(&vm.zone) {
            return Err(CommandError::ZoneDown {
                vm: vm.id.clone(),
                zone: vm.zone.clone(),
            });
        }
        Ok(())
    }

    /// Deletes the VM without the controller's knowledge.
    ///
    /// # Errors
    /// No single VM matches, or it is already deleted.
    pub fn delete_vm(&mut self, reference: &Reference, now: Timestamp) -> Result<&Vm, CommandError> {
        let live = [VmState::Pending, VmState::Running, VmState::Stopped];
        let ordinal = self.command(reference, "DeleteVm", &live, "pending, running or stopped", now)?;
        self.remove(
            ordinal,
            "it was deleted behind the controller's back",
            Caller::Control,
            now,
        );
        self.answer(ordinal, reference)
    }

    /// Performs the next transition of a VM immediately, held or not.
    ///
    /// # Errors
    /// No single VM matches, it has no pending transition, or its zone is down and it would boot.
    pub fn step_vm(&mut self, reference: &Reference, now: Timestamp) -> Result<&Vm, CommandError> {
        self.advance(now);
        let vm = self.find(reference)?;
        if vm.state == VmState::Pending {
            self.check_hosts(vm)?;
        }
        let states = [VmState::Pending, VmState::Stopping];
        let ordinal = self.command(reference, "Step", &states, "pending or stopping", now)?;
        self.progress(ordinal, Caller::Control, now);
        self.answer(ordinal, reference)
    }

    /// Stops or starts the kubelet of a VM; starting ends any outage.
    ///
    /// # Errors
    /// No single VM matches, or it is deleted.
    pub fn set_kubelet(&mut self, reference: &Reference, runs: bool, now: Timestamp) -> Result<&Vm, CommandError> {
        let operation = if runs { "StartKubelet" } else { "StopKubelet" };
        let live = [VmState::Pending, VmState::Running, VmState::Stopped];
        let ordinal = self.command(reference, operation, &live, "pending, running or stopped", now)?;
        if runs {
            self.restore_now(ordinal, FaultKind::Outage);
        } else {
            self.break_now(ordinal, KubeletFault::Stopped, None, now);
        }
        self.answer(ordinal, reference)
    }

    /// Holds VMs that `pattern` matches, including future ones: they make no transition.
    ///
    /// # Errors
    /// The pattern is empty.
    pub fn hold(&mut self, pattern: &str, now: Timestamp) -> Result<Vec<&Vm>, CommandError> {
        if pattern.is_empty() {
            return Err(CommandError::EmptyPattern);
        }
        self.advance(now);
        self.holds.insert(pattern.to_owned());
        self.note("Hold", pattern, now);
        Ok(self.reschedule(pattern, now))
    }

    /// Removes a hold. Overdue transitions happen at once.
    ///
    /// # Errors
    /// The hold does not exist.
    pub fn release(&mut self, pattern: &str, now: Timestamp) -> Result<Vec<&Vm>, CommandError> {
        self.advance(now);
        if !self.holds.remove(pattern) {
            return Err(CommandError::NoHold(pattern.to_owned()));
        }
        self.note("Release", pattern, now);
        Ok(self.reschedule(pattern, now))
    }

    /// Adds or removes the deadlines of the VMs that a pattern matches, and returns these VMs.
    fn reschedule(&mut self, pattern: &str, now: Timestamp) -> Vec<&Vm> {
        let matching = |vm: &&Vm| {
            vm.state != VmState::Terminated && (vm.id == pattern || glob::matches_machine(pattern, &vm.owner.key()))
        };
        let ordinals: Vec<u64> = self.vms.values().filter(matching).map(|vm| vm.ordinal).collect();
        for &ordinal in &ordinals {
            self.unschedule(ordinal);
            self.schedule(ordinal, now);
        }
        self.advance(now);
        ordinals.iter().filter_map(|ordinal| self.vms.get(ordinal)).collect()
    }

    /// Appends a fault rule.
    ///
    /// # Errors
    /// The rule is invalid, or its ID exists.
    pub fn add_fault(&mut self, rule: FaultRule, now: Timestamp) -> Result<Fault, FaultError> {
        self.advance(now);
        let fault = self.faults.add(rule, now)?.clone();
        self.note("AddFault", &fault.rule.name, now);
        Ok(fault)
    }

    /// Removes a fault rule and returns its counters.
    ///
    /// # Errors
    /// The rule does not exist.
    pub fn remove_fault(&mut self, id: &str, now: Timestamp) -> Result<Fault, FaultError> {
        self.advance(now);
        let fault = self.faults.remove(id)?;
        self.note("RemoveFault", id, now);
        Ok(fault)
    }

    /// Sets the result of a second creation for a machine.
    pub fn set_duplicate_creates(&mut self, duplicates: DuplicateCreates, now: Timestamp) {
        self.advance(now);
        self.settings.duplicate_creates = duplicates;
        self.overrides.duplicate_creates = Some(duplicates);
        let text = match duplicates {
            DuplicateCreates::One => "one",
            DuplicateCreates::Two => "two",
        };
        self.note("SetDuplicateCreates", text, now);
    }

    /// A kubelet has registered its Node; it no longer needs its bootstrap token.
    pub fn kubelet_joined(&mut self, vm: &str, now: Timestamp) {
        self.advance(now);
        if let Some(vm) = self.ids.get(vm).and_then(|ordinal| self.vms.get_mut(ordinal)) {
            vm.joined = true;
        }
        self.kubelet_reports(vm, "Joined", "the Node is registered", now);
    }

    /// Logs an event of a kubelet.
    pub fn kubelet_reports(&mut self, vm: &str, operation: &'static str, message: &str, now: Timestamp) {
        self.advance(now);
        let record = Record::new(RecordKind::Kubelet, Caller::Kubelet, operation, now);
        let record = match self.vm(vm) {
            Some(vm) => record.about(vm),
            None => record,
        };
        self.log.append(record.saying(message));
    }

    /// Logs an action of the cloud controller on a VM's Node.
    pub fn controller_reports(&mut self, vm: &str, operation: &'static str, message: &str, now: Timestamp) {
        self.advance(now);
        let record = Record::new(RecordKind::Kubelet, Caller::Cloud, operation, now);
        let record = match self.vm(vm) {
            Some(vm) => record.about(vm),
            None => record,
        };
        self.log.append(record.saying(message));
    }

    /// Sets the accepted credentials; without any, all are accepted.
    pub fn set_credentials(&mut self, tokens: Vec<Token>, now: Timestamp) {
        self.advance(now);
        self.note("SetCredentials", &format!("{} are accepted", tokens.len()), now);
        self.overrides.api_tokens = Some(tokens.clone());
        self.settings.api_tokens = tokens;
    }

    pub(super) fn note(&mut self, operation: &'static str, subject: &str, now: Timestamp) {
        let record = Record::new(RecordKind::Command, Caller::Control, operation, now);
        self.log.append(record.saying(subject));
    }

    /// Finds the VM, checks its state and logs the command.
    pub(super) fn command(
        &mut self,
        reference: &Reference,
        operation: &'static str,
        states: &[VmState],
        needed: &'static str,
        now: Timestamp,
    ) -> Result<u64, CommandError> {
        self.advance(now);
        let vm = self.find(reference)?;
        if !states.contains(&vm.state) {
            return Err(CommandError::State {
                vm: vm.id.clone(),
                state: vm.state,
                needed,
            });
        }
        let ordinal = vm.ordinal;
        let record = Record::new(RecordKind::Command, Caller::Control, operation, now).about(vm);
        self.log.append(record);
        Ok(ordinal)
    }

    pub(super) fn answer(&self, ordinal: u64, reference: &Reference) -> Result<&Vm, CommandError> {
        self.vms
            .get(&ordinal)
            .ok_or_else(|| CommandError::NotFound(reference.clone()))
    }
}
