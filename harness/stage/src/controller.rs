//! What acts on the machines on a wall-clock stage: processes that speak with API server and cloud directly, or behind
//! gates.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::Clock;
use scenario::Timeouts;
use scenario::step::{Crash, Process, ProcessAction};

use super::StageError;
use super::child::Program;
use super::gated::Gated;
use super::replicas::{Recipe, Replicas};
use super::setup::{self, Kubeconfigs};
use super::supervised::crash_at;

/// What acts on the machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Our mcm.
    Mcm,
    /// A shell command that gets KUBECONFIG (of the control cluster), TARGET_KUBECONFIG, FAKECLOUD_ADDRESS and
    /// DRYDOCK_NAMESPACE by environment.
    Command(String),
    /// Nothing: a person brings one.
    None,
}

/// Where what acts on the machines finds things.
#[derive(Debug)]
pub(super) struct Places<'a> {
    /// The program mcm.
    pub(super) mcm: PathBuf,
    /// What named durations are worth.
    pub(super) timeouts: &'a Timeouts,
    /// The namespace of machines.
    pub(super) namespace: &'a str,
    /// How it reaches the API servers.
    pub(super) kubeconfigs: &'a Kubeconfigs,
    /// HOST:PORT of the driver.
    pub(super) driver: &'a str,
    /// Where logs go.
    pub(super) folder: &'a Path,
}

impl Controller {
    /// What a replica of it is started from; `None`: there is none.
    pub(super) fn recipe(self, places: &Places) -> Option<Recipe> {
        let ours = self == Self::Mcm;
        let (name, command): (&str, Vec<OsString>) = match self {
            Self::None => return None,
            Self::Mcm => {
                let Places {
                    timeouts,
                    namespace,
                    kubeconfigs,
                    driver,
                    ..
                } = places;
                let arguments = setup::mcm_arguments(timeouts, namespace, kubeconfigs, driver);
                let program = places.mcm.clone().into_os_string();
                ("mcm", std::iter::once(program).chain(arguments).collect())
            }
            Self::Command(command) => ("the controller", vec!["/bin/sh".into(), "-c".into(), command.into()]),
        };
        Some(Recipe {
            program: Program {
                name: name.to_owned(),
                command,
                environment: vec![
                    ("KUBECONFIG".to_owned(), places.kubeconfigs.control.clone().into()),
                    ("TARGET_KUBECONFIG".to_owned(), places.kubeconfigs.target.clone().into()),
                    ("FAKECLOUD_ADDRESS".to_owned(), places.driver.into()),
                    ("DRYDOCK_NAMESPACE".to_owned(), places.namespace.into()),
                ],
                log: places.folder.join("mcm.log"),
            },
            ours,
        })
    }
}

/// The processes that act on the machines.
#[derive(Debug)]
pub(super) enum Acting {
    /// They speak with API server and cloud directly.
    Direct(Replicas),
    /// What they say passes gates.
    Gated(Gated),
}

impl Acting {
    /// Performs a step; `client` and `namespace` tell who leads.
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

    /// Arms a crash.
    pub(super) fn crash(&self, crash: &Crash) -> Result<(), StageError> {
        match (self, crash.process) {
            (Self::Gated(gated), Process::Mcm) => crash_at(&gated.mcm.group, crash),
            (_, process) => Err(StageError::NotCounted(process)),
        }
    }

    /// Lets the one that leads stand still.
    pub(super) async fn pause(
        &self,
        process: Process,
        time: Duration,
        client: &kube::Client,
        namespace: &str,
        clock: &Clock,
    ) -> Result<(), StageError> {
        match (self, process) {
            (Self::Gated(gated), Process::Mcm) => Ok(gated.mcm.pause_leader(time, client, namespace, clock).await?),
            (_, process) => Err(StageError::NoPause(process)),
        }
    }

    /// Returns, with a sentence, when one ends that nobody ended.
    pub(super) async fn ended(&mut self) -> String {
        match self {
            Self::Direct(mcm) => mcm.ended().await.to_string(),
            Self::Gated(gated) => gated.ended().await,
        }
    }

    /// Ends them; the files in `folder` that tell what they did.
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
