//! Control planes: what a stage of processes stands on. One is ours, one is a real etcd and kube-apiserver, one is
//! there already.
//!
//! What lives here: what a stage asks of any of them, and kubeconfigs for service accounts. What must not: fakecloud,
//! mcm, scenarios.

pub mod embedded;
pub mod envtest;
pub mod existing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use scenario::{StageKind, Timeouts};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::audit::Audit;
use super::clusters::Clusters;
use super::role::Role;

/// For how long the tokens of service accounts are good. No run lasts longer; a world of `drydock up` does not
/// outlive them: after a day its programs are refused (401).
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// A control plane with the machine CRDs served and a namespace for machines. Dropping it ends what it started.
#[derive(Debug)]
pub enum Plane {
    /// Ours, in this process.
    Embedded(Box<embedded::ControlPlane>),
    /// A real etcd and kube-apiserver, as children of this process.
    Envtest(Box<envtest::ControlPlane>),
    /// A namespace in a cluster that is there.
    Existing(Box<existing::Place>),
}

/// The control planes of a world. Dropping them ends what they started.
#[derive(Debug)]
pub struct Planes {
    /// The one that holds machines; also the one that nodes join, unless that is another.
    pub control: Plane,
    target: Option<Plane>,
}

impl Planes {
    /// One that is both.
    pub fn one(plane: Plane) -> Self {
        Self {
            control: plane,
            target: None,
        }
    }

    /// One for machines, one for nodes.
    pub fn two(control: Plane, target: Plane) -> Self {
        Self {
            control,
            target: Some(target),
        }
    }

    /// The one that nodes join.
    pub fn target(&self) -> &Plane {
        self.target.as_ref().unwrap_or(&self.control)
    }

    /// Whether they are two.
    pub fn are_two(&self) -> bool {
        self.target.is_some()
    }

    /// The administrator's clients.
    pub fn clusters(&self) -> Clusters {
        Clusters::new(self.control.client(), self.target.as_ref().map(Plane::client))
    }

    /// What the servers saw of mcm and fakecloud, where they are ours.
    pub fn audits(&self) -> Vec<Audit> {
        let planes = std::iter::once(&self.control).chain(&self.target);
        planes.filter_map(Plane::audit).collect()
    }

    /// Returns, with a sentence, when a part of them ends that nobody ended.
    pub async fn trouble(&mut self) -> String {
        match &mut self.target {
            None => self.control.trouble().await,
            Some(target) => tokio::select! {
                biased;
                reason = self.control.trouble() => format!("control cluster: {reason}"),
                reason = target.trouble() => format!("target cluster: {reason}"),
            },
        }
    }

    /// Ends them; the logs of the processes in the control plane's folder, and those of both, by file name.
    pub async fn shutdown(self, own: &[String]) -> BTreeMap<String, Vec<u8>> {
        let names: Vec<String> = self.control.logs().iter().map(|name| (*name).to_owned()).collect();
        let folder = self.control.shutdown().await;
        let mut logs = BTreeMap::new();
        for name in own.iter().chain(&names) {
            logs.extend(read(folder.path(), name, ""));
        }
        if let Some(target) = self.target {
            let names = target.logs();
            let folder = target.shutdown().await;
            for name in names {
                logs.extend(read(folder.path(), name, "target-"));
            }
        }
        logs
    }
}

/// A file of a folder, under its name behind a word; `None`: it is not there.
fn read(folder: &Path, name: &str, word: &str) -> Option<(String, Vec<u8>)> {
    let text = std::fs::read(folder.join(name)).ok()?;
    Some((format!("{word}{name}"), text))
}

impl Plane {
    /// Starts one for a run, on a stage where each run has its own. Servers of earlier runs that are in `spares` are used
    /// again, with what they stored at their start.
    ///
    /// # Errors
    /// One sentence: what could not be started.
    pub async fn start(
        stage: StageKind,
        role: Role,
        namespace: &str,
        seed: u64,
        timeouts: &Timeouts,
        spares: &Arc<envtest::Spares>,
    ) -> Result<Self, String> {
        if stage == StageKind::Envtest {
            let plane = envtest::ControlPlane::start(timeouts, namespace, role, spares).await?;
            return Ok(Self::Envtest(Box::new(plane)));
        }
        let plane = embedded::ControlPlane::start(0, seed, timeouts, namespace, role).await?;
        Ok(Self::Embedded(Box::new(plane)))
    }

    /// The administrator's client.
    pub fn client(&self) -> kube::Client {
        match self {
            Self::Embedded(plane) => plane.client(),
            Self::Envtest(plane) => plane.client(),
            Self::Existing(place) => place.client(),
        }
    }

    /// The administrator's kubeconfig; its current context has the namespace of machines.
    pub fn kubeconfig(&self) -> &Path {
        match self {
            Self::Embedded(plane) => plane.kubeconfig(),
            Self::Envtest(plane) => plane.kubeconfig(),
            Self::Existing(place) => place.kubeconfig(),
        }
    }

