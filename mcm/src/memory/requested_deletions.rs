//! The deletions of machines that this process requested, with their reasons, for the events of the machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use mcm_api::Machine;
use parking_lot::{Mutex, MutexGuard};

use crate::cache::Key;
use crate::error::has_unknown_outcome;

/// The reason of a deletion that was requested before this process became the leader.
const BEFORE: &str =
    "requested before this mcm became the leader: see the log of the leader before it, or the audit log";

/// A deletion of one machine.
#[derive(Debug)]
struct Deletion {
    /// The machine's uid.
    uid: String,
    /// The reason of the first request.
    reason: String,
    /// The number of requests without an answer.
    open: usize,
    /// Whether a request had, or may have had, an effect.
    effective: bool,
}

/// The requested deletions by machine. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct RequestedDeletions {
    deletions: Arc<Mutex<BTreeMap<Key, Deletion>>>,
    /// When this process became the leader.
    since: Timestamp,
}

impl RequestedDeletions {
    /// Of a process that becomes the leader `since`.
    pub(crate) fn new(since: Timestamp) -> Self {
        Self {
            deletions: Arc::default(),
            since,
        }
    }

    /// This process requests the deletion of the machine with this uid. The reason is known before the answer, because
    /// the watch may be faster. A repeated request keeps the first reason.
    pub(crate) fn request(&self, machine: Key, uid: String, reason: String) -> DeletionRequest<'_> {
        let mut deletions = self.lock();
        match deletions.get_mut(&machine).filter(|known| known.uid == uid) {
            Some(known) => known.open += 1,
            None => {
                let deletion = Deletion {
                    uid: uid.clone(),
                    reason,
                    open: 1,
                    effective: false,
                };
                deletions.insert(machine.clone(), deletion);
            }
        }
        DeletionRequest {
            deletions: self,
            machine,
            uid,
        }
    }

    /// Why this process requested the deletion, or that an earlier leader may have; `None`: neither is the case.
    pub(crate) fn reason(&self, machine: &Machine) -> Option<String> {
        let known = self.lock();
        if let Some(deletion) = known.get(&Key::of(machine))
            && machine.uid().as_ref() == Some(&deletion.uid)
        {
            return Some(deletion.reason.clone());
        }
        // The deletion timestamp is truncated to seconds.
        let deleted = machine.metadata.deletion_timestamp.as_ref()?.0;
        (deleted.as_second() < self.since.as_second()).then(|| BEFORE.to_owned())
    }

    /// Forgets a machine that does not exist any more.
    pub(crate) fn forget(&self, machine: &Key) {
        self.lock().remove(machine);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Deletion>> {
        self.deletions.lock()
    }
}

/// A requested deletion that is not answered yet.
#[must_use]
pub(crate) struct DeletionRequest<'a> {
    deletions: &'a RequestedDeletions,
    machine: Key,
    uid: String,
}

impl DeletionRequest<'_> {
    /// Forgets the reason if this and all other requests certainly had no effect: a later deletion has another cause.
    pub(crate) fn answered(self, error: Option<&kube::Error>) {
        let mut deletions = self.deletions.lock();
        let Some(known) = deletions.get_mut(&self.machine).filter(|known| known.uid == self.uid) else {
            return;
        };
        known.open = known.open.saturating_sub(1);
        known.effective |= error.is_none_or(has_unknown_outcome);
        if known.open == 0 && !known.effective {
            deletions.remove(&self.machine);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;

    use super::*;

    fn machine() -> Machine {
        let mut machine = Machine::default();
        machine.metadata.name = Some("m-1".to_owned());
        machine.metadata.uid = Some("first".to_owned());
        machine
    }

    fn error(code: u16) -> kube::Error {
        let status = kube::core::Status::failure("no", "Conflict").with_code(code);
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn a_reason_belongs_to_one_uid() {
        let deletions = RequestedDeletions::new(Timestamp::UNIX_EPOCH);
        let mut machine = machine();
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
    fn a_refused_repetition_keeps_the_reason_of_the_first_request() {
        let deletions = RequestedDeletions::new(Timestamp::UNIX_EPOCH);
        let machine = machine();
        let request = |reason: &str| deletions.request(Key::of(&machine), "first".to_owned(), reason.to_owned());
        request("scale-down").answered(None);
        request("rollout").answered(Some(&error(409)));
        assert_eq!(deletions.reason(&machine).as_deref(), Some("scale-down"));
    }

    #[test]
    fn two_requests_at_once_keep_the_reason_until_both_are_refused() {
        let deletions = RequestedDeletions::new(Timestamp::UNIX_EPOCH);
        let machine = machine();
        let request = || deletions.request(Key::of(&machine), "first".to_owned(), "rollout".to_owned());
        let (one, other) = (request(), request());
        one.answered(Some(&error(409)));
        assert_eq!(deletions.reason(&machine).as_deref(), Some("rollout"));
        other.answered(Some(&error(409)));
        assert_eq!(deletions.reason(&machine), None);
    }

    #[rstest]
    #[case::before(9, Some(BEFORE))]
    #[case::in_the_same_second(10, None)]
    #[case::after(11, None)]
    fn a_deletion_from_before_the_leadership_says_so(#[case] deleted: i64, #[case] reason: Option<&str>) {
        let deletions = RequestedDeletions::new(Timestamp::from_millisecond(10_500).unwrap());
        let mut machine = machine();
        machine.metadata.deletion_timestamp = Some(Time(Timestamp::from_second(deleted).unwrap()));
        assert_eq!(deletions.reason(&machine).as_deref(), reason);
    }

    #[test]
    fn a_refused_request_is_forgotten_and_one_with_an_unknown_outcome_is_not() {
        let deletions = RequestedDeletions::new(Timestamp::UNIX_EPOCH);
        let machine = machine();
        for (code, known) in [(409, false), (500, true)] {
            let request = deletions.request(Key::of(&machine), "first".to_owned(), "rollout".to_owned());
            request.answered(Some(&error(code)));
            assert_eq!(deletions.reason(&machine).is_some(), known, "{code}");
        }
    }
}
