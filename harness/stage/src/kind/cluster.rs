//! A kind cluster for one session: created or found, with images loaded and the machine API installed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::Seed;
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use runtime::kube_config;

use super::docker::{Engine, EngineError};
use super::error::ClusterError;
use super::images::{ImageNames, Images};
use super::lock::Lock;
use super::progress::{Progress, step};
use super::removal::Removal;
use super::tools::{Call, CallError, Orphans, Tools, arguments};
use super::{KindError, cleanup, system};
use crate::run_folder::RunFolder;
use crate::setup;

/// The folder of fakecloud's ledgers on the nodes.
const FOLDER_ON_NODES: &str = "/var/local/drydock";
/// How long the creation of a cluster may take, including the download of a node image.
const CREATE_LIMIT: Duration = Duration::from_mins(5);
/// How long its node may take to become Ready after that.
const READY_LIMIT: &str = "120s";
/// How long the copy of two images to the nodes may take.
const LOAD_LIMIT: Duration = Duration::from_mins(2);
/// How long kind may take to return the kubeconfig of an existing cluster.
const ASK_LIMIT: Duration = Duration::from_secs(20);
/// How long the API server may take to answer.
const REACH_LIMIT: Duration = Duration::from_secs(10);

/// The node image that `scripts/kubernetes/node-image` builds. It is used if the engine has it.
const OWN_NODE_IMAGE: &str = "drydock/node:v1.36.3";
/// The prefix of generated cluster names.
const PREFIX: &str = "drydock-";

const CONFIGURATION: &str = include_str!("../../../../deploy/kind/cluster.yaml");

/// Options of a kind cluster.
#[derive(Clone, Debug, Default)]
pub struct KindOptions {
    /// The name of a cluster that is used or, if it does not exist, created, and kept in both cases. `None` creates a
    /// new cluster that is deleted at the end.
    pub cluster: Option<String>,
    /// Whether to keep a new cluster.
    pub keep: bool,
    /// The image of its nodes. `None` selects the locally built image, else the default of kind.
    pub node_image: Option<String>,
    /// kind's configuration file. `None` selects the file of `deploy/`.
    pub config: Option<PathBuf>,
    /// Prebuilt images of mcm and fakecloud.
    pub images: ImageNames,
    /// Whether to start the cluster without images and without the machine API.
    pub bare: bool,
    /// The folder in which a failed start leaves its logs.
    pub reports: PathBuf,
}

