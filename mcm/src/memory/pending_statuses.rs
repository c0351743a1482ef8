//! Machine statuses that are being written, which decisions about siblings must consider.

use std::collections::BTreeMap;

use mcm_api::{MachineStatus, Phase};
use parking_lot::Mutex;

use crate::cache::Key;

/// The statuses that are being written, by machine.
#[derive(Debug, Default)]
pub(crate) struct PendingStatuses(Mutex<BTreeMap<Key, MachineStatus>>);

impl PendingStatuses {
    pub(crate) fn set(&self, key: Key, status: MachineStatus) {
        self.0.lock().insert(key, status);
    }

    pub(crate) fn clear(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// The machines that are about to have this phase.
    pub(crate) fn in_phase(&self, phase: &Phase) -> Vec<Key> {
        let pending = self.0.lock();
        let with_phase = pending
            .iter()
            .filter(|(_, status)| status.current_status.phase.as_ref() == Some(phase));
        with_phase.map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<MachineStatus> {
        self.0.lock().get(key).cloned()
    }
}
