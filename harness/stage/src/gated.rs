//! The controller as separate processes behind gates. Their requests to the API server and the cloud pass a port of this
//! process, which counts them as effects and can kill a process at an effect (SIGKILL). Pauses use SIGSTOP and SIGCONT.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clock::Clock;
use parking_lot::Mutex;
use scenario::plan::Disturbance;
use scenario::result::Effect;
use scenario::step::Process;
use scenario::{McmSettings, Timeouts};
use serde_json::json;
use sim::{Gate, Trace};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tower::Layer;

use super::StageError;
use super::child::{Ended, Group};
use super::clusters::Clusters;
use super::controller_program::{Controller, Places};
use super::plane::{FileError, private_file};
use super::ports::free_port;
use super::setup::{Kubeconfigs, NO_TARGET};
use super::supervised::Supervised;
use super::{names_of_mcm, proxy};
use crate::plan::effects::{self, RESTART_DELAY};

/// Settings of each incarnation of a process.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    /// The controller; without one no process starts.
    pub(super) controller: Controller,
    /// The mcm executable.
    pub(super) mcm: PathBuf,
    /// Values of the named durations.
    pub(super) timeouts: Timeouts,
    /// The namespace of machines.
    pub(super) namespace: String,
    /// The settings of mcm that the world changes.
    pub(super) mcm_settings: McmSettings,
    /// HOST:PORT of the driver.
    pub(super) driver: String,
    /// The folder for kubeconfigs and logs.
    pub(super) folder: PathBuf,
    /// Clients of the API servers that use the controller's account.
    pub(super) clusters: Clusters,
    /// Whether mcm runs without a target cluster.
    pub(super) no_target: bool,
}

/// The processes of the controller. Dropping this kills them.
pub(super) struct Gated {
    /// The gates and the controls of the processes.
    pub(super) mcm: Supervised,
    /// The trace of the processes.
    pub(super) trace: Trace,
    names: Vec<String>,
    parts: JoinSet<String>,
}

impl std::fmt::Debug for Gated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gated").field("mcm", &self.mcm).finish_non_exhaustive()
    }
}

impl Gated {
    /// Starts `count` processes and arms the disturbances that hit them at an effect.
    pub(super) fn start(recipe: &Recipe, count: u32, disturbances: &[Disturbance]) -> Result<Self, StageError> {
        let endpoint = Endpoint::from_shared(format!("http://{}", recipe.driver));
        let endpoint = endpoint.map_err(|source| StageError::DriverAddress {
            address: recipe.driver.clone(),
            source,
        })?;
        let channel = endpoint.connect_lazy();
        let trace = Trace::new(Clock::wall(), sim::Keep::default());
        let group = Gate::new("mcm", trace.clone());
        effects::arm(disturbances, &recipe.timeouts, |_| group.clone());
        let names = names_of_mcm(count);
        let mut mcm = Supervised::new(group.clone());
        let mut parts = JoinSet::new();
        for name in &names {
            let gate = group.sibling(name);
            let group_of_child = Arc::new(Mutex::new(None));
            let incarnations = Incarnations {
                name: name.clone(),
                recipe: recipe.clone(),
                gate: gate.clone(),
                channel: channel.clone(),
                child: Arc::clone(&group_of_child),
            };
            let process = sim::process(name, gate.clone(), move || incarnations.clone().run())
                .restart_delay(RESTART_DELAY)
                .restart_after(|_| true);
            mcm.add(name, process.handle(), gate.clone());
            let name = name.clone();
            parts.spawn(async move { format!("{name} ended: {}", process.run().await) });
            parts.spawn(follow_pauses(gate, group_of_child));
        }
        Ok(Self {
            mcm,
            trace,
            names,
            parts,
        })
    }

    /// The effects of all processes so far.
    pub(super) fn effects(&self) -> Vec<Effect> {
        effects::of_gate(&self.mcm.group)
    }

    /// Kills the processes and writes their trace. Returns the names of log and trace files in `folder`.
    pub(super) fn stop(self, folder: &Path) -> Vec<String> {
        const TRACE: &str = "trace.txt";
        let lines: String = self.trace.entries().iter().map(|entry| format!("{entry}\n")).collect();
        if let Err(error) = std::fs::write(folder.join(TRACE), lines) {
            tracing::warn!(%error, "cannot write the trace of the gates");
        }
        let logs = self.names.iter().map(|name| format!("{name}.log"));
        logs.chain([TRACE.to_owned()]).collect()
    }

