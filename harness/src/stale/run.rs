//! One run: a server, the controller with one lag, and the steps.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::Identity;
use apiserver::faults::{Faults, Pattern, Rule};
use clock::Clock;
use controllers::Name;
use mcm_api::GoDuration;
use scenario::Timeouts;
use scenario::kinds::Kind;
use scenario::manifest::Manifest;
use scenario::stale::{StaleScenario, StaleStep};
use stage::child::Program;
use stage::plane::embedded::{ControlPlane, Options};

use super::counts::Count;
use super::error::StaleError;
use super::objects::{NAMESPACE, Objects};
use super::observer::Observed;
use super::report::{PerformedStep, RunReport};
use super::rules;

/// What a run consists of.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The scenario.
    pub scenario: &'a StaleScenario,
    /// A shell command that starts the controller; `{kubeconfig}` stands for the path of its kubeconfig.
    pub controller: &'a str,
    /// The resources whose watches lag.
    pub watches: &'a [Pattern],
    /// How much they lag.
    pub lag: Duration,
    /// The seed of uids and of the draws of fault rules.
    pub seed: u64,
    /// The folder for the controller's log; `None`: it is removed.
    pub logs: Option<&'a Path>,
}

/// Runs the controller with one lag.
///
/// # Errors
/// See [`StaleError`]: the run could not be performed to its end.
pub async fn run(settings: &Settings<'_>) -> Result<RunReport, StaleError> {
    let scenario = settings.scenario;
    let kinds = scenario.kinds();
    let mut counts = Vec::new();
    for expected in &scenario.expect {
        let kind = kinds.find(expected.api_version.as_deref(), &expected.kind)?;
        counts.push(Count::new(expected, qualified(kind)));
    }
    let observed = Arc::new(Observed::new(counts));
    let timeouts = Timeouts::production();
    let mut plane = ControlPlane::start(Options {
        controllers: Name::select(&scenario.built_in_controllers)?,
        recorded_users: Some(Pattern::new(&scenario.controller.user)),
        observer: Some(Arc::clone(&observed) as _),
        ..Options::new(settings.seed, &timeouts, NAMESPACE, None)
    })
    .await?;
    let objects = Objects::new(plane.client(), kinds);
    for object in scenario.objects.iter().filter_map(Manifest::object) {
        objects.apply("objects", object).await?;
    }
    let world = World {
        settings,
        objects,
        faults: plane.api_faults(),
        observed: &observed,
        clock: Clock::wall(),
    };
    world.faults.add_all(rules::others(scenario))?;
    if !scenario.begins_lag_itself() {
        world.faults.add_all(world.lagging())?;
    }
    let mut controller = world.program(&plane)?.start()?;
    let performed = tokio::select! {
        biased;
        ended = controller.ended() => Err(StaleError::ControllerEnded(ended)),
        reason = plane.failure() => Err(StaleError::PlaneEnded(reason)),
        performed = world.perform() => performed,
    };
    controller.stop().await;
    let steps = performed?;
    drop(plane.shutdown().await);
    let lag = GoDuration(settings.lag);
    Ok(RunReport::new(
        lag,
        &observed.writes(),
        &scenario.expect,
        &observed.totals(),
        steps,
    ))
}

/// The name of a resource with its group.
fn qualified(kind: &Kind) -> String {
    match kind.group() {
        "" => kind.plural.to_owned(),
        group => format!("{}.{group}", kind.plural),
    }
}

/// A running server, and what happens to it.
struct World<'a> {
    settings: &'a Settings<'a>,
    objects: Objects,
    faults: Faults,
    observed: &'a Observed,
    clock: Clock,
}

impl World<'_> {
    fn lagging(&self) -> Vec<Rule> {
        rules::lagging(self.settings.scenario, self.settings.watches, self.settings.lag)
    }

    /// The controller's program.
    fn program(&self, plane: &ControlPlane) -> Result<Program, StaleError> {
        let Settings { scenario, lag, .. } = *self.settings;
        let user = Identity {
            groups: scenario.controller.groups.clone(),
            ..Identity::user(&scenario.controller.user)
        };
        let kubeconfig = plane.kubeconfig_of(&user)?;
        let log = match self.settings.logs {
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|source| StaleError::Folder {
                    folder: folder.display().to_string(),
                    source,
                })?;
                folder.join(format!("{}-{}.log", scenario.name, GoDuration(lag)))
            }
            None => plane.folder().join("controller.log"),
        };
        let command = with_kubeconfig(self.settings.controller, &kubeconfig);
        Ok(Program {
            name: "the controller".to_owned(),
            command: ["/bin/sh", "-c", &command].map(OsString::from).to_vec(),
            environment: vec![
                ("KUBECONFIG".to_owned(), kubeconfig.into()),
                ("DRYDOCK_NAMESPACE".to_owned(), NAMESPACE.into()),
            ],
            log,
        })
    }

    async fn perform(&self) -> Result<Vec<PerformedStep>, StaleError> {
        let started = self.clock.now();
        let mut performed = Vec::new();
        for step in &self.settings.scenario.steps {
            let since = self.clock.now().duration_since(started);
            performed.push(PerformedStep {
                step: step.description(),
                after: GoDuration(Duration::from_secs(since.as_secs().unsigned_abs())),
                revision: *self.observed.changes().borrow(),
            });
            self.step(step).await?;
        }
        Ok(performed)
    }

    async fn step(&self, step: &StaleStep) -> Result<(), StaleError> {
        let name = step.description();
        let lag = self.settings.lag;
        match step {
            StaleStep::Apply(applied) => self.objects.apply(&name, &applied.object).await,
            StaleStep::Patch(patch) => self.objects.patch(&name, patch).await,
            StaleStep::Delete(deleted) => self.objects.delete(&name, deleted).await,
            StaleStep::WaitFor(condition) => {
                let (changes, within) = (self.observed.changes(), condition.within.with(lag));
                self.objects.wait_for(&name, condition, changes, within).await
            }
            StaleStep::Wait(time) => {
                self.clock.sleep(time.with(lag)).await;
                Ok(())
            }
            StaleStep::BeginLag {} => Ok(self.faults.add_all(self.lagging())?),
            StaleStep::EndLag {} => {
                for rule in self.lagging() {
                    self.faults.remove(&rule.name);
                }
                Ok(())
            }
        }
    }
}

/// The command with the path of the kubeconfig, quoted for a shell if it needs to be.
fn with_kubeconfig(command: &str, kubeconfig: &Path) -> String {
    let path: PathBuf = kubeconfig.to_owned();
    let path = path.display().to_string();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    let quoted = match path.chars().all(plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', "'\\''")),
    };
    command.replace("{kubeconfig}", &quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_kubeconfig_is_part_of_the_command() {
        let command = "run --kubeconfig={kubeconfig} --again={kubeconfig}";
        assert_eq!(
            with_kubeconfig(command, Path::new("/tmp/a/k")),
            "run --kubeconfig=/tmp/a/k --again=/tmp/a/k"
        );
        assert_eq!(
            with_kubeconfig("{kubeconfig}", Path::new("/a b/it's")),
            r"'/a b/it'\''s'"
        );
    }

    #[test]
    fn a_resource_is_named_with_its_group() {
        let kinds = scenario::kinds::Kinds::default();
        let name = |kind| qualified(kinds.find(None, kind).unwrap());
        assert_eq!(
            (name("Pod"), name("ReplicaSet")),
            ("pods".to_owned(), "replicasets.apps".to_owned())
        );
    }
}