/// A running cluster. Dropping it deletes the cluster unless it is to be kept.
pub struct Cluster {
    pub(super) name: String,
    pub(super) engine: Engine,
    pub(super) client: kube::Client,
    /// `None` in a bare cluster.
    images: Option<Images>,
    pub(super) progress: Progress,
    pub(super) seed: Seed,
    /// The namespaces that this session created, and whether they are cleaned up.
    pub(super) namespaces: Mutex<BTreeMap<String, bool>>,
    kept: bool,
    removal: Removal,
    kubeconfig: PathBuf,
    // Last, because it has the files of other fields.
    folder: RunFolder,
    _lock: Option<Lock>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.name)
            .field("images", &self.images)
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Creates or finds the cluster and prepares it for scenarios. Dropping the future deletes a cluster that it
    /// creates.
    ///
    /// # Errors
    /// The first missing program or failed operation.
    pub async fn start(options: &KindOptions, progress: Progress) -> Result<Self, KindError> {
        let (tools, engine) = tools_and_engine().await?;
        let seed = Seed::from_entropy()?;
        let name = match &options.cluster {
            Some(name) => checked(name)?,
            None => format!("{PREFIX}{}", random_suffix(&seed, "cluster")),
        };
        let lock = options.cluster.as_deref().map(Lock::take).transpose()?;
        let exists = !engine.nodes(Some(&name)).await?.is_empty();
        let folder = RunFolder::with_prefix("drydock-kind-").map_err(ClusterError::Folder)?;
        let plan = Plan {
            tools,
            engine,
            name,
            exists,
            kubeconfig: folder.path().join("kubeconfig"),
            orphans: Orphans::default(),
        };
        let mut removal = Removal::of(&plan.tools, &plan.name, &plan.kubeconfig, &plan.orphans);
        if exists {
            removal.keep_cluster();
        } else if options.cluster.is_none() {
            folder.record_cluster(&plan.name).map_err(ClusterError::Folder)?;
        }
        let brought_up = Box::pin(plan.bring_up(options, folder.path(), &progress)).await;
        let (images, client) = brought_up.map_err(|error| keep_logs(error, folder.path(), options, &plan.name))?;
        let kept = options.keep || options.cluster.is_some();
        if kept {
            removal.keep_cluster();
            folder.keep_cluster().map_err(ClusterError::Folder)?;
        }
        Ok(Self {
            name: plan.name,
            engine: plan.engine,
            client,
            images,
            progress,
            seed,
            namespaces: Mutex::default(),
            kept,
            removal,
            kubeconfig: plan.kubeconfig,
            folder,
            _lock: lock,
        })
    }

    /// The administrator's kubeconfig, which is removed at the end of the session.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The folder of the session's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The images of mcm and fakecloud.
    ///
    /// # Errors
    /// When the cluster is bare.
    pub(super) fn images(&self) -> Result<&Images, ClusterError> {
        self.images.as_ref().ok_or_else(|| ClusterError::NoImages {
            name: self.name.clone(),
        })
    }

    /// The name of the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ends the session: deletes the cluster or, in a kept cluster, everything that this session created.
    ///
    /// # Errors
    /// What could not be deleted, and the command that deletes it.
    pub async fn end(mut self) -> Result<(), KindError> {
        if !self.kept {
            let (progress, mut removal) = (self.progress.clone(), self.removal);
            let what = format!("cluster {} deleted", self.name);
            let removed = tokio::task::spawn_blocking(move || removal.remove());
            return step(&progress, &what, async move {
                removed.await.map_err(ClusterError::Deletion)??;
                Ok(())
            })
            .await;
        }
        self.tidy_up().await?;
        let namespaces = std::mem::take(self.namespaces.get_mut());
        for namespace in namespaces.keys() {
            cleanup::namespace_gone(&self.client, namespace).await?;
        }
        (self.progress)(&format!(
            "cluster {0} is kept; use it with: kind export kubeconfig --name {0}; \
             delete it with: kind delete cluster --name {0}",
            self.name
        ));
        Ok(())
    }

    /// Cleans up the remaining namespaces of this session, which belong to aborted runs.
    ///
    /// # Errors
    /// What could not be removed, and why.
    pub(super) async fn tidy_up(&self) -> Result<(), KindError> {
        let namespaces = self.namespaces.lock().clone();
        for (namespace, _) in namespaces.iter().filter(|(_, tidied)| !**tidied) {
            self.tidy(namespace).await?;
        }
        Ok(())
    }

    /// Removes everything of a run, and starts the deletion of its namespace.
    ///
    /// # Errors
    /// What could not be removed, and why.
    pub(super) async fn tidy(&self, namespace: &str) -> Result<(), KindError> {
        Box::pin(cleanup::tidy(&self.client, namespace)).await?;
        self.note(namespace, true);
        Ok(())
    }

    /// Records a namespace of this session, and whether it is cleaned up.
    pub(super) fn note(&self, namespace: &str, tidied: bool) {
        let mut namespaces = self.namespaces.lock();
        namespaces.insert(namespace.to_owned(), tidied);
    }

    /// Creates a folder on each of the cluster's nodes, at the same path, that every pod may write into.
    ///
    /// # Errors
    /// The error of the engine.
    pub(super) async fn folder_on_nodes(&self, run: &str) -> Result<String, EngineError> {
        let folder = format!("{FOLDER_ON_NODES}/{run}");
        for (_, node) in self.engine.nodes(Some(&self.name)).await? {
            self.engine
                .execute(&node, &["mkdir", "-p", "-m", "0777", &folder])
                .await?;
        }
        Ok(folder)
    }

    /// Creates a folder for files of one run.
    pub(super) fn files(&self, run: &str) -> Result<PathBuf, ClusterError> {
        let path = self.folder.path().join(run);
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(path),
            Err(source) => Err(ClusterError::Create { path, source }),
        }
    }
}

/// The names of clusters with generated names, which killed sessions may have left.
///
/// # Errors
/// When the Docker engine does not list them.
pub async fn leftovers() -> Result<Vec<String>, EngineError> {
    let nodes = Engine::connect().await?.nodes(None).await?;
    let names: BTreeSet<String> = nodes.into_iter().map(|(cluster, _)| cluster).collect();
    Ok(names.into_iter().filter(|name| is_ours(name)).collect())
}

