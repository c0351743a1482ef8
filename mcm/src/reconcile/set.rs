//! One pass of a MachineSet: repeats view, decision and steps until no step remains.

mod defects;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mcm_api::{Machine, MachineSet, Operation};
use mcm_core::set::{Reason, View, decide};
use mcm_core::steps::{OwnerAction, Plan};

use super::{Controllers, DECISIONS, Outcome, log_steps};
use crate::cache::Key;
use crate::execute::{Ended, Owner};
use crate::memory::RetryCause;

impl Controllers {
    pub(crate) async fn set(&self, key: &Key) -> Outcome {
        let mut outcome = Outcome::default();
        let mut failure = None;
        for _ in 0..DECISIONS {
            let Some(set) = self.executor.state.sets.get(key) else {
                self.machine_names.forget(key);
                return outcome;
            };
            let view = self.set_view(&set, failure.clone());
            outcome.machines = view.machines.len();
            let plan = decide(&view, self.executor.clock.now());
            log_steps("set", key, &plan, Reason::name);
            let wake = plan.wake;
            let idle = plan.steps.is_empty();
            let reports = plan.only_reports();
            let stale = stale(&view, &plan);
            let ended = self
                .executor
                .perform_steps(&self.machine_names, Owner::Set(&set), plan, &mut outcome.triggers)
                .await;
            if matches!(ended, Ended::Done(_)) {
                self.executor.metrics.count_stale(stale);
            }
            match ended {
                _ if idle && failure.is_none() => {
                    outcome.wake = wake;
                    return outcome;
                }
                // The new machines are reconciled first.
                Ended::Done(true) => return outcome.again(Duration::ZERO),
                Ended::Done(false) if failure.is_some() => return outcome.retry_after(RetryCause::Failure),
                // The written status triggers the next pass.
                Ended::Done(false) if reports => {
                    outcome.wake = wake;
                    return outcome;
                }
                Ended::Done(false) => {}
                Ended::Partly(cause) => return outcome.retry_after(cause),
                Ended::Conflict => return outcome.retry_after(RetryCause::Conflict),
                Ended::Failed(text) if failure.is_none() => failure = Some(text),
                Ended::NotLeading => return outcome.again(self.settings.retry.short),
                Ended::Taken(_) | Ended::NotCreated(_) | Ended::Failed(_) => {
                    return outcome.retry_after(RetryCause::Failure);
                }
            }
        }
        outcome.again(self.settings.retry.conflict)
    }

    fn set_view(&self, set: &MachineSet, failure: Option<String>) -> View {
        View {
            set: MachineSet::clone(set),
            machines: if defect!(EmptySelectorTakesAll | FailedMachinesKeptWithNodeOnly) {
                self.defective_machines(set)
            } else {
                self.executor.state.machines_for(set)
            },
            deployment: self.executor.state.deployment_of(set),
            failure,
            honours_min_ready_seconds: self.deployment_settings.honours_min_ready_seconds,
        }
    }
}

/// The number of machines that are deleted because their nodes were unhealthy for too long.
fn stale(view: &View, plan: &Plan<Reason>) -> usize {
    let failed = plan.steps.iter().filter_map(|step| match (&step.action, &step.reason) {
        (OwnerAction::Delete { name, .. }, Reason::Failed { .. }) => Some(name),
        _ => None,
    });
    let failed: BTreeSet<&String> = failed.collect();
    let unhealthy = |machine: &&Arc<Machine>| {
        let last = machine.status.last_operation.as_ref();
        let failed = machine.metadata.name.as_ref().is_some_and(|name| failed.contains(name));
        failed && last.is_some_and(|last| last.operation == Some(Operation::HealthCheck))
    };
    view.machines.iter().filter(unhealthy).count()
}
