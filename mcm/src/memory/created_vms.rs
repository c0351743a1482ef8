//! VMs that this process created and that their machines do not show completely yet.
//!
//! The write of a provider ID or of the phase may fail while the cloud does not list the new VM yet; without this state
//! the next pass would create a second VM, or wait for the cloud. After a restart the state is lost, and the new process
//! looks up the VM in the cloud.

use std::collections::BTreeMap;

use kube::ResourceExt;
use mcm_api::{Machine, VmIdentity};
use parking_lot::{Mutex, MutexGuard};

use crate::cache::Key;

/// The machine's uid and the VM, by machine.
#[derive(Debug, Default)]
pub(crate) struct CreatedVms(Mutex<BTreeMap<Key, (Option<String>, VmIdentity)>>);

impl CreatedVms {
    /// Remembers the VM that CreateMachine created for the machine.
    pub(crate) fn remember(&self, machine: &Machine, vm: &VmIdentity) {
        self.lock().insert(Key::of(machine), (machine.uid(), vm.clone()));
    }

    /// The created VM, until the machine has its provider ID and a phase that follows the creation; forgets it then.
    pub(crate) fn unfinished(&self, machine: &Machine) -> Option<VmIdentity> {
        let mut created = self.lock();
        let key = Key::of(machine);
        let (uid, vm) = created.get(&key)?;
        if (machine.status.is_being_created() || machine.spec.provider_id.is_empty()) && *uid == machine.uid() {
            return Some(vm.clone());
        }
        created.remove(&key);
        None
    }

    /// Forgets the VM of a machine that does not exist any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, (Option<String>, VmIdentity)>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use mcm_api::{Phase, ProviderId};

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
    fn a_vm_is_remembered_until_its_machine_records_it() {
        let created = CreatedVms::default();
        created.remember(&machine("u", ""), &vm());
        assert_eq!(created.unfinished(&machine("u", "")), Some(vm()));
        assert_eq!(
            created.unfinished(&machine("u", "cloud:///vm")),
            Some(vm()),
            "without a phase"
        );
        let mut pending = machine("u", "cloud:///vm");
        pending.status.current_status.phase = Some(Phase::Pending);
        assert_eq!(created.unfinished(&pending), None);
        assert_eq!(
            created.unfinished(&machine("u", "")),
            None,
            "the recorded VM is forgotten"
        );
    }

    #[test]
    fn a_machine_with_the_same_name_and_another_uid_is_different() {
        let created = CreatedVms::default();
        created.remember(&machine("u", ""), &vm());
        assert_eq!(created.unfinished(&machine("v", "")), None);
        created.remember(&machine("v", ""), &vm());
        created.forget(&Key::of(&machine("v", "")));
        assert_eq!(created.unfinished(&machine("v", "")), None);
    }
}
