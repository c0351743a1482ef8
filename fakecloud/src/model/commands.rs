//! What a person or a test does to the cloud, and what kubelets report to it.

use std::fmt;

use jiff::Timestamp;

use super::{
    Caller, Cloud, DuplicateCreates, Fault, FaultError, FaultKind, FaultRule, KubeletFault, LimitKind, Record,
    RecordKind, Token, Vm, VmState,
};
use crate::glob;

/// Which VM a command is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// By its id.
    Id(String),
    /// By its provider id.
    ProviderId(String),
    /// By the `NAME` or `NAMESPACE/NAME` of its machine; finds live VMs only.
    Machine(String),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "id {id:?}"),
            Self::ProviderId(id) => write!(f, "provider id {id:?}"),
            Self::Machine(machine) => write!(f, "machine {machine:?}"),
        }
    }
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No VM fits.
    #[error("there is no VM of {0}")]
    NotFound(Reference),
    /// Several VMs fit.
    #[error("{reference} has several VMs, name one by its id: {}", ids.join(", "))]
    Several {
        /// What was asked for.
        reference: Reference,
        /// The VMs that fit.
        ids: Vec<String>,
    },
    /// The VM is in the wrong state.
    #[error("VM {vm} is {state}, and must be {needed} for that")]
    State {
        /// The VM's id.
        vm: String,
        /// Its state.
        state: VmState,
        /// The state or states in which the command is possible.
        needed: &'static str,
    },
    /// There is no such hold.
    #[error("nothing is held by {0:?}")]
    NoHold(String),
    /// A value of the command makes no sense.
    #[error("{0}")]
    Unusable(String),
    /// Nothing has failed there.
    #[error("no failure of {0:?} is under way: name it as it was failed")]
    NoOutage(String),
    /// The zone's hosts are down.
    #[error("VM {vm} cannot boot: the hosts of its zone {zone} are down")]
    ZoneDown {
        /// The VM's id.
        vm: String,
        /// Its zone.
        zone: String,
    },
    /// There is no room for it.
    #[error("{0}")]
    NoRoom(String),
    /// A hold needs a pattern.
    #[error("the pattern is empty: give a VM's id, or a glob on machine names such as *")]
    EmptyPattern,
}

impl Cloud {
    /// The VM that a reference means.
    ///
    /// # Errors
    /// When none fits, or several do.
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

    /// The VM dies: it is stopped, and it still exists.
    ///
    /// # Errors
    /// When no single VM fits, or it is neither pending nor running.
    pub fn kill_vm(&mut self, reference: &Reference, now: Timestamp) -> Result<&Vm, CommandError> {
        self.halt(reference, "KillVm", "it died", now)
    }

    /// The VM is switched off.
    ///
    /// # Errors
    /// When no single VM fits, or it is neither pending nor running.
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

    /// A stopped VM runs again, with a new boot id.
    ///
    /// # Errors
    /// When no single VM fits, it is not stopped, its zone is down, or there is no capacity for it.
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

    /// A running VM restarts, with a new boot id.
    ///
    /// # Errors
    /// When no single VM fits, or it is not running.
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

    /// The VM is deleted behind the back of whoever made it.
    ///
    /// # Errors
    /// When no single VM fits, or it is deleted already.
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

    /// Lets one VM make the step that it would make by itself, held or not.
    ///
    /// # Errors
    /// When no single VM fits, it makes no steps by itself, or it is to boot and its zone is down.
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

    /// Stops the kubelet of a VM that runs on, or ends its outage, whichever that is.
    ///
    /// # Errors
    /// When no single VM fits, or it is deleted.
    pub fn set_kubelet(&mut self, reference: &Reference, runs: bool, now: Timestamp) -> Result<&Vm, CommandError> {
        let operation = if runs { "StartKubelet" } else { "StopKubelet" };
        let live = [VmState::Pending, VmState::Running, VmState::Stopped];
        let ordinal = self.command(reference, operation, &live, "pending, running or stopped", now)?;
        if runs {
            self.mend_now(ordinal, FaultKind::Outage);
        } else {
            self.break_now(ordinal, KubeletFault::Stopped, None, now);
        }
        self.answer(ordinal, reference)
    }

    /// VMs that `pattern` matches make no progress from now on, those made later too.
    ///
    /// # Errors
    /// When the pattern is empty.
    pub fn hold(&mut self, pattern: &str, now: Timestamp) -> Result<Vec<&Vm>, CommandError> {
        if pattern.is_empty() {
            return Err(CommandError::EmptyPattern);
        }
        self.advance(now);
        self.holds.insert(pattern.to_owned());
        self.note("Hold", pattern, now);
        Ok(self.reschedule(pattern, now))
    }

    /// Lifts a hold. Progress that was due happens at once.
    ///
    /// # Errors
    /// When there is no such hold.
    pub fn release(&mut self, pattern: &str, now: Timestamp) -> Result<Vec<&Vm>, CommandError> {
        self.advance(now);
        if !self.holds.remove(pattern) {
            return Err(CommandError::NoHold(pattern.to_owned()));
        }
        self.note("Release", pattern, now);
        Ok(self.reschedule(pattern, now))
    }

    /// Enters or takes out the deadlines of the VMs that a pattern matches, and answers these VMs.
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

    /// Adds a fault rule behind the others.
    ///
    /// # Errors
    /// When it makes no sense, or its id is taken.
    pub fn add_fault(&mut self, rule: FaultRule, now: Timestamp) -> Result<Fault, FaultError> {
        self.advance(now);
        let fault = self.faults.add(rule, now)?.clone();
        self.note("AddFault", &fault.rule.name, now);
        Ok(fault)
    }

    /// Removes a fault rule and answers its counters.
    ///
    /// # Errors
    /// When there is no such rule.
    pub fn remove_fault(&mut self, id: &str, now: Timestamp) -> Result<Fault, FaultError> {
        self.advance(now);
        let fault = self.faults.remove(id)?;
        self.note("RemoveFault", id, now);
        Ok(fault)
    }

    /// Sets what a second creation for a machine does.
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

    /// A kubelet has registered its Node: from now on it needs no bootstrap token.
    pub fn kubelet_joined(&mut self, vm: &str, now: Timestamp) {
        self.advance(now);
        if let Some(vm) = self.ids.get(vm).and_then(|ordinal| self.vms.get_mut(ordinal)) {
            vm.joined = true;
        }
        self.kubelet_reports(vm, "Joined", "the Node is registered", now);
    }

    /// Writes to the log what a kubelet met with.
    pub fn kubelet_reports(&mut self, vm: &str, operation: &'static str, message: &str, now: Timestamp) {
        self.advance(now);
        let record = Record::new(RecordKind::Kubelet, Caller::Kubelet, operation, now);
        let record = match self.vm(vm) {
            Some(vm) => record.about(vm),
            None => record,
        };
        self.log.append(record.saying(message));
    }

    /// Writes to the log what the cloud controller did about a VM's Node.
    pub fn controller_reports(&mut self, vm: &str, operation: &'static str, message: &str, now: Timestamp) {
        self.advance(now);
        let record = Record::new(RecordKind::Kubelet, Caller::Cloud, operation, now);
        let record = match self.vm(vm) {
            Some(vm) => record.about(vm),
            None => record,
        };
        self.log.append(record.saying(message));
    }

    /// From now on only these credentials are accepted; without any, all are.
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
