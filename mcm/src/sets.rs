//! The loop of one MachineSet: view, decision, steps, until there is nothing to do.
//!
//! What must not live here: any decision about a set.

mod defects;

use std::time::Duration;

use mcm_api::{Machine, MachineSet, Operation};
use mcm_core::set::{Reason, View, decide};
use mcm_core::steps::{Act, Plan, Step};

use crate::backoff::Trouble;
use crate::cache::Key;
use crate::controllers::{Controllers, Outcome};
use crate::steps::{Ended, Owner};

/// Decisions in one pass; what needs more goes on behind others.
pub(crate) const DECISIONS: usize = 16;

impl Controllers {
    pub(crate) async fn set(&self, key: &Key) -> Outcome {
        let mut outcome = Outcome::default();
        let mut failure = None;
        for _ in 0..DECISIONS {
            let Some(set) = self.executor.world.sets.get(key) else {
                self.names.forget(key);
                return outcome;
            };
            let view = self.set_view(&set, failure.clone());
            let plan = decide(&view, self.executor.clock.now());
            log("set", key, &plan, Reason::name);
            let wake = plan.wake;
            let nothing = plan.steps.is_empty();
            let stale = stale(&view, &plan);
            let ended = self
                .executor
                .perform_steps(&self.names, Owner::Set(&set), plan, &mut outcome.triggers)
                .await;
            if matches!(ended, Ended::Done(_)) {
                self.executor.metrics.count_stale(stale);
            }
            match ended {
                _ if nothing && failure.is_none() => {
                    outcome.wake = wake;
                    return outcome;
                }
                // The machines that were made are worked on first.
                Ended::Done(true) => return outcome.again(Duration::ZERO),
                Ended::Done(false) if failure.is_some() => return outcome.troubled(Trouble::Failure),
                Ended::Done(false) => {}
                Ended::Partly(trouble) => return outcome.troubled(trouble),
                Ended::Conflict => return outcome.troubled(Trouble::Conflict),
                Ended::Failed(text) if failure.is_none() => failure = Some(text),
                Ended::NotLeading => return outcome.again(self.settings.retry.short),
                Ended::Taken(_) | Ended::NotMade(_) | Ended::Failed(_) => return outcome.troubled(Trouble::Failure),
            }
        }
        outcome.again(self.settings.retry.conflict)
    }

    fn set_view(&self, set: &MachineSet, failure: Option<String>) -> View {
        View {
            set: MachineSet::clone(set),
            machines: if defect!(EmptySelectorTakesAll | FailedMachinesKeptWithNodeOnly) {
                self.misseen_machines(set)
            } else {
                self.executor.world.machines_for(set)
            },
            deployment: self.executor.world.deployment_of(set),
            failure,
        }
    }
}

/// How many machines go because their nodes were unhealthy for too long.
fn stale(view: &View, plan: &Plan<Reason>) -> usize {
    let unhealthy = |name: &String| {
        let mut machines = view.machines.iter();
        let machine = machines.find(|machine| machine.metadata.name.as_ref() == Some(name));
        let last = machine.and_then(|machine| machine.status.last_operation.as_ref());
        last.is_some_and(|last| last.operation == Some(Operation::HealthCheck))
    };
    let failed = |step: &&Step<Reason>| match (&step.act, &step.reason) {
        (Act::Delete { name, .. }, Reason::Failed(_)) => unhealthy(name),
        _ => false,
    };
    plan.steps.iter().filter(failed).count()
}

/// A line for each step; one for steps of the same reason.
pub(crate) fn log<R: std::fmt::Display>(what: &str, key: &Key, plan: &Plan<R>, name: impl Fn(&R) -> String) {
    let mut told = String::new();
    for step in plan
        .steps
        .iter()
        .filter(|step| !matches!(step.act, Act::RecordEvent { .. }))
    {
        let text = step.reason.to_string();
        if text == told {
            continue;
        }
        let kind = name(&step.reason);
        if matches!(step.act, Act::WriteStatus { .. }) {
            tracing::debug!(what, object = %key, kind, reason = text);
        } else {
            tracing::info!(what, object = %key, kind, reason = text);
        }
        told = text;
    }
}

/// Whether a change of a machine can matter to its set or deployment.
pub(crate) fn matters(old: &Machine, new: &Machine) -> bool {
    let conditions = |machine: &Machine| {
        let all = machine.status.conditions.iter();
        all.filter(|condition| condition.type_ == mcm_api::keys::IN_PLACE_UPDATE_CONDITION)
            .map(|condition| condition.reason.clone())
            .collect::<Vec<_>>()
    };
    old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
        || old.metadata.owner_references != new.metadata.owner_references
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.spec != new.spec
        || old.status.current_status != new.status.current_status
        || old.status.last_operation != new.status.last_operation
        || old.status.preservation != new.status.preservation
        || conditions(old) != conditions(new)
}

#[cfg(test)]
mod tests {
    use mcm_api::{Phase, Preservation, PreservationStage};
    use rstest::rstest;

    use super::*;

    fn failed(stage: PreservationStage) -> Machine {
        let mut machine = Machine::default();
        machine.status.current_status.phase = Some(Phase::Failed);
        machine.status.preservation = Some(Preservation {
            stage,
            ..Preservation::default()
        });
        machine
    }

    #[rstest]
    #[case::its_preservation_ends_before_its_pods_have_left(PreservationStage::Releasing, true)]
    #[case::nothing_of_it(PreservationStage::Draining, false)]
    fn a_failed_machine_matters_to_its_set_once_it_is_not_kept_any_more(
        #[case] stage: PreservationStage,
        #[case] matter: bool,
    ) {
        assert_eq!(matters(&failed(PreservationStage::Draining), &failed(stage)), matter);
    }
}
