//! Machine statuses that are being written, which decisions about siblings must consider.

use std::collections::BTreeMap;

use mcm_api::MachineStatus;
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

    pub(crate) fn get(&self, key: &Key) -> Option<MachineStatus> {
        self.0.lock().get(key).cloned()
    }
}