    /// Returns the reason when a process ends and is not restarted.
    pub(super) async fn ended(&mut self) -> String {
        match self.parts.join_next().await {
            Some(Ok(reason)) => reason,
            Some(Err(error)) => format!("the supervisor of mcm failed: {error}"),
            None => std::future::pending().await,
        }
    }
}

/// Starts the incarnations of one process.
#[derive(Clone)]
struct Incarnations {
    name: String,
    recipe: Recipe,
    gate: Gate,
    channel: Channel,
    child: Arc<Mutex<Option<Group>>>,
}

impl Incarnations {
    /// Runs one incarnation from start to end and returns why it ended. Dropping the future kills the process.
    async fn run(self) -> String {
        match self.start_and_wait().await {
            Ok(ended) => ended.to_string(),
            Err(error) => error.to_string(),
        }
    }

    async fn start_and_wait(self) -> Result<Ended, StageError> {
        let (api, api_port) = proxy::listen().await?;
        let (target, target_port) = proxy::listen().await?;
        let (cloud, cloud_port) = proxy::listen().await?;
        let control = self.kubeconfig("gate", api_port)?;
        let kubeconfigs = Kubeconfigs {
            target: match &self.recipe {
                recipe if recipe.no_target => NO_TARGET.into(),
                recipe if recipe.clusters.are_two() => self.kubeconfig("target-gate", target_port)?,
                _ => control.clone(),
            },
            control,
        };
        let recipe = &self.recipe;
        let places = Places {
            mcm: recipe.mcm.clone(),
            timeouts: &recipe.timeouts,
            namespace: &recipe.namespace,
            mcm_settings: recipe.mcm_settings,
            kubeconfigs: &kubeconfigs,
            driver: &format!("127.0.0.1:{cloud_port}"),
            registration: false,
            folder: &recipe.folder,
        };
        let started = recipe
            .controller
            .clone()
            .recipe(&places)
            .ok_or(StageError::NoProcess(Process::Mcm))?;
        let mut program = started.program;
        if started.ours {
            program.command.push(format!("--port={}", free_port()?).into());
        }
        program.name.clone_from(&self.name);
        program.log = recipe.folder.join(format!("{}.log", self.name));
        let name = ("HOSTNAME".to_owned(), self.name.clone().into());
        program.environment.push(name);
        let clusters = &self.recipe.clusters;
        let api = proxy::serve(api, self.gate.api().layer(proxy::api(clusters.control().clone())));
        let target = proxy::serve(target, self.gate.api().layer(proxy::api(clusters.target().clone())));
        let cloud = proxy::serve(cloud, self.gate.cloud().layer(proxy::cloud(self.channel.clone())));
        let mut running = program.start()?;
        *self.child.lock() = Some(running.group());
        tokio::select! {
            biased;
            ended = running.ended() => Ok(ended),
            never = api => match never {},
            never = target => match never {},
            never = cloud => match never {},
        }
    }

    /// Writes a kubeconfig for the API server behind the gate.
    fn kubeconfig(&self, suffix: &str, port: u16) -> Result<PathBuf, FileError> {
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "gate", "cluster": { "server": format!("http://127.0.0.1:{port}") } }],
            "users": [{ "name": "gate", "user": {} }],
            "contexts": [{
                "name": "gate",
                "context": { "cluster": "gate", "user": "gate", "namespace": self.recipe.namespace },
            }],
            "current-context": "gate",
        });
        private_file(
            &self.recipe.folder.join(format!("{}.{suffix}.kubeconfig", self.name)),
            &text.to_string(),
        )
    }
}

/// Stops and continues the child together with its gate.
async fn follow_pauses(gate: Gate, child: Arc<Mutex<Option<Group>>>) -> String {
    loop {
        for stopped in [true, false] {
            if stopped {
                gate.paused().await;
            } else {
                gate.resumed().await;
            }
            if let Some(child) = *child.lock() {
                child.set_stopped(stopped);
            }
        }
    }
}
