//! Stages on which fakecloud and mcm are processes of their own, on the wall clock: `embedded`, `envtest` and
//! `kubeconfig`, which differ in the control plane alone.
//!
//! What must not live here: how a control plane comes about (`plane`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use apiserver::faults::Faults;
use clock::Clock;
use futures::stream::{BoxStream, StreamExt};

use super::child::{Program, Running, beside};
use super::cloud::CloudClient;
use super::plane::{Plane, private_file};
use super::replicas::{Recipe, Replicas, announced};
use super::{Stage, setup};
use crate::deploy::{FAKECLOUD_ACCOUNT, MCM_ACCOUNT};
use crate::engine::observe::Request;
use crate::engine::perform;
use crate::runner::{Job, Ran};
use crate::scenario::step::{Crash, Process, ProcessAction};
use crate::scenario::{Cloud, Timeouts};

/// Runs a job on a control plane that is up, and ends that.
pub async fn run(job: &Job, plane: Plane, timeouts: Timeouts) -> Ran {
    let controller = match &job.controller {
        Some(command) => Controller::Command(command.clone()),
        None => Controller::Mcm,
    };
    let plan = Plan {
        seed: job.seed,
        cloud: job.scenario.world.cloud.clone(),
        replicas: job.scenario.world.replicas,
        controller,
        timeouts,
    };
    let audit = plane.audit();
    let (told, logs) = match ProcessStage::start(plane, plan).await {
        Ok(mut stage) => {
            let namespace = stage.namespace().to_owned();
            match setup::install_fixtures(&stage.client(), &namespace).await {
                Ok(()) => {
                    let told = perform(&mut stage, &job.scenario).await;
                    (Ok(told), stage.end().await)
                }
                Err(reason) => (Err(reason), stage.end().await),
            }
        }
        Err(reason) => (Err(reason), BTreeMap::new()),
    };
    let (requests, refused) = match audit {
        Some(audit) => (audit.accesses(), audit.refused()),
        None => (BTreeSet::new(), BTreeSet::new()),
    };
    Ran {
        requests,
        refused,
        ..Ran::new(told, logs)
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
    /// The seed of uids and delays.
    pub seed: u64,
    /// How the cloud behaves.
    pub cloud: Cloud,
    /// How many of what acts on the machines.
    pub replicas: u32,
    /// What acts on the machines.
    pub controller: Controller,
    /// What named durations are worth.
    pub timeouts: Timeouts,
}

/// A world on the wall clock; dropping it ends its processes and removes its files.
pub struct ProcessStage {
    clock: Clock,
    timeouts: Timeouts,
    client: kube::Client,
    namespace: String,
    cloud: CloudClient,
    fakecloud: Running,
    mcm: Replicas,
    cloud_address: String,
    // Last: the processes above may still write into its folder while they end.
    plane: Plane,
}

impl std::fmt::Debug for ProcessStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessStage")
            .field("plane", &self.plane)
            .field("fakecloud", &self.fakecloud)
            .field("mcm", &self.mcm)
            .finish_non_exhaustive()
    }
}

impl ProcessStage {
    /// Starts fakecloud and what acts on the machines, and waits until they are up.
    ///
    /// # Errors
    /// One sentence: what could not be started.
    pub async fn start(plane: Plane, plan: Plan) -> Result<Self, String> {
        let (fakecloud_program, mcm_program) = (beside("fakecloud")?, beside("mcm")?);
        let clock = Clock::wall();
        let timeouts = plan.timeouts;
        let (client, namespace) = (plane.client(), plane.namespace().to_owned());
        let cloud_kubeconfig = plane.kubeconfig_of(FAKECLOUD_ACCOUNT).await?;
        let mcm_kubeconfig = mcm_kubeconfig(&plane, &plan.controller).await?;

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
                    &namespace,
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
                    ("DRYDOCK_NAMESPACE".to_owned(), namespace.clone().into()),
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
            namespace,
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
        let own = ["fakecloud.log"].iter().chain(self.plane.logs());
        let names: Vec<String> = self.mcm.logs().chain(own.map(|name| (*name).to_owned())).collect();
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

    fn cloud(&self) -> CloudClient {
        self.cloud.clone()
    }

    async fn process(&mut self, process: Process, action: ProcessAction) -> Result<(), String> {
        if process != Process::Mcm {
            return Err(format!(
                "{process} are no process of their own on this stage: only mcm ends and starts"
            ));
        }
        self.mcm.perform(action, &self.client, &self.namespace).await
    }

    fn fault(&self, _: &str, _: &str) {}

    fn crash(&mut self, _: &Crash) -> Result<(), String> {
        Err("effects are counted on stage sim only; here kill the process with the step `process`".to_owned())
    }

    fn api_faults(&self) -> Option<Faults> {
        self.plane.api_faults()
    }

    fn requests(&mut self) -> Option<BoxStream<'static, Request>> {
        self.plane.audit().map(|audit| audit.follow().boxed())
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

/// Ours has a service account with its roles. Another controller may need others: it is the administrator.
async fn mcm_kubeconfig(plane: &Plane, controller: &Controller) -> Result<PathBuf, String> {
    match controller {
        Controller::Mcm => plane.kubeconfig_of(MCM_ACCOUNT).await,
        Controller::Command(_) | Controller::None => Ok(plane.kubeconfig().to_owned()),
    }
}

fn flag(name: &str, value: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(value);
    flag
}
