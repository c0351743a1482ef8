//! Wall-clock stages on which fakecloud and mcm are separate processes: `embedded`, `envtest` and `kubeconfig`, which
//! differ only in the control plane.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver::faults::Faults;
use clock::{Clock, LostTime};
use judge::ScenarioOutcome;
use scenario::job::Job;
use scenario::plan::{self, Disturbance};
use scenario::result::Effect;
use scenario::step::{Crash, CrashNext, Process, ProcessAction};
use scenario::{Cloud, McmSettings, Step, Timeouts};
use sim::Entry;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use super::audit::Audit;
use super::child::{Program, Running, beside};
use super::cloud::CloudClient;
use super::cloud_process::CloudProcess;
use super::clusters::Clusters;
use super::controller::ControllerProcesses;
pub use super::controller_program::Controller;
use super::controller_program::Places;
use super::gated::{self, Gated};
use super::plane::{PlaneError, Planes, client_of, private_file};
use super::ports::PortError;
use super::replicas::{Recipe, Replicas};
use super::setup::{self, Kubeconfigs, NO_TARGET};
use super::{CLASS_KINDS, Stage, StageError, health_check_process, names_of_drivers, names_of_mcm};
use crate::Performer;
use crate::cloud_config::cloud_config_file;
use crate::deploy::{FAKECLOUD_ACCOUNT, MCM_ACCOUNT, REMEDIATION_ACCOUNT};
use crate::plan::schedule::{self, api_windows};
use crate::plan::{effects, hits};
use crate::result::StageResult;

/// Runs a job on running control planes, and stops them afterwards. Releases the permit `start` when the world is up.
pub async fn run(
    job: &Job,
    performer: &impl Performer,
    planes: Planes,
    mut timeouts: Timeouts,
    start: Option<OwnedSemaphorePermit>,
) -> StageResult {
    timeouts.slack += effects::room(&job.plan, &timeouts);
    timeouts.lost = LostTime::measured_with_descendants();
    let controller = match &job.controller {
        Some(command) => Controller::Command(command.clone()),
        None => Controller::Mcm,
    };
    let plan = Plan {
        seed: job.plan.seed,
        cloud: job.plan.scenario.world.cloud.clone(),
        replicas: job.plan.scenario.world.replicas,
        controller,
        timeouts,
        disturbances: job.plan.disturbances.clone(),
        gates: needs_gates(job),
        no_target: job.plan.scenario.world.no_target,
        drivers: job.plan.scenario.world.drivers,
        mcm_settings: job.plan.scenario.world.mcm(),
        remediation: job.plan.scenario.world.remediation,
        has_roles: job.plan.scenario.world.has_roles_of(MCM_ACCOUNT),
        ledger: None,
    };
    let audits = planes.audits();
    let scenario = &job.plan.scenario;
    let installed = setup::install_world(&planes.clusters(), planes.control.namespace(), scenario).await;
    let started = match installed {
        Ok(()) => ProcessStage::start(planes, plan).await,
        Err(error) => Err(error.into()),
    };
    let (mut effects, mut processes, mut scheduled) = (Vec::new(), Vec::new(), Vec::new());
    let (outcome, hits, logs) = match started {
        Ok(mut stage) => {
            let namespace = stage.namespace().to_owned();
            match setup::install_fixtures(&stage.client(), &namespace).await {
                Ok(()) => {
                    drop(start);
                    let outcome = Box::pin(performer.perform(&mut stage, scenario)).await;
                    let hits = stage.hits(&outcome, &job.plan.disturbances);
                    effects = stage.effects();
                    processes = stage.process_entries();
                    scheduled = stage.schedule.all();
                    if let Some(faults) = stage.api_faults() {
                        scheduled.extend(api_windows(&job.plan.disturbances, faults.start()));
                    }
                    (Ok(outcome), hits, stage.end().await)
                }
                Err(error) => (Err(error.into()), Vec::new(), stage.end().await),
            }
        }
        Err(error) => (Err(error), Vec::new(), BTreeMap::new()),
    };
    StageResult {
        effects,
        hits,
        processes,
        scheduled,
        requests: audits.iter().flat_map(Audit::accesses).collect(),
        refused: audits.iter().flat_map(Audit::refused).collect(),
        ..StageResult::new(outcome, logs)
    }
}