/// Deletes the cluster that a killed session created, which has its files in `folder`. Blocks.
///
/// # Errors
/// When the cluster is not deleted, with the command that deletes it.
pub(crate) fn delete_left(cluster: &str, folder: &Path) -> Result<(), KindError> {
    let tools = Tools::find()?;
    let mut removal = Removal::of(&tools, cluster, &folder.join("kubeconfig"), &Orphans::default());
    Ok(removal.remove()?)
}

/// The error if this machine lacks a program or the Docker engine.
pub async fn unavailable() -> Option<KindError> {
    tools_and_engine().await.err()
}

async fn tools_and_engine() -> Result<(Tools, Engine), KindError> {
    match (Tools::find(), Engine::connect().await) {
        (Ok(tools), Ok(engine)) => Ok((tools, engine)),
        (Err(tools), Err(engine)) => Err(KindError::ToolsAndEngine {
            tools,
            engine: Box::new(engine),
        }),
        (Err(tools), Ok(_)) => Err(tools.into()),
        (Ok(_), Err(engine)) => Err(engine.into()),
    }
}

/// Whether a cluster has a generated name.
fn is_ours(name: &str) -> bool {
    let suffix = name.strip_prefix(PREFIX).unwrap_or_default();
    suffix.len() == 8 && suffix.chars().all(|letter| letter.is_ascii_hexdigit())
}

/// Eight random hexadecimal digits.
pub(super) fn random_suffix(seed: &Seed, stream: &str) -> String {
    let uuid = seed.stream(stream).uuid();
    uuid.chars().take(8).collect()
}

/// Checks that kind accepts the name.
fn checked(name: &str) -> Result<String, ClusterError> {
    let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if !name.is_empty() && name.len() <= 40 && name.chars().all(letters) && !name.starts_with('-') {
        return Ok(name.to_owned());
    }
    Err(ClusterError::Name { name: name.to_owned() })
}

/// Copies the logs of a failed start to the reports folder.
fn keep_logs(error: KindError, folder: &Path, options: &KindOptions, name: &str) -> KindError {
    let report = options.reports.join(format!("kind-{name}"));
    let mut kept = false;
    for log in ["create.log", "load.log"] {
        let from = folder.join(log);
        kept |= from.is_file()
            && std::fs::create_dir_all(&report).is_ok()
            && std::fs::copy(&from, report.join(log)).is_ok();
    }
    if !kept {
        return error;
    }
    KindError::Logged {
        source: Box::new(error),
        logs: report,
    }
}

/// The inputs of a start.
struct Plan {
    tools: Tools,
    engine: Engine,
    name: String,
    exists: bool,
    kubeconfig: PathBuf,
    /// The processes that an aborted creation leaves running.
    orphans: Orphans,
}

impl Plan {
    async fn bring_up(
        &self,
        options: &KindOptions,
        folder: &Path,
        progress: &Progress,
    ) -> Result<(Option<Images>, kube::Client), KindError> {
        options.images.check(&self.engine).await?;
        let cluster = async {
            if self.exists {
                step(progress, &format!("cluster {} found", self.name), self.find(folder)).await
            } else {
                progress(&format!(
                    "creating the cluster {}, for {CREATE_LIMIT:?} at most",
                    self.name
                ));
                step(
                    progress,
                    &format!("cluster {} created", self.name),
                    self.create(options, folder),
                )
                .await
            }
        };
        if options.bare {
            cluster.await?;
            let client = self.reached(progress).await?;
            system::keep_off_simulated_nodes(&client).await?;
            return Ok((None, client));
        }
        let images = async {
            let built = step(progress, "images built", Images::build(&options.images, &self.engine)).await;
            built.map_err(KindError::from)
        };
        let ((), images) = tokio::try_join!(cluster, images)?;
        step(progress, "images loaded", self.load(&images, folder)).await?;
        let client = self.reached(progress).await?;
        step(progress, "machine API installed", async {
            setup::install_definitions(&client).await?;
            system::keep_off_simulated_nodes(&client).await?;
            Ok::<(), KindError>(())
        })
        .await?;
        if self.exists {
            step(
                progress,
                "remains of other sessions removed",
                Box::pin(cleanup::leftovers(&client)),
            )
            .await?;
        }
        Ok((Some(images), client))
    }

    /// Connects to the API server, and reports its version as progress.
    async fn reached(&self, progress: &Progress) -> Result<kube::Client, ClusterError> {
        let (client, version) = self.client().await?;
        progress(&format!("cluster {} is Kubernetes {version}", self.name));
        Ok(client)
    }

