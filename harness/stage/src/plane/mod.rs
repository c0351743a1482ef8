//! Control planes for stages with processes: an embedded one, a real etcd and kube-apiserver, and an existing cluster.
//!
//! This module contains the common interface of the control planes, and kubeconfigs for service accounts. It does not
//! depend on fakecloud, mcm or scenarios.

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
use runtime::error::brief;
use scenario::{StageKind, Timeouts};

use self::envtest::{EtcdError, MissingPrograms};
pub use self::files::{FileError, private_file};
use self::kubeconfig::with_token;
pub use self::kubeconfig::{KubeconfigError, KubeconfigProblem, client_of};
use super::audit::Audit;
use super::child::ChildError;
use super::clusters::Clusters;
use super::ports::PortError;
use super::role::Role;
use super::run_folder::RunFolder;
use super::setup::SetupError;

/// The validity of service account tokens, which exceeds the duration of any run. After a day, the API server rejects
/// the programs of a world of `drydock up` (401).
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// Errors of starting a control plane and creating its credentials.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// The programs etcd and kube-apiserver are missing.
    #[error(transparent)]
    Programs(#[from] MissingPrograms),
    /// A program does not start, or ends before it is ready.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// No port is free.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The API server is not ready in time.
    #[error("kube-apiserver is not ready after {limit:?}")]
    NotReady {
        /// How long it may take.
        limit: Duration,
    },
    /// The contents of etcd cannot be read or restored.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The API server cannot list the restored namespaces.
    #[error("{}", brief(.0))]
    Restored(kube::Error),
    /// Certificates for kube-apiserver cannot be created.
    #[error("cannot create certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    /// The operating system provides no random numbers.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// A log cannot be linked into the folder of a run.
    #[error("cannot link {log}: {source}")]
    Link {
        /// The file name of the log.
        log: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The embedded API server cannot be created.
    #[error(transparent)]
    Server(#[from] apiserver::Error),
    /// The embedded API server does not listen.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The kubeconfig of the embedded API server cannot be parsed.
    #[error("the API server's kubeconfig is not valid: {0}")]
    Syntax(Box<serde_saphyr::Error>),
    /// The kubeconfig of the embedded API server is incomplete.
    #[error(transparent)]
    Context(#[from] KubeconfigProblem),
    /// A kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Definitions, accounts and roles cannot be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The API server rejects the request of a token.
    #[error("no token for the service account {namespace}/{account}: {}", brief(source))]
    Token {
        /// The namespace of the account.
        namespace: String,
        /// The account.
        account: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The response of the API server has no token.
    #[error("no token for the service account {namespace}/{account}: the response has none")]
    EmptyToken {
        /// The namespace of the account.
        namespace: String,
        /// The account.
        account: String,
    },
}

/// A control plane that is ready for its role. Dropping it stops everything that it started.
#[derive(Debug)]
pub enum Plane {
    /// An embedded API server in this process.
    Embedded(Box<embedded::ControlPlane>),
    /// A real etcd and kube-apiserver as child processes.
    Envtest(Box<envtest::ControlPlane>),
    /// A namespace in an existing cluster.
    Existing(Box<existing::Place>),
}

/// The control planes of a world. Dropping them stops everything that they started.
#[derive(Debug)]
pub struct Planes {
    /// The control cluster, which is also the target cluster if `target` is `None`.
    pub control: Plane,
    target: Option<Plane>,
}

impl Planes {
    /// One control plane with both roles.
    pub fn one(plane: Plane) -> Self {
        Self {
            control: plane,
            target: None,
        }
    }

    /// One control plane for machines and one for nodes.
    pub fn two(control: Plane, target: Plane) -> Self {
        Self {
            control,
            target: Some(target),
        }
    }

    /// The control plane of the target cluster.
    pub fn target(&self) -> &Plane {
        self.target.as_ref().unwrap_or(&self.control)
    }

    /// Whether control cluster and target cluster differ.
    pub fn are_two(&self) -> bool {
        self.target.is_some()
    }

    /// The administrator's clients.
    pub fn clusters(&self) -> Clusters {
        Clusters::new(self.control.client(), self.target.as_ref().map(Plane::client))
    }

    /// The records of the requests of mcm and fakecloud at embedded servers.
    pub fn audits(&self) -> Vec<Audit> {
        let planes = std::iter::once(&self.control).chain(&self.target);
        planes.filter_map(Plane::audit).collect()
    }

    /// Returns the reason when a part of a control plane ends unexpectedly.
    pub async fn failure(&mut self) -> String {
        match &mut self.target {
            None => self.control.failure().await,
            Some(target) => tokio::select! {
                biased;
                reason = self.control.failure() => format!("control cluster: {reason}"),
                reason = target.failure() => format!("target cluster: {reason}"),
            },
        }
    }

    /// Stops the control planes. Returns by file name the logs `own` in the folder of the control cluster, and the logs
    /// of both control planes.
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

/// Reads a file of a folder. Returns its name with a prefix and its content; `None` if the file does not exist.
fn read(folder: &Path, name: &str, prefix: &str) -> Option<(String, Vec<u8>)> {
    let text = std::fs::read(folder.join(name)).ok()?;
    Some((format!("{prefix}{name}"), text))
}

impl Plane {
    /// Starts a control plane for one run on the stages `embedded` and `envtest`. Reuses servers of earlier runs in
    /// `spares`, with their initial contents.
    ///
    /// # Errors
    /// The first part that does not start.
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
        let options = embedded::Options::new(seed, timeouts, namespace, Some(role));
        let plane = embedded::ControlPlane::start(options).await?;
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

    /// The administrator's kubeconfig, with the namespace of machines in its current context.
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

    /// The folder for files, which is removed with the control plane.
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
    /// When the API server provides no token, or the file cannot be written.
    pub async fn kubeconfig_of(&self, account: &str) -> Result<PathBuf, PlaneError> {
        let token = token(&self.client(), self.namespace(), account).await?;
        let text = with_token(self.kubeconfig(), account, &token)?;
        Ok(private_file(
            &self.folder().join(format!("{account}.kubeconfig")),
            &text,
        )?)
    }

    /// The file names of the control plane's logs.
    pub fn logs(&self) -> &'static [&'static str] {
        match self {
            Self::Envtest(_) => &envtest::LOGS,
            Self::Embedded(_) | Self::Existing(_) => &[],
        }
    }

    /// The fault rules of an embedded server.
    pub fn api_faults(&self) -> Option<apiserver::faults::Faults> {
        match self {
            Self::Embedded(plane) => Some(plane.api_faults()),
            Self::Envtest(_) | Self::Existing(_) => None,
        }
    }

    /// The record of the requests of mcm and fakecloud at an embedded server.
    pub fn audit(&self) -> Option<Audit> {
        match self {
            Self::Embedded(plane) => Some(plane.audit()),
            Self::Envtest(_) | Self::Existing(_) => None,
        }
    }

    /// Returns the reason when a part of the control plane ends unexpectedly.
    pub async fn failure(&mut self) -> String {
        match self {
            Self::Embedded(plane) => plane.failure().await,
            Self::Envtest(plane) => plane.failure().await,
            Self::Existing(_) => std::future::pending().await,
        }
    }

    /// Stops everything that it started, and returns its folder. In an existing cluster, the session removes the
    /// objects.
    pub async fn shutdown(self) -> RunFolder {
        match self {
            Self::Embedded(plane) => plane.shutdown().await,
            Self::Envtest(plane) => plane.shutdown().await,
            Self::Existing(place) => place.into_folder(),
        }
    }
}

/// Requests a token of a service account (TokenRequest).
async fn token(client: &kube::Client, namespace: &str, account: &str) -> Result<String, PlaneError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let response = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await;
    let (namespace, account) = (namespace.to_owned(), account.to_owned());
    match response {
        Ok(response) => {
            let token = response.status.and_then(|status| status.token);
            token.ok_or(PlaneError::EmptyToken { namespace, account })
        }
        Err(source) => Err(PlaneError::Token {
            namespace,
            account,
            source: Box::new(source),
        }),
    }
}