/// Whether the controller's requests have to pass a gate: its effects are recorded, or a disturbance hits it at an effect.
fn needs_gates(job: &Job) -> bool {
    job.effects.is_some()
        || effects::any(&job.plan.disturbances)
        || job.plan.scenario.steps.iter().any(Step::is_at_effect)
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of UIDs and delays.
    pub seed: u64,
    /// The behavior of the cloud.
    pub cloud: Cloud,
    /// The number of replicas of the controller.
    pub replicas: u32,
    /// The controller of the machines.
    pub controller: Controller,
    /// Values of the named durations.
    pub timeouts: Timeouts,
    /// Disturbances in addition to the steps of the scenario.
    pub disturbances: Vec<Disturbance>,
    /// Whether to count mcm's effects, so that disturbances can hit it at an effect.
    pub gates: bool,
    /// Whether mcm runs without a target cluster.
    pub no_target: bool,
    /// The number of driver processes that register with mcm; 0: mcm connects to fakecloud.
    pub drivers: u32,
    /// The settings of mcm that the world changes.
    pub mcm_settings: McmSettings,
    /// Whether the example remediation controller runs.
    pub remediation: bool,
    /// Whether the world gives rights to the controller's account: then also another controller than mcm uses it.
    pub has_roles: bool,
    /// The folder of the cloud's ledger; `None`: it ends with the stage.
    pub ledger: Option<PathBuf>,
}

impl Plan {
    /// One mcm, and a cloud with its default configuration.
    pub fn new(seed: u64, timeouts: Timeouts) -> Self {
        Self {
            seed,
            cloud: Cloud::default(),
            replicas: 1,
            controller: Controller::Mcm,
            timeouts,
            disturbances: Vec::new(),
            gates: false,
            no_target: false,
            drivers: 0,
            mcm_settings: McmSettings::default(),
            remediation: false,
            has_roles: false,
            ledger: None,
        }
    }
}

/// A world on the wall clock. Dropping it ends its processes and removes its files.
pub struct ProcessStage {
    clock: Clock,
    timeouts: Timeouts,
    client: kube::Client,
    namespace: String,
    cloud: CloudClient,
    pub(super) fakecloud: CloudProcess,
    pub(super) mcm: ControllerProcesses,
    drivers: Replicas,
    /// The process that only checks the health of machines.
    health_checks: Replicas,
    /// The example remediation controller.
    remediation: Option<Running>,
    disturbed: bool,
    schedule: schedule::Log,
    scheduled: JoinSet<String>,
    cloud_address: String,
    // Last: the processes above may still write into its folder while they end.
    pub(super) planes: Planes,
}

impl std::fmt::Debug for ProcessStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessStage")
            .field("planes", &self.planes)
            .field("fakecloud", &self.fakecloud)
            .field("mcm", &self.mcm)
            .finish_non_exhaustive()
    }
}

