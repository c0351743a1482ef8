//! Control planes: what a stage of processes stands on. One is ours, one is a real etcd and kube-apiserver, one is
//! there already.
//!
//! What lives here: what a stage asks of any of them, and kubeconfigs for service accounts. What must not: fakecloud,
//! mcm, scenarios.

pub mod embedded;
pub mod envtest;
pub mod existing;
mod files;
mod kubeconfig;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::serve::ServeError;
use clock::NoEntropy;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use scenario::{StageKind, Timeouts};
use tempfile::TempDir;

use self::envtest::{EtcdError, MissingPrograms};
pub use self::files::{FileError, private_file};
use self::kubeconfig::with_token;
pub use self::kubeconfig::{KubeconfigError, KubeconfigProblem, client_of};
use super::audit::Audit;
use super::child::ChildError;
use super::clusters::Clusters;
use super::ports::PortError;
use super::role::Role;
use super::setup::SetupError;

/// For how long the tokens of service accounts are good. No run lasts longer; a world of `drydock up` does not
/// outlive them: after a day its programs are refused (401).
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// Why there is no control plane, or no account of it.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// etcd and kube-apiserver are not found.
    #[error(transparent)]
    Programs(#[from] MissingPrograms),
    /// One of them does not start, or ends before it is ready.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// There is no free port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// They run, but are not ready in time.
    #[error("kube-apiserver is not ready after {limit:?}")]
    NotReady {
        /// How long it may take.
        limit: Duration,
    },
    /// What etcd stores cannot be read or restored.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The API server does not show that what it stored is restored.
    #[error(transparent)]
    Restored(kube::Error),
    /// Certificates of kube-apiserver are not made.
    #[error("cannot make certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    /// The operating system gives no randomness.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// A log is not visible in the folder of a run.
    #[error("cannot link {log}: {source}")]
    Link {
        /// The file name of the log.
        log: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The embedded API server is not made.
    #[error(transparent)]
    Server(#[from] apiserver::Error),
    /// The embedded API server does not listen.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The kubeconfig of the embedded API server cannot be parsed.
    #[error("the API server's kubeconfig is not valid: {0}")]
    Syntax(Box<serde_saphyr::Error>),
    /// The kubeconfig of the embedded API server is not complete.
    #[error(transparent)]
    Context(#[from] KubeconfigProblem),
    /// A kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// A file is not written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Definitions, accounts and roles are not installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The API server gives no token.
    #[error("no token for the service account {namespace}/{account}: {source}")]
    Token {
        /// The namespace of the account.
        namespace: String,
        /// The account.
        account: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The API server answers without a token.
    #[error("no token for the service account {namespace}/{account}: the answer has none")]
    EmptyToken {
        /// The namespace of the account.
        namespace: String,
        /// The account.
        account: String,
    },
}

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
    /// What could not be started.
    pub async fn start(
        stage: StageKind,
        role: Role,
        namespace: &str,
        seed: u64,
        timeouts: &Timeouts,
        spares: &Arc<envtest::Spares>,
    ) -> Result<Self, PlaneError> {
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
    /// When there is no token, or the file cannot be written.
    pub async fn kubeconfig_of(&self, account: &str) -> Result<PathBuf, PlaneError> {
        let token = token(&self.client(), self.namespace(), account).await?;
        let text = with_token(self.kubeconfig(), account, &token)?;
        Ok(private_file(
            &self.folder().join(format!("{account}.kubeconfig")),
            &text,
        )?)
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

/// A token of a service account (TokenRequest).
async fn token(client: &kube::Client, namespace: &str, account: &str) -> Result<String, PlaneError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await;
    let (namespace, account) = (namespace.to_owned(), account.to_owned());
    match answer {
        Ok(answer) => {
            let token = answer.status.and_then(|status| status.token);
            token.ok_or(PlaneError::EmptyToken { namespace, account })
        }
        Err(source) => Err(PlaneError::Token {
            namespace,
            account,
            source: Box::new(source),
        }),
    }
}
