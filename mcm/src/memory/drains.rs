//! The state of drains in progress, one value per machine.
//!
//! Drains are data: a waiting drain occupies neither a task nor a worker. `mcm_core` interprets the state.

pub(crate) mod defects;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use mcm_api::Machine;
use mcm_core::machine::{DrainMemory, EvictionOutcome};
use parking_lot::{Mutex, MutexGuard};

use crate::cache::Key;

/// The machine's uid and the state of its drain, by machine.
type Memories = BTreeMap<Key, (Option<String>, DrainMemory)>;

/// The state of all drains. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drains {
    memories: Arc<Mutex<Memories>>,
}

impl Drains {
    /// The state of the machine's drain.
    pub(crate) fn of(&self, machine: &Machine) -> DrainMemory {
        let drains = self.lock();
        let own = drains.get(&Key::of(machine)).filter(|(uid, _)| *uid == machine.uid());
        own.map(|(_, memory)| memory.clone()).unwrap_or_default()
    }

    /// Replaces the state of the machine's drain.
    pub(crate) fn keep(&self, machine: &Machine, memory: DrainMemory) {
        self.lock().insert(Key::of(machine), (machine.uid(), memory));
    }

    /// Records the outcome of an eviction or deletion of a pod.
    pub(crate) fn attempted(&self, key: &Key, pod: &str, now: Timestamp, outcome: EvictionOutcome) {
        if defect!(DrainListenerFillsUp) && matches!(outcome, EvictionOutcome::Failed(_)) {
            defects::leave_listener();
        }
        if let Some((_, memory)) = self.lock().get_mut(key) {
            memory.attempted(pod, now, outcome);
        }
    }

    /// The machines whose drain waits for this PersistentVolume.
    pub(crate) fn waiting_for(&self, volume: &str) -> Vec<Key> {
        let drains = self.lock();
        let waits = |memory: &DrainMemory| {
            let moving = memory.moving.as_ref();
            moving.is_some_and(|moving| moving.volumes.contains_key(volume))
        };
        let all = drains.iter().filter(|(_, (_, memory))| waits(memory));
        all.map(|(key, _)| key.clone()).collect()
    }

    /// Forgets the drain of a machine that does not exist any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, Memories> {
        self.memories.lock()
    }
}