    /// The namespace of machines.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Embedded(plane) => plane.namespace(),
            Self::Envtest(plane) => plane.namespace(),
            Self::Existing(place) => place.namespace(),
        }
    }

    /// Where files go that end with the control plane.
    pub fn folder(&self) -> &Path {
        match self {
            Self::Embedded(plane) => plane.folder(),
            Self::Envtest(plane) => plane.folder(),
            Self::Existing(place) => place.folder(),
        }
    }

    /// Writes `ACCOUNT.kubeconfig` for a service account of the machines' namespace.
    ///
    /// # Errors
    /// One sentence: why there is no token, or why the file cannot be written.
    pub async fn kubeconfig_of(&self, account: &str) -> Result<PathBuf, String> {
        let token = token(&self.client(), self.namespace(), account).await?;
        let text = with_token(self.kubeconfig(), account, &token)?;
        private_file(&self.folder().join(format!("{account}.kubeconfig")), &text)
    }

    /// Logs of its own, by file name.
    pub fn logs(&self) -> &'static [&'static str] {
        match self {
            Self::Envtest(_) => &envtest::LOGS,
            Self::Embedded(_) | Self::Existing(_) => &[],
        }
    }

    /// The server's fault rules, where it is ours.
    pub fn api_faults(&self) -> Option<apiserver::faults::Faults> {
        match self {
            Self::Embedded(plane) => Some(plane.api_faults()),
            Self::Envtest(_) | Self::Existing(_) => None,
        }
    }

    /// What the server saw of mcm and fakecloud, where it is ours.
    pub fn audit(&self) -> Option<Audit> {
        match self {
            Self::Embedded(plane) => Some(plane.audit()),
            Self::Envtest(_) | Self::Existing(_) => None,
        }
    }

    /// Returns, with a sentence, when a part of it ends that nobody ended.
    pub async fn trouble(&mut self) -> String {
        match self {
            Self::Embedded(plane) => plane.trouble().await,
            Self::Envtest(plane) => plane.trouble().await,
            Self::Existing(_) => std::future::pending().await,
        }
    }

    /// Ends what it started, and hands its files over. What was made in a cluster that was there is removed by its
    /// session.
    pub async fn shutdown(self) -> TempDir {
        match self {
            Self::Embedded(plane) => plane.shutdown().await,
            Self::Envtest(plane) => plane.shutdown().await,
            Self::Existing(place) => place.into_folder(),
        }
    }
}

/// A client as a kubeconfig says.
///
/// # Errors
/// One sentence: why it cannot be made.
pub async fn client_of(kubeconfig: &Path) -> Result<kube::Client, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("no client by {}: {error}", kubeconfig.display());
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| cannot(&error))?;
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| cannot(&error))?;
    config.default_retry = false;
    kube::Client::try_from(config).map_err(|error| cannot(&error))
}

/// A token of a service account (TokenRequest).
async fn token(client: &kube::Client, namespace: &str, account: &str) -> Result<String, String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let cannot = |reason: String| format!("no token for the service account {namespace}/{account}: {reason}");
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await;
    let status = answer.map_err(|error| cannot(error.to_string()))?.status;
    status
        .and_then(|status| status.token)
        .ok_or_else(|| cannot("the answer has none".to_owned()))
}

/// The current context's cluster in `kubeconfig`, for another user. The namespace stays.
fn with_token(kubeconfig: &Path, user: &str, token: &str) -> Result<String, String> {
    let cannot = |reason: String| format!("cannot make a kubeconfig from {}: {reason}", kubeconfig.display());
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| cannot(error.to_string()))?;
    let mut value = current_context(&read).map_err(cannot)?;
    value["users"][0]["user"] = json!({ "token": token });
    value["users"][0]["name"] = user.into();
    value["contexts"][0]["context"]["user"] = user.into();
    serde_saphyr::to_string(&value).map_err(|error| cannot(error.to_string()))
}

/// A kubeconfig with nothing but its current context.
fn current_context(kubeconfig: &Kubeconfig) -> Result<Value, String> {
    let name = kubeconfig.current_context.as_deref().unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|context| context.name == name);
    let context = context.and_then(|context| context.context.clone());
    let context = context.ok_or_else(|| format!("it has no context {name:?}"))?;
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|cluster| cluster.name == context.cluster);
    let cluster = cluster.ok_or_else(|| format!("it has no cluster {:?}", context.cluster))?;
    let wanted = context.user.clone().unwrap_or_default();
    let user = kubeconfig.auth_infos.iter().find(|user| user.name == wanted);
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [user.cloned().unwrap_or_default()],
        "contexts": [{ "name": name, "context": context }],
        "current-context": name,
    }))
}

/// Writes a kubeconfig whose one context has that namespace.
fn write_kubeconfig(path: &Path, mut value: Value, namespace: &str) -> Result<PathBuf, String> {
    value["contexts"][0]["context"]["namespace"] = namespace.into();
    let text = serde_saphyr::to_string(&value).map_err(|error| format!("a kubeconfig has no YAML form: {error}"))?;
    private_file(path, &text)
}

/// A folder for files that end with a stage.
///
/// # Errors
/// One sentence.
pub fn folder() -> Result<TempDir, String> {
    tempfile::Builder::new()
        .prefix("drydock-")
        .tempdir()
        .map_err(|error| format!("cannot make a temporary folder: {error}; set TMPDIR"))
}

/// Writes a file that only this user can read.
///
/// # Errors
/// One sentence that names the file.
pub fn private_file(path: &Path, text: &str) -> Result<PathBuf, String> {
    let written = apiserver::serve::write_private(path, text);
    written
        .map(|()| path.to_owned())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
