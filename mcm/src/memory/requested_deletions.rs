//! The deletions of machines that this process requested, with their reasons, for the events of the machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use mcm_api::Machine;
use parking_lot::{Mutex, MutexGuard};

use crate::cache::Key;
use crate::error::has_unknown_outcome;

/// The uid and the reason, by machine. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestedDeletions(Arc<Mutex<BTreeMap<Key, (String, String)>>>);

impl RequestedDeletions {
    /// This process requests the deletion of the machine with this uid. The reason is known before the answer, because
    /// the watch may be faster.
    pub(crate) fn request(&self, machine: Key, uid: String, reason: String) -> DeletionRequest<'_> {
        self.lock().insert(machine.clone(), (uid, reason));
        DeletionRequest {
            deletions: self,
            machine,
        }
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

/// A requested deletion that is not answered yet.
#[must_use]
pub(crate) struct DeletionRequest<'a> {
    deletions: &'a RequestedDeletions,
    machine: Key,
}

impl DeletionRequest<'_> {
    /// Forgets the request if it certainly had no effect: a later deletion has another cause.
    pub(crate) fn answered(self, error: Option<&kube::Error>) {
        if error.is_some_and(|error| !has_unknown_outcome(error)) {
            self.deletions.forget(&self.machine);
        }
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
        let request = deletions.request(Key::of(&machine), "first".to_owned(), "scale-down".to_owned());
        request.answered(None);
        assert_eq!(deletions.reason(&machine).as_deref(), Some("scale-down"));
        machine.metadata.uid = Some("second".to_owned());
        assert_eq!(deletions.reason(&machine), None);
        deletions.forget(&Key::of(&machine));
        machine.metadata.uid = Some("first".to_owned());
        assert_eq!(deletions.reason(&machine), None);
    }

    #[test]
    fn a_refused_request_is_forgotten_and_one_with_an_unknown_outcome_is_not() {
        let deletions = RequestedDeletions::default();
        let mut machine = Machine::default();
        machine.metadata.name = Some("m-1".to_owned());
        machine.metadata.uid = Some("first".to_owned());
        let error = |code| {
            let status = kube::core::Status::failure("no", "Conflict").with_code(code);
            kube::Error::Api(status.boxed())
        };
        for (code, known) in [(409, false), (500, true)] {
            let request = deletions.request(Key::of(&machine), "first".to_owned(), "rollout".to_owned());
            request.answered(Some(&error(code)));
            assert_eq!(deletions.reason(&machine).is_some(), known, "{code}");
        }
    }
}
