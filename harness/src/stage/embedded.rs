//! The stage `embedded`: the API server and its controllers in this process over HTTPS, fakecloud
//! and mcm as processes of their own, on the wall clock.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clock::Clock;

use super::child::{Program, Running, beside};
use super::cloud::CloudClient;
use super::plane::{ControlPlane, private_file};
use super::replicas::{Recipe, Replicas, announced};
use super::{NAMESPACE, Stage, setup};
use crate::engine::perform;
use crate::runner::{Job, Ran};
use crate::scenario::step::{Crash, Process, ProcessAction};
use crate::scenario::{Cloud, Timeouts};

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
        replicas: job.scenario.world.replicas,
        controller,
    };
    let (told, logs) = match EmbeddedStage::start(plan).await {
        Ok(mut stage) => match setup::install_fixtures(&stage.client(), NAMESPACE).await {
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
    /// A shell command that gets KUBECONFIG, FAKECLOUD_ADDRESS and DRYDOCK_NAMESPACE by environment.
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
    /// How many of what acts on the machines.
    pub replicas: u32,
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
    mcm: Replicas,
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
                command.extend(setup::mcm_arguments(
                    &timeouts,
                    NAMESPACE,
                    &mcm_kubeconfig,
                    &cloud_address,
                ));
                ("mcm", Some(command))
            }
            Controller::Command(command) => (
                "the controller",
                Some(vec!["/bin/sh".into(), "-c".into(), command.into()]),
            ),
        };
        let recipe = command.map(|command| Recipe {
            program: Program {
                name: name.to_owned(),
                command,
                environment: vec![
                    ("KUBECONFIG".to_owned(), mcm_kubeconfig.clone().into()),
                    ("FAKECLOUD_ADDRESS".to_owned(), cloud_address.clone().into()),
                    ("DRYDOCK_NAMESPACE".to_owned(), NAMESPACE.into()),
                ],
                log: plane.folder().join("mcm.log"),
            },
            ours: name == "mcm",
        });
        let mut mcm = Replicas::new(recipe, plan.replicas, plane.folder(), clock.clone());
        mcm.start().await?;
        Ok(Self {
            clock,
            timeouts,
            client,
            cloud,
            fakecloud,
            mcm,
            cloud_address,
            plane,
        })
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
        let names: Vec<String> = self.mcm.logs().chain(["fakecloud.log".to_owned()]).collect();
        self.mcm.stop().await;
        self.fakecloud.stop().await;
        let folder = self.plane.shutdown().await;
        let read = |name: String| {
            let text = std::fs::read(folder.path().join(&name)).ok()?;
            Some((name, text))
        };
        names.into_iter().filter_map(read).collect()
    }
}

impl Stage for EmbeddedStage {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    fn namespace(&self) -> &str {
        NAMESPACE
    }

    fn client(&self) -> kube::Client {
        self.client.clone()
    }

    fn cloud(&self) -> CloudClient {
        self.cloud.clone()
    }

    async fn process(&mut self, process: Process, action: ProcessAction) -> Result<(), String> {
        let Process::Mcm = process;
        self.mcm.perform(action, &self.client, NAMESPACE).await
    }

    fn fault(&self, _: &str, _: &str) {}

    fn crash(&mut self, _: &Crash) -> Result<(), String> {
        Err("effects are counted on stage sim only; here kill the process with the step `process`".to_owned())
    }

    async fn trouble(&mut self) -> String {
        tokio::select! {
            biased;
            reason = self.fakecloud.ended() => reason,
            reason = self.mcm.ended() => reason,
            reason = self.plane.trouble() => reason,
        }
    }
}

fn flag(name: &str, value: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(value);
    flag
}
