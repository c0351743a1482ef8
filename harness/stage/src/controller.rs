//! The processes of the controller on a wall-clock stage, which reach the API server and the cloud directly or through
//! gates.

use std::path::Path;
use std::time::Duration;

use clock::Clock;
use scenario::step::{Crash, CrashNext, Process, ProcessAction};

use super::StageError;
use super::gated::Gated;
use super::replicas::Replicas;
use super::supervised::{crash_at, crash_at_next, has_crashed_at};

/// The controller processes.
#[derive(Debug)]
pub(super) enum ControllerProcesses {
    /// Processes that reach API server and cloud directly.
    Direct(Replicas),
    /// Processes whose requests pass gates.
    Gated(Gated),
}

impl ControllerProcesses {
    /// Performs an action of a step. `client` and `namespace` are for reading the Lease of the leader.
    pub(super) async fn perform(
        &mut self,
        action: ProcessAction,
        client: &kube::Client,
        namespace: &str,
        clock: &Clock,
    ) -> Result<(), StageError> {
        match self {
            Self::Direct(mcm) => mcm.perform(action, client, namespace).await,
            Self::Gated(gated) => Ok(gated.mcm.perform(action, client, namespace, clock).await?),
        }
    }

    /// Arms a crash at an effect.
    pub(super) fn crash(&self, crash: &Crash) -> Result<(), StageError> {
        match (self, crash.process) {
            (Self::Gated(gated), Process::Mcm) => crash_at(&gated.mcm.group, crash),
            (_, process) => Err(StageError::NotCounted(process)),
        }
    }

    /// Arms a crash at the next effect.
    pub(super) fn crash_next(&self, crash: &CrashNext) -> Result<Crash, StageError> {
        match (self, crash.process) {
            (Self::Gated(gated), Process::Mcm) => crash_at_next(&gated.mcm.group, crash),
            (_, process) => Err(StageError::NotCounted(process)),
        }
    }

    /// Whether an armed crash has happened.
    pub(super) fn has_crash_hit(&self, crash: &Crash) -> bool {
        match self {
            Self::Gated(gated) => has_crashed_at(&gated.mcm.group, crash),
            _ => true,
        }
    }

    /// Pauses the leader.
    pub(super) async fn pause(
        &mut self,
        process: Process,
        time: Duration,
        client: &kube::Client,
        namespace: &str,
        clock: &Clock,
    ) -> Result<(), StageError> {
        match (self, process) {
            (Self::Gated(gated), Process::Mcm) => Ok(gated.mcm.pause_leader(time, client, namespace, clock).await?),
            (Self::Direct(mcm), Process::Mcm) => mcm.pause_leader(time, client, namespace).await,
            (_, process) => Err(StageError::NoPause(process)),
        }
    }

    /// Removes the processes that have ended, so that they can be started again. Returns whether they can be.
    pub(super) fn remove_ended(&mut self) -> bool {
        match self {
            Self::Direct(mcm) => mcm.remove_ended(),
            Self::Gated(_) => return false,
        }
        true
    }

    /// Returns the reason when a process ends unexpectedly.
    pub(super) async fn ended(&mut self) -> String {
        match self {
            Self::Direct(mcm) => mcm.ended().await.to_string(),
            Self::Gated(gated) => gated.ended().await,
        }
    }

    /// Stops the processes. Returns the names of their log and trace files in `folder`.
    pub(super) async fn stop(self, folder: &Path) -> Vec<String> {
        match self {
            Self::Direct(mut mcm) => {
                let logs = mcm.logs().collect();
                mcm.stop().await;
                logs
            }
            Self::Gated(gated) => gated.stop(folder),
        }
    }
}