    async fn create(&self, options: &KindOptions, folder: &Path) -> Result<(), KindError> {
        let config = folder.join("cluster.yaml");
        match &options.config {
            Some(path) => std::fs::copy(path, &config)
                .map(drop)
                .map_err(|source| ClusterError::Configuration {
                    path: path.clone(),
                    source,
                })?,
            None => std::fs::write(&config, CONFIGURATION).map_err(|source| ClusterError::Write {
                path: config.clone(),
                source,
            })?,
        }
        let mut command = self.kind(["create", "cluster", "--wait", READY_LIMIT]);
        command.extend(arguments([OsStr::new("--config"), config.as_os_str()]));
        command.extend(arguments([OsStr::new("--kubeconfig"), self.kubeconfig.as_os_str()]));
        let image = match &options.node_image {
            Some(image) => Some(image.as_str()),
            None if self.engine.has_image(OWN_NODE_IMAGE).await => Some(OWN_NODE_IMAGE),
            None => None,
        };
        if let Some(image) = image {
            command.extend(["--image", image].map(OsString::from));
        }
        let mut call = self.call(
            "the cluster cannot be created",
            command,
            folder,
            "create.log",
            CREATE_LIMIT,
        );
        call.orphans = Some(self.orphans.clone());
        call.run().await?;
        Ok(())
    }

    async fn find(&self, folder: &Path) -> Result<(), KindError> {
        let command = self.kind(["get", "kubeconfig"]);
        let text = self
            .call(
                "kind does not give the cluster's kubeconfig",
                command,
                folder,
                "find.log",
                ASK_LIMIT,
            )
            .run()
            .await?;
        crate::plane::private_file(&self.kubeconfig, &text)?;
        Ok(())
    }

    async fn load(&self, images: &Images, folder: &Path) -> Result<(), CallError> {
        let mut command = self.kind(["load", "docker-image"]);
        command.extend([&images.mcm, &images.fakecloud].map(OsString::from));
        self.call("the images cannot be loaded", command, folder, "load.log", LOAD_LIMIT)
            .run()
            .await
            .map(drop)
    }

    fn kind<const N: usize>(&self, arguments: [&str; N]) -> Vec<OsString> {
        let mut command = vec![self.tools.kind.clone().into_os_string()];
        command.extend(arguments.map(OsString::from));
        command.extend(["--name", &self.name].map(OsString::from));
        command
    }

    fn call<'a>(
        &self,
        failing: &'a str,
        command: Vec<OsString>,
        folder: &Path,
        log: &str,
        limit: Duration,
    ) -> Call<'a> {
        Call {
            failing,
            command,
            // Temporary files of a killed kind are removed together with the folder.
            environment: vec![
                ("PATH", Some(self.tools.path.clone())),
                ("TMPDIR", Some(folder.as_os_str().to_owned())),
            ],
            log: folder.join(log),
            limit,
            orphans: None,
        }
    }

    /// A client, and the version of the API server.
    async fn client(&self) -> Result<(kube::Client, String), ClusterError> {
        let name = || self.name.clone();
        let unusable = |source| ClusterError::Kubeconfig { name: name(), source };
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).map_err(|error| unusable(error.into()))?;
        let config = kube_config::of(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(unusable)?;
        config.default_retry = false;
        let client = kube::Client::try_from(config);
        let client = client.map_err(|source| ClusterError::Client {
            name: name(),
            source: Box::new(source),
        })?;
        match tokio::time::timeout(REACH_LIMIT, client.apiserver_version()).await {
            Ok(Ok(version)) => Ok((client, version.git_version)),
            Ok(Err(source)) => Err(ClusterError::Version {
                name: name(),
                source: Box::new(source),
            }),
            Err(_) => Err(ClusterError::NoAnswer {
                name: name(),
                limit: REACH_LIMIT,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clusters_with_generated_names_are_ours() {
        assert!(is_ours("drydock-0a1b2c3d"));
        assert!(!is_ours("drydock-mine"));
        assert!(!is_ours("kind"));
    }

    #[test]
    fn the_error_for_an_invalid_name_states_the_allowed_characters() {
        assert!(checked("mine-1").is_ok());
        for name in ["", "Mine", "-a", &"a".repeat(41)] {
            assert!(checked(name).unwrap_err().to_string().contains("lower-case"), "{name}");
        }
    }
}