impl ProcessStage {
    /// Starts fakecloud and the controller, and waits until they are up.
    ///
    /// # Errors
    /// The first part that does not start.
    pub async fn start(planes: Planes, plan: Plan) -> Result<Self, StageError> {
        let (fakecloud_program, mcm_program) = (beside("fakecloud")?, beside("mcm")?);
        let clock = Clock::wall();
        let timeouts = plan.timeouts.clone();
        let (client, namespace) = (planes.control.client(), planes.control.namespace().to_owned());
        let plane = &planes.control;
        let cloud_kubeconfig = planes.target().kubeconfig_of(FAKECLOUD_ACCOUNT).await?;

        let config = cloud_config_file(&plan.cloud, &timeouts)?;
        let config = private_file(&plane.folder().join("fakecloud.yaml"), &config)?;
        let ledger = plan.ledger.clone().unwrap_or_else(|| plane.folder().join("ledger"));
        let arguments = vec![
            flag("--data=", &ledger),
            flag("--kubeconfig=", &cloud_kubeconfig),
            flag("--config=", &config),
            format!("--seed={}", plan.seed).into(),
        ];
        let fakecloud =
            CloudProcess::start(fakecloud_program.clone(), arguments, plane.folder(), clock.clone()).await?;
        let cloud_address = fakecloud.address();
        let cloud = CloudClient::connect(&format!("http://{cloud_address}"))?;

        let acting = start_controller(&plan, &planes, &timeouts, mcm_program, &cloud_address);
        let mcm = acting.await?;
        let health_checks = health_check_process::start(plan.mcm_settings, &planes, &timeouts).await?;
        let remediation = start_remediation(&plan, &planes, &fakecloud_program, &cloud_address).await?;
        let drivers = start_drivers(&plan, &planes, &mcm, &fakecloud_program, &cloud_address).await?;
        let schedule = schedule::Log::default();
        let handles = schedule::Handles {
            clock: clock.clone(),
            cloud: cloud.clone(),
            timeouts: timeouts.clone(),
        };
        let disturbed = plan::is_disturbing(&plan.disturbances);
        let mut scheduled = JoinSet::new();
        let (disturbances, log) = (plan.disturbances, schedule.clone());
        scheduled.spawn(async move { schedule::run(&disturbances, &handles, &log, |_, _| {}).await });
        Ok(Self {
            clock,
            timeouts,
            client,
            namespace,
            cloud,
            fakecloud,
            mcm,
            drivers,
            health_checks,
            remediation,
            disturbed,
            schedule,
            scheduled,
            cloud_address,
            planes,
        })
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.planes.control.kubeconfig()
    }

    /// HOST:PORT of fakecloud.
    pub fn cloud_address(&self) -> &str {
        &self.cloud_address
    }

    /// The folder of the processes' logs.
    pub fn folder(&self) -> &Path {
        self.planes.control.folder()
    }

    /// The effects of the controller, if they are counted.
    fn effects(&self) -> Vec<Effect> {
        match &self.mcm {
            ControllerProcesses::Gated(gated) => gated.effects(),
            ControllerProcesses::Direct(_) => Vec::new(),
        }
    }

    /// The entries about the controller's processes, if their requests pass gates.
    fn process_entries(&self) -> Vec<Entry> {
        match &self.mcm {
            ControllerProcesses::Gated(gated) => gated.trace.process_entries(),
            ControllerProcesses::Direct(_) => Vec::new(),
        }
    }

    /// The number of hits of each disturbance of a run.
    fn hits(&self, outcome: &ScenarioOutcome, disturbances: &[Disturbance]) -> Vec<u64> {
        let group = match &self.mcm {
            ControllerProcesses::Gated(gated) => Some(&gated.mcm.group),
            ControllerProcesses::Direct(_) => None,
        };
        let api = self.planes.control.api_faults();
        hits::count(disturbances, Some(outcome), api.as_ref(), &self.schedule, |_| {
            group.cloned()
        })
    }

    /// Stops everything and returns the logs.
    pub async fn end(mut self) -> BTreeMap<String, Vec<u8>> {
        self.scheduled.shutdown().await;
        let mut names = vec!["fakecloud.log".to_owned()];
        names.extend(self.drivers.logs());
        self.drivers.stop().await;
        names.extend(self.health_checks.logs());
        self.health_checks.stop().await;
        if let Some(remediation) = self.remediation.take() {
            names.push(REMEDIATION_LOG.to_owned());
            remediation.stop().await;
        }
        names.extend(self.mcm.stop(self.planes.control.folder()).await);
        self.fakecloud.stop().await;
        self.planes.shutdown(&names).await
    }
}

