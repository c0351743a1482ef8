//! The stage `embedded`: the API server and its controllers in this process over HTTPS, fakecloud
//! and mcm as processes of their own, on the wall clock.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use clock::Clock;
use tokio::net::TcpStream;

use super::child::{Program, Running, beside};
use super::cloud::CloudClient;
use super::plane::{ControlPlane, private_file};
use super::{Stage, setup};
use crate::engine::perform;
use crate::runner::{Job, Ran};
use crate::scenario::step::{Crash, Process, ProcessAction};
use crate::scenario::{Cloud, Timeouts};

/// How long a process may take until it is up.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How often that is looked at meanwhile: a port that nobody listens on yet gives no event.
const START_PROBE: Duration = Duration::from_millis(20);
/// How often mcm may find its port taken.
const PORT_ATTEMPTS: u32 = 5;

/// Runs a job on a fresh world.
pub async fn run(job: &Job) -> Ran {
    let controller = match &job.controller {
        Some(command) => Controller::Command(command.clone()),
        None => Controller::Mcm,
    };
    let plan = Plan {
        port: 0,
        seed: job.seed,
        cloud: job.scenario.world.cloud.clone(),
        controller,
    };
    let (told, logs) = match EmbeddedStage::start(plan).await {
        Ok(mut stage) => match setup::install_fixtures(&stage.client()).await {
            Ok(()) => {
                let told = perform(&mut stage, &job.scenario).await;
                (Ok(told), stage.end().await)
            }
            Err(reason) => (Err(reason), stage.end().await),
        },
        Err(reason) => (Err(reason), BTreeMap::new()),
    };
    Ran {
        told,
        trace: None,
        effects: Vec::new(),
        logs,
    }
}

/// What acts on the machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Our mcm.
    Mcm,
    /// A shell command that gets KUBECONFIG and FAKECLOUD_ADDRESS by environment.
    Command(String),
    /// Nothing: a person brings one.
    None,
}

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The API server's port; 0: any.
    pub port: u16,
    /// The seed of uids and delays.
    pub seed: u64,
    /// How the cloud behaves.
    pub cloud: Cloud,
    /// What acts on the machines.
    pub controller: Controller,
}

/// A world on the wall clock; dropping it ends its processes and removes its files.
pub struct EmbeddedStage {
    clock: Clock,
    timeouts: Timeouts,
    client: kube::Client,
    cloud: CloudClient,
    fakecloud: Running,
    mcm: Option<Program>,
    ours: bool,
    running: Option<Running>,
    cloud_address: String,
    // Last: the processes above may still write into its folder while they end.
    plane: ControlPlane,
}

impl std::fmt::Debug for EmbeddedStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStage")
            .field("plane", &self.plane)
            .field("fakecloud", &self.fakecloud)
            .field("mcm", &self.mcm)
            .finish_non_exhaustive()
    }
}

impl EmbeddedStage {
    /// Starts everything and waits until the CRDs are served and fakecloud answers.
    ///
    /// # Errors
    /// One sentence: what could not be started.
    pub async fn start(plan: Plan) -> Result<Self, String> {
        let (fakecloud_program, mcm_program) = (beside("fakecloud")?, beside("mcm")?);
        let clock = Clock::wall();
        let timeouts = Timeouts::short();
        let (plane, client) = ControlPlane::start(plan.port, plan.seed, &timeouts).await?;
        let cloud_kubeconfig = plane.kubeconfig_of("fakecloud")?;
        let mcm_kubeconfig = plane.kubeconfig_of("mcm")?;

        let config = serde_saphyr::to_string(&super::sim::cloud_config(&plan.cloud, &timeouts))
            .map_err(|error| format!("fakecloud's configuration has no YAML form: {error}"))?;
        let config = private_file(&plane.folder().join("fakecloud.yaml"), &config)?;
        let mut fakecloud = Program {
            name: "fakecloud".to_owned(),
            command: vec![
                fakecloud_program.into(),
                "serve".into(),
                "--address=127.0.0.1:0".into(),
                flag("--kubeconfig=", &cloud_kubeconfig),
                flag("--config=", &config),
                format!("--seed={}", plan.seed).into(),
            ],
            environment: Vec::new(),
            log: plane.folder().join("fakecloud.log"),
        }
        .start()?;
        let cloud_address = announced(&plane.folder().join("fakecloud.log"), &mut fakecloud, &clock).await?;
        let cloud = CloudClient::connect(&format!("http://{cloud_address}"))?;

        let (name, command) = match plan.controller {
            Controller::None => ("", None),
            Controller::Mcm => {
                let mut command: Vec<OsString> = vec![mcm_program.into()];
                command.extend(setup::mcm_arguments(&timeouts, &mcm_kubeconfig, &cloud_address));
                ("mcm", Some(command))
            }
            Controller::Command(command) => (
                "the controller",
                Some(vec!["/bin/sh".into(), "-c".into(), command.into()]),
            ),
        };
        let mcm = command.map(|command| Program {
            name: name.to_owned(),
            command,
            environment: vec![
                ("KUBECONFIG".to_owned(), mcm_kubeconfig.clone().into()),
                ("FAKECLOUD_ADDRESS".to_owned(), cloud_address.clone().into()),
            ],
            log: plane.folder().join("mcm.log"),
        });
        let mut stage = Self {
            clock,
            timeouts,
            client,
            cloud,
            fakecloud,
            ours: name == "mcm",
            mcm,
            running: None,
            cloud_address,
            plane,
        };
        stage.start_controller().await?;
        Ok(stage)
    }

