//! The safety controllers: they check whether the API servers respond, collect orphan VMs, and mark Nodes without a
//! machine, as `mcm_core::safety` decides.
//!
//! The module schedules and performs their actions. The rules are in `mcm_core::safety`, and the state for the other
//! controllers in `memory::Guard`.

mod caches;
mod collect;
mod defects;
mod nodes;
mod probe;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mcm_core::safety::api_health::{self, ApiHealth};
use mcm_core::safety::orphans;

use crate::execute::ActionExecutor;
use crate::memory::Guard;
use crate::reconcile::Controllers;

/// The settings of the safety controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) api: api_health::Settings,
    pub(crate) orphans: orphans::Settings,
    /// Whether VMs are collected and Nodes marked; the API servers are always checked.
    pub(crate) housekeeping: bool,
}

/// The safety controllers of one process.
pub(crate) struct Safety {
    pub(crate) controllers: Arc<Controllers>,
    pub(crate) settings: Settings,
}

impl Safety {
    /// Runs until it is dropped.
    pub(crate) async fn run(&self) -> Infallible {
        tokio::join!(Box::pin(self.probe()), Box::pin(self.run_housekeeping())).0
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

    /// Checks the cloud's VMs and the Nodes: at the start, periodically, and when there may be orphan VMs.
    async fn run_housekeeping(&self) {
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
                // One pass suffices for machines that are deleted together.
                self.executor().clock.sleep(self.controllers.settings.retry.short).await;
                self.guard().suspected().await;
            };
            tokio::select! {
                biased;
                () = self.executor().clock.sleep(wake.map_or(period, |wake| wake.min(period))) => {}
                () = suspicion => {}
            }
        }
    }

    /// Waits until the caches are filled.
    async fn filled(&self) {
        if defect!(OrphansCollectedBeforeMachinesAreListed | OrphansCollectedWithoutApiServers) {
            return self.partly_filled().await;
        }
        self.guard().caches_filled().await;
    }

    async fn pass(&self, memory: &mut collect::Memory) -> Option<Duration> {
        if !self.may_collect() {
            return Some(self.settings.api.period);
        }
        let collected = self.collect(memory).await;
        let marked = self.mark_nodes(&memory.listed).await;
        [collected, marked].into_iter().flatten().min()
    }

    /// Whether the caches are reliable enough to conclude that an object is absent.
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