/// The log of the example remediation controller.
const REMEDIATION_LOG: &str = "remediation.log";

/// Starts the example remediation controller, if the plan has it.
async fn start_remediation(
    plan: &Plan,
    planes: &Planes,
    program: &Path,
    cloud: &str,
) -> Result<Option<Running>, StageError> {
    if !plan.remediation {
        return Ok(None);
    }
    let plane = &planes.control;
    let kubeconfig = plane.kubeconfig_of(REMEDIATION_ACCOUNT).await?;
    let program = Program {
        name: "the remediation controller".to_owned(),
        command: vec![
            program.into(),
            "remediate".into(),
            flag("--kubeconfig=", &kubeconfig),
            format!("--namespace={}", plane.namespace()).into(),
            format!("--cloud=grpc://{cloud}").into(),
            "--period=200ms".into(),
        ],
        environment: Vec::new(),
        log: plane.folder().join(REMEDIATION_LOG),
    };
    Ok(Some(program.start()?))
}

impl Stage for ProcessStage {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn client(&self) -> kube::Client {
        self.client.clone()
    }

    fn clusters(&self) -> Clusters {
        self.planes.clusters()
    }

    fn cloud(&self) -> CloudClient {
        self.cloud.clone()
    }

    async fn process(&mut self, process: Process, action: ProcessAction) -> Result<(), StageError> {
        let (client, namespace, clock) = (&self.client, &self.namespace, &self.clock);
        match process {
            Process::Mcm => self.mcm.perform(action, client, namespace, clock).await,
            Process::Fakecloud => self.fakecloud.perform(action).await,
            Process::Drivers | Process::HealthChecks if action == ProcessAction::KillLeader => {
                Err(StageError::NoLeader(process))
            }
            Process::Drivers => self.drivers.perform(action, client, namespace).await,
            Process::HealthChecks => self.health_checks.perform(action, client, namespace).await,
            Process::Controllers | Process::Remediation => Err(StageError::NoProcess(process)),
        }
    }

    fn fault(&self, _: &str, _: &str) {}

    fn crash(&mut self, crash: &Crash) -> Result<(), StageError> {
        self.mcm.crash(crash)
    }

    fn crash_next(&mut self, crash: &CrashNext) -> Result<Crash, StageError> {
        self.mcm.crash_next(crash)
    }

    fn has_crash_hit(&self, crash: &Crash) -> bool {
        self.mcm.has_crash_hit(crash)
    }

    async fn pause(&mut self, process: Process, time: Duration) -> Result<(), StageError> {
        let (client, namespace, clock) = (&self.client, &self.namespace, &self.clock);
        self.mcm.pause(process, time, client, namespace, clock).await
    }

    fn is_disturbed(&self) -> bool {
        self.disturbed
    }

    fn api_faults(&self) -> Option<Faults> {
        self.planes.control.api_faults()
    }

    fn audits(&self) -> Vec<Audit> {
        self.planes.audits()
    }

    async fn failure(&mut self) -> String {
        tokio::select! {
            biased;
            ended = self.fakecloud.ended() => ended.to_string(),
            reason = self.mcm.ended() => reason,
            ended = self.drivers.ended() => ended.to_string(),
            ended = self.health_checks.ended() => ended.to_string(),
            Some(ended) = self.scheduled.join_next() => {
                ended.unwrap_or_else(|error| format!("the task that runs the scheduled disturbances failed: {error}"))
            }
            reason = self.planes.failure() => reason,
        }
    }
}

