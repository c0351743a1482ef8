//! The deletions of machines that this process requested, with their reasons, for the events of the machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use mcm_api::Machine;
use parking_lot::{Mutex, MutexGuard};

use crate::cache::Key;

/// The uid and the reason, by machine. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestedDeletions(Arc<Mutex<BTreeMap<Key, (String, String)>>>);

impl RequestedDeletions {
    /// This process requests the deletion of the machine with this uid.
    pub(crate) fn note(&self, machine: Key, uid: String, reason: String) {
        self.lock().insert(machine, (uid, reason));
    }

    /// Why this process requested the deletion; `None`: it did not.
    pub(crate) fn reason(&self, machine: &Machine) -> Option<String> {
        let known = self.lock();
        let (uid, reason) = known.get(&Key::of(machine))?;
        (machine.uid().as_ref() == Some(uid)).then(|| reason.clone())
    }

    /// Forgets a machine that does not exist any more.
    pub(crate) fn forget(&self, machine: &Key) {
        self.lock().remove(machine);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, (String, String)>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_belongs_to_one_uid() {
        let deletions = RequestedDeletions::default();
        let mut machine = Machine::default();
        machine.metadata.name = Some("m-1".to_owned());
        machine.metadata.uid = Some("first".to_owned());
        deletions.note(Key::of(&machine), "first".to_owned(), "scale-down".to_owned());
        assert_eq!(deletions.reason(&machine).as_deref(), Some("scale-down"));
        machine.metadata.uid = Some("second".to_owned());
        assert_eq!(deletions.reason(&machine), None);
        deletions.forget(&Key::of(&machine));
        machine.metadata.uid = Some("first".to_owned());
        assert_eq!(deletions.reason(&machine), None);
    }
}
