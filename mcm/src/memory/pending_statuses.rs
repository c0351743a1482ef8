//! Statuses of machines that are being written: a decision about a sibling must not overlook them.

use std::collections::BTreeMap;

use mcm_api::MachineStatus;
use parking_lot::Mutex;

use crate::cache::Key;

/// Statuses that are being written at this moment: a sibling's decision must not overlook them.
#[derive(Debug, Default)]
pub(crate) struct PendingStatuses(Mutex<BTreeMap<Key, MachineStatus>>);

impl PendingStatuses {
    pub(crate) fn set(&self, key: Key, status: MachineStatus) {
        self.0.lock().insert(key, status);
    }

    pub(crate) fn clear(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    pub(crate) fn get(&self, key: &Key) -> Option<MachineStatus> {
        self.0.lock().get(key).cloned()
    }
}
