//! A world: an API server, fakecloud and one of the two controllers, with the machines of a plan.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use clock::Clock;
use fakecloud::proto::cloud_client::CloudClient;
use kube::api::{DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use mcm_driver::channel;
use mcm_driver::client::GrpcDriver;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Channel;

use crate::apply::{apply, definitions};
use crate::plan::Plan;
use crate::process::{Process, free_port, wait_for};
use crate::provider;
use crate::proxy::Proxy;
use crate::side::{self, Files, NAMESPACE, Side};

/// How long a world may take until all its machines are healthy.
const START: Duration = Duration::from_secs(120);

/// The definitions of MCM's kinds and of fakecloud's requests, and those of the infrastructure provider.
const MCM: [&str; 5] = [
    include_str!("../../../deploy/crds/machineclasses.machine.sapcloud.io.yaml"),
    include_str!("../../../deploy/crds/machinedeployments.machine.sapcloud.io.yaml"),
    include_str!("../../../deploy/crds/machinehealthchecks.machine.sapcloud.io.yaml"),
    include_str!("../../../deploy/crds/machines.machine.sapcloud.io.yaml"),
    include_str!("../../../deploy/crds/machinesets.machine.sapcloud.io.yaml"),
];
const REMEDIATION: &str = include_str!("../../../deploy/rbac/fakecloud-remediation.yaml");
const PROVIDER: &str = include_str!("../crds.yaml");

/// The programs and definitions of a comparison.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The folder of `drydock`, `fakecloud` and `mcm`.
    pub drydock: PathBuf,
    /// The core controllers of Cluster API.
    pub capi: PathBuf,
    /// The folder of their definitions.
    pub capi_definitions: PathBuf,
}

/// A running world.
pub struct World {
    /// Its controller.
    pub side: Side,
    /// A client of its API server.
    pub client: Client,
    /// The control API of its cloud.
    pub cloud: CloudClient<Channel>,
    /// The connection of the controllers to the API server of the nodes.
    pub proxy: Proxy,
    processes: Vec<Process>,
    clock: Clock,
    _provider: Option<DropGuard>,
}

impl World {
    /// Starts a world, and waits until its machines are healthy.
    ///
    /// # Errors
    /// If a program ends, or the machines do not become healthy.
    pub async fn start(
        side: Side,
        plan: &Plan,
        programs: &Programs,
        folder: &Path,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let folder = folder.join(side.folder());
        // Of an earlier run: its kubeconfig names an API server that has ended.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let files = Files {
            control: folder.join("control.kubeconfig"),
            target: folder.join("target.kubeconfig"),
            folder,
        };
        let mut processes = vec![start_api_server(programs, &files)?];
        let client = wait_for("the start of the API server", START, &clock, || connect(&files.control)).await?;
        let proxy = start_proxy(&files).await?;
        let cloud = free_port()?;
        processes.push(start_cloud(programs, &files, cloud)?);
        let texts: Vec<String> = match side {
            Side::ClusterApi => std::iter::once(PROVIDER.to_owned())
                .chain(read_folder(&programs.capi_definitions)?)
                .collect(),
            Side::Drydock => MCM.map(str::to_owned).into(),
        };
        for text in texts {
            apply(&client, NAMESPACE, definitions(&text)?, &clock).await?;
        }
        let mut remediation: Vec<Value> = serde_saphyr::from_multiple(REMEDIATION)?;
        remediation.retain(|object| object["kind"] == "CustomResourceDefinition");
        apply(&client, NAMESPACE, remediation, &clock).await?;
        let address = format!("grpc://127.0.0.1:{cloud}");
        let mut operates = None;
        match side {
            Side::Drydock => {
                let arguments = side::mcm_controller(&files, cloud, free_port()?);
                processes.push(Process::start(
                    "mcm",
                    &programs.drydock.join("mcm"),
                    &arguments,
                    &files.folder,
                )?);
            }
            Side::ClusterApi => {
                let target = std::fs::read_to_string(&files.target)?;
                apply(&client, NAMESPACE, vec![side::kubeconfig_secret(&target)], &clock).await?;
                let certificates = files.folder.join("certificates");
                side::certificate(&certificates)?;
                let arguments = side::capi_controller(&files, &certificates, free_port()?);
                processes.push(Process::start(
                    "cluster-api",
                    &programs.capi,
                    &arguments,
                    &files.folder,
                )?);
                let token = CancellationToken::new();
                let driver = GrpcDriver::connect(&address)?;
                tokio::spawn(provider::run(
                    client.clone(),
                    NAMESPACE,
                    driver,
                    clock.clone(),
                    token.clone(),
                ));
                operates = Some(token.drop_guard());
            }
        }
        let mut world = Self {
            side,
            client,
            cloud: CloudClient::new(channel::patient(&address, None)?),
            proxy,
            processes,
            clock,
            _provider: operates,
        };
        world.populate(plan).await?;
        Ok(world)
    }

    /// Creates the objects of the plan, and waits until its check finds all machines healthy.
    async fn populate(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let mut objects = self.side.objects(plan);
        if plan.has_template() {
            objects.push(template());
        }
        apply(&self.client, NAMESPACE, objects, &self.clock).await?;
        apply(&self.client, NAMESPACE, vec![self.side.check_of(plan)], &self.clock).await?;
        let checks = self.side.check().of(&self.client, NAMESPACE);
        let what = format!("{}: the start of {} healthy machines", self.side.name(), plan.machines);
        let healthy = || async {
            let check = checks.get(side::WORKERS).await?;
            let count = check.data.pointer("/status/currentHealthy").and_then(Value::as_u64);
            Ok((count == u64::try_from(plan.machines).ok()).then_some(()))
        };
        let healthy = wait_for(&what, START, &self.clock, healthy).await;
        self.check_processes()?;
        healthy
    }

    /// Checks that all programs run.
    ///
    /// # Errors
    /// If one has ended.
    pub fn check_processes(&mut self) -> anyhow::Result<()> {
        self.processes.iter_mut().try_for_each(Process::check)
    }

    /// All machines.
    ///
    /// # Errors
    /// If the API server does not respond.
    pub async fn machines(&self) -> anyhow::Result<Vec<DynamicObject>> {
        let api = self.side.machine().of(&self.client, NAMESPACE);
        Ok(api.list(&ListParams::default()).await?.items)
    }
}

