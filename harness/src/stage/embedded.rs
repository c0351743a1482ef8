//! The stage `embedded`: the API server and its controllers in this process over HTTPS, fakecloud
//! and mcm as processes of their own, on the wall clock.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::{Clock, Seed};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::child::{Program, Running, beside};
use super::cloud::CloudClient;
use super::{NAMESPACE, Stage, setup};
use crate::engine::perform;
use crate::runner::{Job, Ran};
use crate::scenario::step::{Crash, Process, ProcessAction};
use crate::scenario::{Cloud, Timeouts};

/// How long fakecloud may take to answer.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How often it is asked meanwhile: a port that nobody listens on yet gives no event.
const START_PROBE: Duration = Duration::from_millis(20);

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
    serving: apiserver::serve::Serving,
    parts: JoinSet<String>,
    fakecloud: Running,
    mcm: Option<Program>,
    running: Option<Running>,
    cloud_address: String,
    kubeconfig: PathBuf,
    // Last: what is above may still write into it while it ends.
    folder: TempDir,
}

impl std::fmt::Debug for EmbeddedStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStage")
            .field("serving", &self.serving)
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
        let folder = tempfile::Builder::new()
            .prefix("drydock-")
            .tempdir()
            .map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        let clock = Clock::wall();
        let timeouts = Timeouts::short();

        let options = apiserver::Options::new(clock.clone(), Seed::new(plan.seed).child("apiserver"));
        let server = apiserver::Server::new(options).map_err(|error| error.to_string())?;
        let serving = server
            .serve(SocketAddr::from(([127, 0, 0, 1], plan.port)))
            .await
            .map_err(|error| error.to_string())?;
        let kubeconfig_of = |identity: apiserver::Identity, file: &str| {
            let text = serving.kubeconfig(&identity).map_err(|error| error.to_string())?;
            private_file(&folder.path().join(file), &text)
        };
        let kubeconfig = kubeconfig_of(apiserver::Identity::admin(), "kubeconfig")?;
        let cloud_kubeconfig = kubeconfig_of(apiserver::Identity::user("fakecloud"), "fakecloud.kubeconfig")?;
        let mcm_kubeconfig = kubeconfig_of(apiserver::Identity::user("mcm"), "mcm.kubeconfig")?;

        let inside = kube::Client::new(server.service(apiserver::Identity::admin()), NAMESPACE);
        setup::install_definitions(&inside).await?;
        let client = inside.clone();
        let mut parts = JoinSet::new();
        let (settings, lifecycle_clock) = (setup::node_lifecycle(&timeouts), clock.clone());
        parts.spawn(async move {
            controllers::node_lifecycle::run(inside, lifecycle_clock, settings, CancellationToken::new()).await;
            "node lifecycle ended".to_owned()
        });

        let cloud_address = format!("127.0.0.1:{}", free_port()?);
        let config = serde_saphyr::to_string(&super::sim::cloud_config(&plan.cloud, &timeouts))
            .map_err(|error| format!("fakecloud's configuration has no YAML form: {error}"))?;
        let config = private_file(&folder.path().join("fakecloud.yaml"), &config)?;
        let mut fakecloud = Program {
            name: "fakecloud".to_owned(),
            command: vec![
                fakecloud_program.into(),
                "serve".into(),
                flag("--address=", cloud_address.as_ref()),
                flag("--kubeconfig=", &cloud_kubeconfig),
                flag("--config=", &config),
                format!("--seed={}", plan.seed).into(),
            ],
            environment: Vec::new(),
            log: folder.path().join("fakecloud.log"),
        }
        .start()?;
        let cloud = CloudClient::connect(&format!("http://{cloud_address}"))?;
        answers(&cloud, &mut fakecloud, &clock).await?;

        let mcm = match plan.controller {
            Controller::None => None,
            Controller::Mcm => {
                let mut command: Vec<OsString> = vec![mcm_program.into()];
                command.extend(setup::mcm_arguments(
                    &timeouts,
                    &mcm_kubeconfig,
                    &cloud_address,
                    free_port()?,
                ));
                Some(command)
            }
            Controller::Command(command) => Some(vec!["/bin/sh".into(), "-c".into(), command.into()]),
        };
        let mcm = mcm.map(|command| Program {
            name: "mcm".to_owned(),
            command,
            environment: vec![
                ("KUBECONFIG".to_owned(), mcm_kubeconfig.clone().into()),
                ("FAKECLOUD_ADDRESS".to_owned(), cloud_address.clone().into()),
            ],
            log: folder.path().join("mcm.log"),
        });
        let running = mcm.as_ref().map(Program::start).transpose()?;
        Ok(Self {
            clock,
            timeouts,
            client,
            cloud,
            serving,
            parts,
            fakecloud,
            mcm,
            running,
            cloud_address,
            kubeconfig,
            folder,
        })
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// HOST:PORT of fakecloud.
    pub fn cloud_address(&self) -> &str {
        &self.cloud_address
    }

    /// Where the processes log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends everything, and hands the logs over.
    pub async fn end(mut self) -> BTreeMap<String, Vec<u8>> {
        if let Some(mcm) = self.running.take() {
            mcm.stop().await;
        }
        self.fakecloud.stop().await;
        self.serving.shutdown().await;
        let read = |name: &str| Some((name.to_owned(), std::fs::read(self.folder.path().join(name)).ok()?));
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
            self.running = self.mcm.as_ref().map(Program::start).transpose()?;
        }
        Ok(())
    }

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
        let parts = async {
            match self.parts.join_next().await {
                Some(Ok(reason)) => reason,
                Some(Err(error)) => format!("a part of the control plane broke: {error}"),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            reason = self.fakecloud.ended() => reason,
            reason = mcm => reason,
            reason = parts => reason,
        }
    }
}

/// Waits until fakecloud answers or ends.
async fn answers(cloud: &CloudClient, fakecloud: &mut Running, clock: &Clock) -> Result<(), String> {
    let answering = async {
        while cloud.ping().await.is_err() {
            clock.sleep(START_PROBE).await;
        }
    };
    tokio::select! {
        biased;
        reason = fakecloud.ended() => Err(reason),
        answered = tokio::time::timeout(START_LIMIT, answering) => {
            answered.map_err(|_| format!("fakecloud does not answer {START_LIMIT:?} after its start"))
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

/// Writes a file that only this user can read.
fn private_file(path: &Path, text: &str) -> Result<PathBuf, String> {
    let written = apiserver::serve::write_private(path, text);
    written
        .map(|()| path.to_owned())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
