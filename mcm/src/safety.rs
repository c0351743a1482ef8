//! The safety controllers: they ask the API servers whether they can be relied on, collect orphan VMs, and mark Nodes of
//! nobody, as `mcm_core::safety` decides.
//!
//! What lives here: when each of them acts, and what they share with the controllers of machines. What must not: the
//! rules.

mod collect;
mod defects;
mod nodes;
mod probe;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::{Code, Machine, MachineStatus};
use mcm_core::safety::api_health::{self, ApiHealth};
use mcm_core::safety::orphans;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::act::ActionExecutor;
use crate::cache::Change;
use crate::controllers::Controllers;

/// What the safety controllers and the others tell each other. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    health: Mutex<ApiHealth>,
    /// The caches are filled.
    filled: Notify,
    /// A machine went, or has several VMs.
    suspicion: Notify,
    /// Nothing is frozen any more.
    thawed: Notify,
    /// A VM is being collected at this moment.
    collecting: AtomicBool,
}

impl Guard {
    /// What is known of the API servers.
    pub(crate) fn health(&self) -> ApiHealth {
        *self.0.health.lock()
    }

    /// Whether no VM may be touched.
    pub(crate) fn is_frozen(&self) -> bool {
        self.health().is_frozen()
    }

    /// Tells that the caches are filled.
    pub(crate) fn filled(&self) {
        self.0.filled.notify_one();
    }

    /// Returns when nothing is frozen any more.
    pub(crate) async fn thawed(&self) {
        self.0.thawed.notified().await;
    }

    /// Whether the collection is in the middle of a deletion.
    pub(crate) fn is_collecting(&self) -> bool {
        self.0.collecting.load(Ordering::Relaxed)
    }

    /// A change of a machine: one that went, or whose cloud says that it has several VMs, may have left some.
    pub(crate) fn machine_changed(&self, change: &Change<Machine>) {
        let status = |machine: &Option<Arc<Machine>>| machine.as_ref().map(|machine| machine.status.clone());
        match (status(&change.old), status(&change.new)) {
            (_, None) => self.0.suspicion.notify_one(),
            (old, Some(new)) => self.status_changed(&old.unwrap_or_default(), &new),
        }
    }

    /// A change of a machine's status, by others or by this process: of what it wrote itself no watch tells it.
    pub(crate) fn status_changed(&self, old: &MachineStatus, new: &MachineStatus) {
        let several = |status: &MachineStatus| {
            let operation = status.last_operation.as_ref();
            operation.is_some_and(|operation| operation.error_code == Code::OutOfRange.name())
        };
        if several(new) && !several(old) {
            self.0.suspicion.notify_one();
        }
    }

    fn set(&self, health: ApiHealth) {
        *self.0.health.lock() = health;
    }
}

/// What an operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) api: api_health::Settings,
    pub(crate) orphans: orphans::Settings,
    /// Whether VMs are collected and Nodes marked; the API servers are asked in any case.
    pub(crate) housekeeping: bool,
}

/// The safety controllers of one process.
pub(crate) struct Safety {
    pub(crate) controllers: Arc<Controllers>,
    pub(crate) settings: Settings,
}

impl Safety {
    /// Works until it is dropped.
    pub(crate) async fn run(&self) -> Infallible {
        tokio::join!(Box::pin(self.probe()), Box::pin(self.keep_house())).0
    }

    fn executor(&self) -> &ActionExecutor {
        &self.controllers.executor
    }

    fn guard(&self) -> &Guard {
        &self.controllers.executor.guard
    }

    fn now(&self) -> Timestamp {
        self.executor().clock.now()
    }

