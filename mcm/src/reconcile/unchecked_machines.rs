//! One pass over the machines that a health check failed and that no check evaluates any more.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::NodeCondition;
use mcm_api::{Machine, MachineStatus};
use mcm_core::event::EventType;
use mcm_core::health_check::WITHDRAWN;

use super::{Controllers, MACHINES_AT_ONCE, Outcome};
use crate::cache::Key;
use crate::error::{brief, is_conflict, is_not_found};
use crate::memory::RetryCause;
use crate::view::{Trigger, Work};

/// What happens to such a machine.
const MESSAGE: &str = "no health check evaluates the machine any more: its owner does not replace it";

impl Controllers {
    /// Withdraws what checks requested of the owners of these machines.
    pub(super) async fn unchecked_machines(&self) -> Outcome {
        let mut outcome = Outcome::default();
        for machines in self.executor.state.unchecked_machines().chunks(MACHINES_AT_ONCE) {
            if !self.executor.may_act() {
                return outcome.again(self.settings.retry.short);
            }
            let writes = machines
                .iter()
                .map(|(machine, conditions)| self.withdraw(machine, conditions));
            for ended in join_all(writes).await {
                match ended {
                    Ok(trigger) => outcome.triggers.extend(trigger),
                    Err(error) if is_not_found(&error) => {}
                    Err(error) => {
                        tracing::info!(error = brief(&error), "withdrawing a remediation failed");
                        outcome.retry = Some(RetryCause::of(is_conflict(&error)));
                    }
                }
            }
        }
        outcome
    }

    async fn withdraw(&self, machine: &Arc<Machine>, conditions: &[NodeCondition]) -> kube::Result<Option<Trigger>> {
        let status = MachineStatus {
            conditions: conditions.to_vec(),
            ..machine.status.clone()
        };
        self.executor.write_status(machine, &status).await?;
        let key = Key::of(&**machine);
        if machine.status.is_remediation_requested() {
            tracing::info!(machine = %key, "{MESSAGE}");
            let recorder = &self.executor.recorder;
            let recorded = recorder.record(
                &self.executor.control,
                &**machine,
                EventType::Normal,
                WITHDRAWN,
                MESSAGE,
            );
            if let Err(error) = recorded.await {
                tracing::debug!(error = brief(&error), "recording the event failed");
            }
        }
        let work = Work::Machine(key);
        let runs = self.executor.state.enabled.runs(&work);
        Ok(runs.then_some(Trigger { work, hurry: false }))
    }
}