/// Starts the controller.
async fn start_controller(
    plan: &Plan,
    planes: &Planes,
    timeouts: &Timeouts,
    mcm: PathBuf,
    driver: &str,
) -> Result<ControllerProcesses, StageError> {
    let plane = &planes.control;
    let registration = plan.drivers > 0;
    if registration && plan.gates {
        return Err(StageError::DriversNotCounted);
    }
    if registration && plan.controller != Controller::Mcm {
        return Err(StageError::ForeignRegistry);
    }
    if let Some(faults) = plane.api_faults() {
        hits::add_rules(&plan.disturbances, &faults)?;
    }
    let kubeconfigs = mcm_kubeconfigs(planes, plan).await?;
    if plan.gates && plan.controller != Controller::None {
        let target = match &kubeconfigs.target {
            target if planes.are_two() && !plan.no_target => Some(client_of(target).await?),
            _ => None,
        };
        let recipe = gated::Recipe {
            controller: plan.controller.clone(),
            mcm,
            timeouts: timeouts.clone(),
            namespace: plane.namespace().to_owned(),
            mcm_settings: plan.mcm_settings,
            driver: driver.to_owned(),
            folder: plane.folder().to_owned(),
            clusters: Clusters::new(client_of(&kubeconfigs.control).await?, target),
            no_target: plan.no_target,
        };
        let gated = Gated::start(&recipe, plan.replicas, &plan.disturbances)?;
        return Ok(ControllerProcesses::Gated(gated));
    }
    let places = Places {
        mcm,
        timeouts,
        namespace: plane.namespace(),
        mcm_settings: plan.mcm_settings,
        kubeconfigs: &kubeconfigs,
        driver,
        registration,
        folder: plane.folder(),
    };
    let recipe = plan.controller.clone().recipe(&places);
    let mut mcm = Replicas::new(recipe, names_of_mcm(plan.replicas), plane.folder(), Clock::wall())?;
    mcm.start().await?;
    Ok(ControllerProcesses::Direct(mcm))
}

/// Starts the driver processes, which register with all replicas of mcm and pass their calls to fakecloud.
async fn start_drivers(
    plan: &Plan,
    planes: &Planes,
    mcm: &ControllerProcesses,
    fakecloud: &Path,
    cloud: &str,
) -> Result<Replicas, PortError> {
    let folder = planes.control.folder();
    let replicas = match mcm {
        ControllerProcesses::Direct(mcm) => mcm.registries().join(","),
        ControllerProcesses::Gated(_) => String::new(),
    };
    let recipe = Recipe {
        program: Program {
            name: "the driver".to_owned(),
            command: vec![
                fakecloud.into(),
                "register".into(),
                format!("--cloud=grpc://{cloud}").into(),
                format!("--register-with={replicas}").into(),
                format!("--register-class-kinds={CLASS_KINDS}").into(),
            ],
            environment: Vec::new(),
            log: folder.join("driver.log"),
        },
        ours: false,
        registration: false,
    };
    let mut drivers = Replicas::new(Some(recipe), names_of_drivers(plan.drivers), folder, Clock::wall())?;
    drivers.start().await?;
    Ok(drivers)
}

/// mcm uses its service account with the roles of `deploy/`. Another controller needs other permissions: it uses that
/// account if the world gives rights to it, and otherwise the administrator's kubeconfig.
async fn mcm_kubeconfigs(planes: &Planes, plan: &Plan) -> Result<Kubeconfigs, PlaneError> {
    let uses_account = plan.controller == Controller::Mcm || plan.has_roles;
    let (control, target) = if uses_account {
        let control = planes.control.kubeconfig_of(MCM_ACCOUNT).await?;
        let target = match planes.are_two() {
            true => planes.target().kubeconfig_of(MCM_ACCOUNT).await?,
            false => control.clone(),
        };
        (control, target)
    } else {
        (
            planes.control.kubeconfig().to_owned(),
            planes.target().kubeconfig().to_owned(),
        )
    };
    let target = if plan.no_target { NO_TARGET.into() } else { target };
    Ok(Kubeconfigs { control, target })
}

fn flag(name: &str, value: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(value);
    flag
}
