//! VMs that this process made and has not seen recorded on their machines yet.
//!
//! A write of a provider id may be lost while the cloud does not show the new VM yet; without this memory the next pass
//! would make another one. A process that dies forgets, and its successor asks the cloud.

use std::collections::BTreeMap;

use kube::ResourceExt;
use mcm_api::{Machine, VmIdentity};
use parking_lot::{Mutex, MutexGuard};

use crate::cache::Key;

/// By machine: its uid, and the VM.
#[derive(Debug, Default)]
pub(crate) struct CreatedVms(Mutex<BTreeMap<Key, (Option<String>, VmIdentity)>>);

impl CreatedVms {
    /// CreateMachine made that VM for the machine.
    pub(crate) fn remember(&self, machine: &Machine, vm: &VmIdentity) {
        self.lock().insert(Key::of(machine), (machine.uid(), vm.clone()));
    }

    /// The VM that the machine does not carry yet. What it carries is forgotten.
    pub(crate) fn unrecorded(&self, machine: &Machine) -> Option<VmIdentity> {
        let mut made = self.lock();
        let key = Key::of(machine);
        let (uid, vm) = made.get(&key)?;
        if machine.spec.provider_id.is_empty() && *uid == machine.uid() {
            return Some(vm.clone());
        }
        made.remove(&key);
        None
    }

    /// There is no such machine any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, (Option<String>, VmIdentity)>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use mcm_api::ProviderId;

    use super::*;

    fn machine(uid: &str, provider_id: &str) -> Machine {
        let mut machine = Machine::default();
        machine.metadata.name = Some("m".to_owned());
        machine.metadata.uid = Some(uid.to_owned());
        machine.spec.provider_id = provider_id.to_owned();
        machine
    }

    fn vm() -> VmIdentity {
        VmIdentity {
            provider_id: ProviderId::new("cloud:///vm"),
            ..VmIdentity::default()
        }
    }

    #[test]
    fn a_vm_is_remembered_until_its_machine_carries_it() {
        let made = CreatedVms::default();
        made.remember(&machine("u", ""), &vm());
        assert_eq!(made.unrecorded(&machine("u", "")), Some(vm()));
        assert_eq!(made.unrecorded(&machine("u", "cloud:///vm")), None);
        assert_eq!(made.unrecorded(&machine("u", "")), None, "it is forgotten");
    }

    #[test]
    fn a_machine_of_the_same_name_is_another_one() {
        let made = CreatedVms::default();
        made.remember(&machine("u", ""), &vm());
        assert_eq!(made.unrecorded(&machine("v", "")), None);
        made.remember(&machine("v", ""), &vm());
        made.forget(&Key::of(&machine("v", "")));
        assert_eq!(made.unrecorded(&machine("v", "")), None);
    }
}
