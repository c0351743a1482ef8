//! The controller of machines on a wall-clock stage: processes that reach the API server and the cloud directly or
//! through gates.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::Clock;
use mcm_api::GoDuration;
use scenario::step::{Crash, Process, ProcessAction};
use scenario::{Named, PreserveFencing, Timeouts};

use super::StageError;
use super::child::Program;
use super::gated::Gated;
use super::replicas::{Recipe, Replicas};
use super::setup::{self, Kubeconfigs};
use super::supervised::{crash_at, has_crashed_at};

/// The controller of the machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// The mcm of this workspace.
    Mcm,
    /// A shell command with the environment variables of [`environment`].
    Command(String),
    /// None: the user starts one.
    None,
}

/// Paths, addresses and settings that a controller needs.
#[derive(Debug)]
pub(super) struct Places<'a> {
    /// The mcm executable.
    pub(super) mcm: PathBuf,
    /// Values of the named durations.
    pub(super) timeouts: &'a Timeouts,
    /// The namespace of machines.
    pub(super) namespace: &'a str,
    /// mcm's fencing of preserved machines.
    pub(super) fencing: PreserveFencing,
    /// The kubeconfigs of the API servers.
    pub(super) kubeconfigs: &'a Kubeconfigs,
    /// HOST:PORT of the driver.
    pub(super) driver: &'a str,
    /// Whether drivers register with mcm, instead of mcm connecting to the driver.
    pub(super) registration: bool,
    /// The folder for logs.
    pub(super) folder: &'a Path,
}

impl Controller {
    /// The recipe of a replica; `None` without a controller.
    pub(super) fn recipe(self, places: &Places) -> Option<Recipe> {
        let ours = self == Self::Mcm;
        let (name, command): (&str, Vec<OsString>) = match self {
            Self::None => return None,
            Self::Mcm => {
                let Places {
                    timeouts,
                    namespace,
                    fencing,
                    kubeconfigs,
                    driver,
                    registration,
                    ..
                } = places;
                let arguments = setup::mcm_arguments(timeouts, namespace, *fencing, kubeconfigs);
                let driver = (!registration).then(|| format!("--driver=grpc://{driver}").into());
                let program = places.mcm.clone().into_os_string();
                ("mcm", std::iter::once(program).chain(arguments).chain(driver).collect())
            }
            Self::Command(command) => ("the controller", vec!["/bin/sh".into(), "-c".into(), command.into()]),
        };
        Some(Recipe {
            program: Program {
                name: name.to_owned(),
                command,
                environment: environment(places),
                log: places.folder.join("mcm.log"),
            },
            ours,
            registration: ours && places.registration,
        })
    }
}

/// The environment variables of a controller: how it reaches the clusters and the cloud, and the stage's values of the
/// named durations, in the notation of Go.
fn environment(places: &Places) -> Vec<(String, OsString)> {
    let settings = [
        ("KUBECONFIG", places.kubeconfigs.control.clone().into()),
        ("TARGET_KUBECONFIG", places.kubeconfigs.target.clone().into()),
        ("FAKECLOUD_ADDRESS", places.driver.into()),
        ("DRYDOCK_NAMESPACE", places.namespace.into()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    let durations = Named::ALL.into_iter().map(|named| {
        let value = GoDuration(places.timeouts.get(named));
        (variable(named), value.to_string().into())
    });
    settings.into_iter().chain(durations).collect()
}

/// The environment variable with the value of a named duration: `DRYDOCK_HEALTH_TIMEOUT` for `healthTimeout`.
fn variable(named: Named) -> String {
    let mut variable = "DRYDOCK_".to_owned();
    for letter in named.name().chars() {
        if letter.is_uppercase() {
            variable.push('_');
        }
        variable.push(letter.to_ascii_uppercase());
    }
    variable
}

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

    /// Whether an armed crash has happened.
    pub(super) fn has_crash_hit(&self, crash: &Crash) -> bool {
        match self {
            Self::Gated(gated) => has_crashed_at(&gated.mcm.group, crash),
            _ => true,
        }
    }

    /// Pauses the leader.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_gets_the_durations_of_its_stage() {
        let timeouts = Timeouts::short();
        let kubeconfigs = Kubeconfigs {
            control: "control".into(),
            target: "target".into(),
        };
        let places = Places {
            mcm: PathBuf::new(),
            timeouts: &timeouts,
            namespace: "default",
            fencing: PreserveFencing::default(),
            kubeconfigs: &kubeconfigs,
            driver: "127.0.0.1:1",
            registration: false,
            folder: Path::new("."),
        };
        let environment = environment(&places);
        let value = |name: &str| {
            let found = environment.iter().find(|(known, _)| known == name);
            found.and_then(|(_, value)| value.to_str()).unwrap_or("missing")
        };
        assert_eq!(value("DRYDOCK_HEALTH_TIMEOUT"), "6s");
        assert_eq!(value("DRYDOCK_BOOT_DELAY"), "300ms");
        assert_eq!(value("KUBECONFIG"), "control");
        let documented = include_str!("../../../docs/reference/environment.md");
        for (name, _) in &environment {
            assert!(
                documented.contains(&format!("`{name}`")),
                "docs/reference/environment.md lacks {name}"
            );
        }
    }
}
