//! Replacements of the controllers by planted defects.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcm_api::Machine;
use mcm_core::machine::{Action, Answer, CallKind, Stage, View};

use super::{Controllers, Outcome, Trigger, Work};
use crate::cache::Key;
use crate::execute::Done;
use crate::memory::RetryCause;

/// The maximum number of consecutive conflicts of a key.
pub(super) const TRIES: u32 = 10;
/// The maximum number of consecutive failures of a set.
const SET_TRIES: u32 = 15;

thread_local! {
    /// The machines of the last decisions.
    static COPIES: RefCell<BTreeMap<Key, Arc<Machine>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Whether work is dropped after this many consecutive failures.
pub(super) fn drops(work: &Work, cause: RetryCause, times: u32) -> bool {
    defect!(SetDroppedAfterFifteenFailures) && matches!(work, Work::Set(_)) && times >= SET_TRIES
        || defect!(AddedFinalizerIsError) && cause == RetryCause::Conflict && times > TRIES
}

/// The previous version of the machine, if a creation failed since.
pub(super) fn copy_from_before(key: &Key, machine: Arc<Machine>, answer: Option<&Answer>) -> Arc<Machine> {
    COPIES.with_borrow_mut(|copies| match answer {
        Some(Answer::Create(Err(_))) => copies.get(key).cloned().unwrap_or(machine),
        _ => {
            copies.insert(key.clone(), Arc::clone(&machine));
            machine
        }
    })
}

impl Controllers {
    /// Occupies a worker until the end of a drain: one that is reserved for deletions, or any worker.
    pub(super) async fn machine_to_its_end(&self, key: &Key, hurry: bool) -> Outcome {
        let deleted = |machine: Arc<Machine>| machine.metadata.deletion_timestamp.is_some();
        let own = defect!(DrainKeepsDeletionWorker) && self.executor.state.machines.get(key).is_some_and(deleted);
        let permit = own.then(|| self.slots.enter("deletions", Work::Machine(key.clone())));
        if matches!(permit, Some(None)) {
            return Outcome::default();
        }
        let mut outcome = self.machine(key, hurry).await;
        let drains = || {
            let machine = self.executor.state.machines.get(key);
            machine.is_some_and(|machine| Stage::of(&machine.status) == Some(Stage::Drain))
        };
        while drains() && self.executor.may_act() {
            let short = self.settings.retry.short;
            self.executor
                .clock
                .sleep(outcome.wake.unwrap_or(short).min(short))
                .await;
            outcome = self.machine(key, false).await;
        }
        drop(permit);
        outcome
    }

    /// Triggers the class of a machine that is being deleted, after each pass.
    pub(super) fn class_triggers(&self, machine: &Machine) -> Vec<Trigger> {
        if machine.metadata.deletion_timestamp.is_none() {
            return Vec::new();
        }
        let work = Work::Class(Key::new(&self.executor.state.namespace, &machine.spec.class.name));
        vec![Trigger { work, hurry: false }]
    }

    /// Performs an action; returns `None` if it is a creation and its machine is being deleted meanwhile.
    pub(super) async fn perform_unless_deleted(&self, action: &Action, view: &mut View) -> Option<kube::Result<Done>> {
        if !matches!(action, Action::Call(call) if call.kind == CallKind::Create) {
            return Some(self.executor.perform(action, view).await);
        }
        let key = Key::of(&view.machine);
        let deleted = async {
            let deleted = |machine: Arc<Machine>| machine.metadata.deletion_timestamp.is_some();
            while !self.executor.state.machines.get(&key).is_none_or(deleted) {
                self.executor.clock.sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            biased;
            performed = self.executor.perform(action, view) => Some(performed),
            () = deleted => None,
        }
    }
}