    /// Passes over the cloud's VMs and over Nodes: at the start, at their period, and when something is suspicious.
    async fn keep_house(&self) {
        if !self.settings.housekeeping {
            return;
        }
        self.filled().await;
        let mut memory = collect::Memory::starting(self.now());
        loop {
            let wake = self.pass(&mut memory).await;
            if defect!(OrphansCollectedAtStartOnly) {
                return;
            }
            let period = self.settings.orphans.period;
            let suspicion = async {
                // One pass for many machines that go together.
                self.executor().clock.sleep(self.controllers.settings.retry.short).await;
                self.guard().0.suspicion.notified().await;
            };
            tokio::select! {
                biased;
                () = self.executor().clock.sleep(wake.map_or(period, |wake| wake.min(period))) => {}
                () = suspicion => {}
            }
        }
    }

    /// Returns when the caches are filled.
    async fn filled(&self) {
        if defect!(OrphansCollectedBeforeMachinesAreListed | OrphansCollectedWithoutApiServers) {
            return self.partly_filled().await;
        }
        self.guard().0.filled.notified().await;
    }

    async fn pass(&self, memory: &mut collect::Memory) -> Option<Duration> {
        if !self.may_collect() {
            return Some(self.settings.api.period);
        }
        let collected = self.collect(memory).await;
        let marked = self.mark_nodes(&memory.listed).await;
        [collected, marked].into_iter().flatten().min()
    }

    /// Whether the world is seen well enough to say that something is missing in it.
    fn may_collect(&self) -> bool {
        let executor = self.executor();
        if !executor.tenure.holds(executor.clock.now()) {
            return false;
        }
        if defect!(OrphansCollectedWhileFrozen | OrphansCollectedWithoutApiServers) {
            return true;
        }
        self.guard().health() == ApiHealth::Up
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use mcm_api::machine::LastOperation;
    use rstest::rstest;

    use super::*;

    /// A machine whose last operation ended with that code.
    fn machine(code: Code) -> Machine {
        let operation = LastOperation {
            error_code: code.name().to_owned(),
            ..LastOperation::default()
        };
        let mut machine = Machine::default();
        machine.status.last_operation = Some(operation);
        machine
    }

    fn is_suspicious(guard: &Guard) -> bool {
        guard.0.suspicion.notified().now_or_never().is_some()
    }

    const SEVERAL: Option<Code> = Some(Code::OutOfRange);
    const OTHER: Option<Code> = Some(Code::Internal);

    #[rstest]
    #[case::deleted(OTHER, None, true)]
    #[case::deleted_with_the_code(SEVERAL, None, true)]
    #[case::updated_without_the_code(OTHER, OTHER, false)]
    #[case::updated_with_the_code(OTHER, SEVERAL, true)]
    #[case::old_only(SEVERAL, OTHER, false)]
    #[case::known(SEVERAL, SEVERAL, false)]
    #[case::added_without_the_code(None, OTHER, false)]
    #[case::added_with_the_code(None, SEVERAL, true)]
    fn orphans_are_looked_for_when_a_machine_goes_or_has_several_vms(
        #[case] old: Option<Code>,
        #[case] new: Option<Code>,
        #[case] suspicious: bool,
    ) {
        let guard = Guard::default();
        let side = |code: Option<Code>| code.map(|code| Arc::new(machine(code)));
        guard.machine_changed(&Change {
            old: side(old),
            new: side(new),
            first_list: false,
        });
        assert_eq!(is_suspicious(&guard), suspicious);
        assert!(!is_suspicious(&guard), "one pass for each suspicion");
    }

    /// Of what this process wrote itself no watch tells it.
    #[rstest]
    #[case::without_the_code(OTHER, OTHER, false)]
    #[case::with_the_code(OTHER, SEVERAL, true)]
    #[case::old_only(SEVERAL, OTHER, false)]
    fn orphans_are_looked_for_when_this_process_writes_that_a_machine_has_several_vms(
        #[case] old: Option<Code>,
        #[case] new: Option<Code>,
        #[case] suspicious: bool,
    ) {
        let guard = Guard::default();
        let status = |code: Option<Code>| code.map(machine).unwrap_or_default().status;
        guard.status_changed(&status(old), &status(new));
        assert_eq!(is_suspicious(&guard), suspicious);
    }
}
