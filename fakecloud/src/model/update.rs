//! Hot updates: tags of a VM, and flags of its network interfaces.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mcm_api::cloud::{Code, DriverError};

use super::Partial;
use super::faults::{CallInfo, Effect};
use super::part_limits::check_tags;
use super::spec::NicFlags;
use super::{Caller, Cloud, CloudCall, Record, RecordKind, Reference, Vm};

/// A change of an existing VM. Fields that it does not name stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmUpdate {
    /// Tags that are set.
    pub set_tags: BTreeMap<String, String>,
    /// Tags that are removed.
    pub remove_tags: BTreeSet<String>,
    /// Flags by the network interface's name.
    pub nics: BTreeMap<String, NicFlags>,
}

impl Cloud {
    /// Changes tags and flags of a live VM.
    /// ⏎# Errors
    /// `NotFound`; `InvalidArgument` with the field, without any change; or the error of a fault rule, possibly after a
    /// partial change.
    pub fn update_vm(&mut self, reference: &Reference, update: &VmUpdate, now: Timestamp) -> Result<&Vm, DriverError> {
        self.advance(now);
        let vm = self
            .find(reference)
            .map_err(|error| DriverError::new(Code::NotFound, error.to_string()))?;
        let vm = vm.clone();
        let machine = vm.owner.key();
        let hit = self.admit(&CallInfo {
            call: CloudCall::UpdateMachine,
            machine: Some(&machine),
            class: &vm.owner.class,
            zone: &vm.zone,
            client: "",
            now,
        });
        let hit = hit.filter(|hit| hit.code != Code::Ok);
        let result = match hit {
            None => self.apply(&vm, update, false),
            Some(hit) => {
                let error = DriverError::new(hit.code, hit.message);
                match hit.effect {
                    Effect::Done => self.apply(&vm, update, false).and(Err(error)),
                    Effect::Part(Partial::Tags) => self.apply(&vm, update, true).and(Err(error)),
                    _ => Err(error),
                }
            }
        };
        let mut record = Record::new(RecordKind::Command, Caller::Control, "UpdateVm", now).about(&vm);
        record.code = Some(result.as_ref().map_or_else(|error| error.code, |()| Code::Ok));
        self.log.append(record);
        result?;
        self.vms
            .get(&vm.ordinal)
            .ok_or_else(|| DriverError::new(Code::NotFound, format!("VM {} is deleted", vm.id)))
    }

    pub(super) fn apply(&mut self, vm: &Vm, update: &VmUpdate, tags_only: bool) -> Result<(), DriverError> {
        let wrong = |text: String| DriverError::new(Code::InvalidArgument, text);
        if !vm.state.is_live() {
            let text = format!(
                "VM {} is {}, and must be pending, running or stopped for an update",
                vm.id, vm.state
            );
            return Err(DriverError::new(Code::FailedPrecondition, text));
        }
        let mut tags = vm.tags.clone();
        tags.retain(|key, _| !update.remove_tags.contains(key));
        tags.extend(update.set_tags.clone());
        check_tags(&tags, &self.settings.limits)
            .map_err(|error| wrong(format!("set_tags[{}]: {error}", error.key().unwrap_or_default())))?;
        if let Some(missing) = self.settings.required_tags.iter().find(|key| !tags.contains_key(*key)) {
            return Err(wrong(format!(
                "remove_tags: this cloud's VMs must have the tag {missing}"
            )));
        }
        let of_vm: BTreeMap<String, String> = self
            .nics
            .values()
            .filter(|nic| nic.vm.as_ref() == Some(&vm.id))
            .map(|nic| (nic.name.clone(), nic.id.clone()))
            .collect();
        if let Some(unknown) = update.nics.keys().find(|name| !of_vm.contains_key(*name)) {
            let known: Vec<&str> = of_vm.keys().map(String::as_str).collect();
            return Err(wrong(format!(
                "nics[{unknown}]: there is none; the VM has {}",
                known.join(", ")
            )));
        }
        if let Some(vm) = self.vms.get_mut(&vm.ordinal) {
            vm.tags = tags;
        }
        for (name, flags) in update.nics.iter().filter(|_| !tags_only) {
            if let Some(nic) = of_vm.get(name).and_then(|id| self.nics.get_mut(id)) {
                nic.flags = *flags;
            }
        }
        Ok(())
    }

    /// Sets the flags of a VM's interfaces as its class requests: of all, or only of the first.
    pub(super) fn switch_nics(
        &mut self,
        machine: &str,
        vm: &str,
        requested: &[super::spec::NicSpec],
        first_only: bool,
    ) {
        let some = if first_only { 1 } else { requested.len() };
        for nic in requested.iter().take(some) {
            let ids: Vec<String> = self.parts_of.get(machine).into_iter().flatten().cloned().collect();
            for id in ids {
                let part = self.nics.get_mut(&id);
                if let Some(part) = part.filter(|part| part.vm.as_deref() == Some(vm) && part.name == nic.name) {
                    part.flags = nic.flags;
                }
            }
        }
    }
}