/// The template of requests. No controller acts on them, so that they stay until the check deletes them.
fn template() -> Value {
    serde_json::json!({
        "apiVersion": "remediation.fakecloud.drydock.dev/v1alpha1", "kind": "FakeCloudRemediationTemplate",
        "metadata": { "name": "repair" }, "spec": { "template": { "spec": { "strategy": "Reboot" } } },
    })
}

fn start_api_server(programs: &Programs, files: &Files) -> anyhow::Result<Process> {
    let arguments = [
        "apiserver".into(),
        "--until-stdin-closes".into(),
        "--kubeconfig".into(),
        files.control.clone().into(),
    ];
    Process::start(
        "apiserver",
        &programs.drydock.join("drydock"),
        &arguments,
        &files.folder,
    )
}

fn start_cloud(programs: &Programs, files: &Files, port: u16) -> anyhow::Result<Process> {
    let arguments = [
        "serve".into(),
        format!("--address=127.0.0.1:{port}").into(),
        "--boot-delay=1s".into(),
        "--seed=1".into(),
        "--kubeconfig".into(),
        files.control.clone().into(),
    ];
    Process::start(
        "fakecloud",
        &programs.drydock.join("fakecloud"),
        &arguments,
        &files.folder,
    )
}

/// A client, once the server has written its kubeconfig.
async fn connect(kubeconfig: &Path) -> anyhow::Result<Option<Client>> {
    if !kubeconfig.exists() {
        return Ok(None);
    }
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Some(Client::try_from(config)?))
}

/// Starts a proxy in front of the API server, and writes a kubeconfig with its address.
async fn start_proxy(files: &Files) -> anyhow::Result<Proxy> {
    let text = std::fs::read_to_string(&files.control)?;
    let address = text.split_once("https://").map(|(_, rest)| rest);
    let address: String = address
        .context("the kubeconfig names no server")?
        .chars()
        .take_while(|c| !c.is_whitespace() && *c != '"')
        .collect();
    let proxy = Proxy::start(address.parse().with_context(|| address.clone())?).await?;
    let target = text.replace(&address, &format!("127.0.0.1:{}", proxy.port));
    ensure!(target != text, "the kubeconfig has no address to replace");
    std::fs::write(&files.target, target)?;
    Ok(proxy)
}

fn read_folder(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().map(|path| Ok(std::fs::read_to_string(path)?)).collect()
}
