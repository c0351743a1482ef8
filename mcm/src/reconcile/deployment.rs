//! One pass of a MachineDeployment: repeats view, decision and steps until no step remains.

use mcm_api::MachineDeployment;
use mcm_core::deployment::{Reason, View, decide};

use super::{Controllers, DECISIONS, Outcome, log_steps};
use crate::cache::Key;
use crate::execute::{Ended, Owner};
use crate::memory::RetryCause;

impl Controllers {
    pub(crate) async fn deployment(&self, key: &Key) -> Outcome {
        let mut outcome = Outcome::default();
        let (mut failure, mut taken) = (None, None);
        for _ in 0..DECISIONS {
            let Some(deployment) = self.executor.state.deployments.get(key) else {
                return outcome;
            };
            let view = View {
                failure: failure.clone(),
                taken: taken.take(),
                ..self.deployment_view(&deployment)
            };
            outcome.machines = view.machines.len();
            let plan = decide(&view, self.deployment_settings, self.executor.clock.now());
            log_steps("deployment", key, &plan, Reason::name);
            let wake = plan.wake;
            let idle = plan.steps.is_empty();
            let reports = plan.only_reports();
            let ended = self
                .executor
                .perform_steps(
                    &self.machine_names,
                    Owner::Deployment(&deployment),
                    plan,
                    &mut outcome.triggers,
                )
                .await;
            match ended {
                _ if idle && failure.is_none() => {
                    outcome.wake = wake;
                    return outcome;
                }
                Ended::Done(_) if failure.is_some() => return outcome.retry_after(RetryCause::Failure),
                // The written status triggers the next pass.
                Ended::Done(_) if reports => {
                    outcome.wake = wake;
                    return outcome;
                }
                Ended::Done(_) => {}
                Ended::Partly(cause) => return outcome.retry_after(cause),
                Ended::Conflict => return outcome.retry_after(RetryCause::Conflict),
                Ended::Taken(name) => taken = Some(name),
                Ended::Failed(_) if defect!(UnsizedSetCountsAsSized) => return outcome,
                Ended::NotCreated(text) if failure.is_none() => failure = Some(text),
                Ended::Failed(_) if defect!(FailedWriteRepeatedAtOnce) => {
                    return outcome.again(self.settings.retry.conflict);
                }
                Ended::NotLeading => return outcome.again(self.settings.retry.short),
                Ended::NotCreated(_) | Ended::Failed(_) => return outcome.retry_after(RetryCause::Failure),
            }
        }
        outcome.again(self.settings.retry.conflict)
    }

    fn deployment_view(&self, deployment: &MachineDeployment) -> View {
        let state = &self.executor.state;
        let sets = state.sets_for(deployment);
        let machines: Vec<_> = sets.iter().flat_map(|set| state.machines_of(set)).collect();
        View {
            deployment: MachineDeployment::clone(deployment),
            sets,
            machines,
            nodes: state.target.as_ref().map(|target| target.nodes.by_name()),
            ..View::default()
        }
    }
}