    /// Starts what acts on the machines. Ours gets a port for its metrics, and another one when somebody was
    /// faster; it is up when it listens.
    async fn start_controller(&mut self) -> Result<(), String> {
        let Some(program) = &self.mcm else {
            return Ok(());
        };
        if !self.ours {
            self.running = Some(program.start()?);
            return Ok(());
        }
        let mut attempts = 1..=PORT_ATTEMPTS;
        loop {
            let port = free_port()?;
            let mut program = program.clone();
            program.command.push(format!("--port={port}").into());
            let mut running = program.start()?;
            match listens(port, &mut running, &self.clock).await {
                Ok(()) => {
                    self.running = Some(running);
                    return Ok(());
                }
                Err(reason) if reason.contains("in use") && attempts.next().is_some() => {}
                Err(reason) => return Err(reason),
            }
        }
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.plane.kubeconfig()
    }

    /// HOST:PORT of fakecloud.
    pub fn cloud_address(&self) -> &str {
        &self.cloud_address
    }

    /// Where the processes log.
    pub fn folder(&self) -> &Path {
        self.plane.folder()
    }

    /// Ends everything, and hands the logs over.
    pub async fn end(mut self) -> BTreeMap<String, Vec<u8>> {
        if let Some(mcm) = self.running.take() {
            mcm.stop().await;
        }
        self.fakecloud.stop().await;
        let folder = self.plane.shutdown().await;
        let read = |name: &str| Some((name.to_owned(), std::fs::read(folder.path().join(name)).ok()?));
        ["mcm.log", "fakecloud.log"].into_iter().filter_map(read).collect()
    }
}

impl Stage for EmbeddedStage {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    fn client(&self) -> kube::Client {
        self.client.clone()
    }

    fn cloud(&self) -> CloudClient {
        self.cloud.clone()
    }

    async fn process(&mut self, process: Process, action: ProcessAction) -> Result<(), String> {
        let Process::Mcm = process;
        if action != ProcessAction::Start
            && let Some(running) = self.running.take()
        {
            running.kill().await;
        }
        if action != ProcessAction::Kill && self.running.is_none() {
            self.start_controller().await?;
        }
        Ok(())
    }

    fn fault(&self, _: &str, _: &str) {}

    fn crash(&mut self, _: &Crash) -> Result<(), String> {
        Err("effects are counted on stage sim only; here kill the process with the step `process`".to_owned())
    }

    async fn trouble(&mut self) -> String {
        let mcm = async {
            match &mut self.running {
                Some(running) => running.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            reason = self.fakecloud.ended() => reason,
            reason = mcm => reason,
            reason = self.plane.trouble() => reason,
        }
    }
}

/// Waits until fakecloud says on which address it serves; it takes a free port itself.
async fn announced(log: &Path, fakecloud: &mut Running, clock: &Clock) -> Result<String, String> {
    let announcing = async {
        loop {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let said = text.lines().find_map(|line| line.strip_prefix("fakecloud serves on "));
            if let Some((address, _)) = said.and_then(|said| said.split_once(';')) {
                return address.to_owned();
            }
            clock.sleep(START_PROBE).await;
        }
    };
    until(announcing, fakecloud, "fakecloud does not serve").await
}

/// Waits until somebody listens on a port that was free.
async fn listens(port: u16, mcm: &mut Running, clock: &Clock) -> Result<(), String> {
    let listening = async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            clock.sleep(START_PROBE).await;
        }
    };
    until(listening, mcm, "mcm does not listen").await
}

/// Waits for `event`, for [`START_LIMIT`] at most and no longer than `process` lives.
async fn until<T>(event: impl Future<Output = T>, process: &mut Running, otherwise: &str) -> Result<T, String> {
    tokio::select! {
        biased;
        reason = process.ended() => Err(reason),
        came = tokio::time::timeout(START_LIMIT, event) => {
            came.map_err(|_| format!("{otherwise} {START_LIMIT:?} after its start"))
        }
    }
}

fn flag(name: &str, value: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(value);
    flag
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener
        .map(|address| address.port())
        .map_err(|error| format!("no port is free: {error}"))
}
