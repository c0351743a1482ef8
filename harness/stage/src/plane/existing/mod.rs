//! An existing cluster, in which each run has its own namespace. Sessions remove everything that they create.
//!
//! This module contains the session with its checks, and the place of a run. `tidy` has the cleanup, and `claim` the
//! exclusion of concurrent sessions.

mod claim;
mod tidy;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::{Clock, NoEntropy, Seed};
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use runtime::error::brief;
use runtime::kube_config;
use scenario::job::Job;
use scenario::kinds::{self, UnknownKind};
use serde_json::Value;

use self::claim::Claim;
use self::tidy::Before;
use super::Plane;
use super::files::{FileError, folder};
use super::kubeconfig::{KubeconfigError, KubeconfigProblem, current_context, write_kubeconfig};
use crate::deploy::DeployError;
use crate::kind_api::KindApi;
use crate::objects::ObjectError;
use crate::role::Role;
use crate::run_folder::RunFolder;
use crate::setup::SetupError;
use crate::{LEASE, setup};

/// How long the API server may take to answer at the start.
const REACH_LIMIT: Duration = Duration::from_secs(10);
/// How long the creation of the account `default` in a new namespace may take.
const ACCOUNT_LIMIT: Duration = Duration::from_secs(20);
const ACCOUNT_PROBE: Duration = Duration::from_millis(100);
/// The maximum age of the last renewal of a Lease whose holder counts as running.
const FRESH: SignedDuration = SignedDuration::from_mins(1);
/// How long the controller manager of a cluster takes to detect a dead kubelet, with default settings.
pub const NODE_GRACE: Duration = Duration::from_secs(50);

/// Errors of using and cleaning up an existing cluster.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The kubeconfig cannot be used.
    #[error("--kubeconfig {}: {source}", path.display())]
    Access {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: KubeconfigProblem,
    },
    /// The client cannot be created from the kubeconfig.
    #[error("cannot create a client for {server}: {source}")]
    Client {
        /// The API server.
        server: String,
        /// The cause.
        source: KubeconfigProblem,
    },
    /// The API server returns an error.
    #[error("the API server {server} cannot be used: {}", brief(source))]
    Unusable {
        /// The API server.
        server: String,
        /// The error of the API server.
        source: Box<kube::Error>,
    },
    /// The API server cannot be reached.
    #[error("the API server {server} does not answer within {} s", REACH_LIMIT.as_secs())]
    NoAnswer {
        /// The API server.
        server: String,
    },
    /// The API server stops answering after the first answer.
    #[error("the API server stopped answering for {REACH_LIMIT:?}")]
    Silent,
    /// Objects that the checks of the cluster need cannot be listed.
    #[error("cannot list {what}: {}", brief(source))]
    List {
        /// Which objects.
        what: &'static str,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// Another machine controller runs in the cluster.
    #[error(
        "another machine controller runs in this cluster: the Lease {namespace}/{LEASE} is held; \
         stop it, or use a cluster without one"
    )]
    OtherController {
        /// The namespace of its Lease.
        namespace: String,
    },
    /// The cluster has machines that no session created.
    #[error("this cluster already has machines ({namespace}/{name}): use a cluster without machines")]
    OtherMachines {
        /// The namespace of one of them.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Another session uses the cluster.
    #[error("another session of drydock uses this cluster (Lease {lease}): wait until it ends")]
    Claimed {
        /// The Lease that it holds.
        lease: &'static str,
    },
    /// The cluster cannot be claimed.
    #[error("cannot write the Lease {lease}: {}", brief(source))]
    Claim {
        /// The Lease.
        lease: &'static str,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The claim cannot be released.
    #[error("cannot delete the Lease {lease}: {}", brief(source))]
    GiveBack {
        /// The Lease.
        lease: &'static str,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// A new namespace does not get its default service account in time.
    #[error(
        "the namespace {namespace} has no service account `default` after {ACCOUNT_LIMIT:?}: \
         check that a controller manager runs"
    )]
    NoAccount {
        /// The namespace.
        namespace: String,
    },
    /// The operating system provides no random numbers.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// The kind `Machine` is unknown.
    #[error(transparent)]
    UnknownKind(#[from] UnknownKind),
    /// The kubeconfig of a run cannot be written.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The folder for the files of a run cannot be created.
    #[error(transparent)]
    File(#[from] FileError),
    /// Definitions, accounts and roles cannot be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Objects of a run cannot be removed.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Objects of `deploy/`, definitions or a namespace cannot be removed.
    #[error(transparent)]
    Deploy(#[from] DeployError),
}

/// The cluster to use.
#[derive(Clone, Debug)]
pub struct Access {
    /// The kubeconfig file.
    pub kubeconfig: PathBuf,
    /// The context to use instead of the current one.
    pub context: Option<String>,
}

impl Access {
    /// Reads the kubeconfig, reduced to the selected context.
    fn read(&self) -> Result<Value, SessionError> {
        self.read_context().map_err(|source| SessionError::Access {
            path: self.kubeconfig.clone(),
            source,
        })
    }

    fn read_context(&self) -> Result<Value, KubeconfigProblem> {
        let mut kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        if self.context.is_some() {
            kubeconfig.current_context.clone_from(&self.context);
        }
        current_context(&kubeconfig)
    }

    /// The context and the server, for a confirmation by the user.
    ///
    /// # Errors
    /// [`SessionError::Access`].
    pub fn describe(&self) -> Result<String, SessionError> {
        let value = self.read()?;
        let text = |pointer: &str| {
            value
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Ok(format!(
            "{} ({})",
            text("/current-context"),
            text("/clusters/0/cluster/server")
        ))
    }
}

/// A session with a cluster: consecutive runs, each in a separate namespace.
pub struct Session {
    client: kube::Client,
    role: Role,
    kubeconfig: Value,
    clock: Clock,
    seed: Seed,
    before: Before,
    /// Whether this session has installed the machine CRDs and has to remove them.
    installed: bool,
    /// The namespace of the current run, or of an interrupted one.
    current: Mutex<Option<String>>,
    claim: Claim,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("installed", &self.installed)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Connects to the cluster, and checks that no other controller or session uses it.
    ///
    /// # Errors
    /// When the server does not answer within ten seconds, or another controller or session uses it.
    pub async fn start(access: &Access, role: Role) -> Result<Self, SessionError> {
        let kubeconfig = access.read()?;
        let client = connect(&kubeconfig).await?;
        let clock = Clock::wall();
        let seed = Seed::from_entropy()?;
        // Claim the cluster first: existing objects may belong to another session.
        let claim = within_limit(Claim::take(&client, &clock, &seed)).await?;
        match Self::prepare(&client, role, &clock).await {
            Ok((before, installed)) => Ok(Self {
                client,
                role,
                kubeconfig,
                clock,
                seed,
                before,
                installed,
                current: Mutex::new(None),
                claim,
            }),
            Err(error) => {
                let _ = claim.give_back(&client).await;
                Err(error)
            }
        }
    }

    /// Checks the cluster and, if it holds machines, installs the machine CRDs. Returns the existing objects, and
    /// whether the session has to remove the CRDs. Removes new CRDs on failure.
    async fn prepare(client: &kube::Client, role: Role, clock: &Clock) -> Result<(Before, bool), SessionError> {
        let defined = within_limit(check_cluster(client, clock)).await?;
        let before = Before::read(client).await?;
        if !role.holds_machines() {
            return Ok((before, false));
        }
        let installed = setup::install_definitions(client).await;
        if installed.is_err() && !defined {
            let _ = tidy::definitions(client, clock).await;
        }
        installed?;
        Ok((before, !defined))
    }

    /// Generates the name of the namespace of a run.
    pub fn namespace_for(&self, job: &Job) -> String {
        let stream = format!("namespace of {} {}", job.plan.scenario.name, job.plan.seed);
        let suffix = self.seed.stream(&stream).uuid();
        format!("drydock-{}", suffix.split('-').next().unwrap_or_default())
    }

    /// Returns [`SessionError::Claimed`] when another session takes over the cluster.
    pub async fn taken(&self) -> SessionError {
        self.claim.kept(&self.client, &self.clock).await
    }

    /// Prepares a namespace for a run. [`Session::tidy`] removes it.
    ///
    /// # Errors
    /// The object that cannot be created.
    pub async fn place(&self, namespace: &str) -> Result<Plane, SessionError> {
        *self.current() = Some(namespace.to_owned());
        let place = self.prepare_place(namespace).await?;
        Ok(Plane::Existing(Box::new(place)))
    }

    async fn prepare_place(&self, namespace: &str) -> Result<Place, SessionError> {
        let folder = folder()?;
        let path = folder.path().join("kubeconfig");
        let kubeconfig = write_kubeconfig(&path, self.kubeconfig.clone(), namespace)?;
        self.role.install(&self.client, namespace).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let account = async {
            while !matches!(accounts.get_metadata_opt("default").await, Ok(Some(_))) {
                self.clock.sleep(ACCOUNT_PROBE).await;
            }
        };
        let waited = tokio::time::timeout(ACCOUNT_LIMIT, account).await;
        waited.map_err(|_| SessionError::NoAccount {
            namespace: namespace.to_owned(),
        })?;
        Ok(Place {
            client: self.client.clone(),
            kubeconfig,
            namespace: namespace.to_owned(),
            folder,
        })
    }

    /// Removes everything that the current run created.
    ///
    /// # Errors
    /// What could not be removed, and why.
    pub async fn tidy(&self) -> Result<(), SessionError> {
        let namespace = self.current().clone();
        if let Some(namespace) = namespace {
            Box::pin(tidy::run(
                &self.client,
                &namespace,
                self.role,
                &self.before,
                &self.clock,
            ))
            .await?;
            *self.current() = None;
        }
        Ok(())
    }

    /// Removes everything that the session created.
    ///
    /// # Errors
    /// What could not be removed, and why.
    pub async fn end(self) -> Result<(), SessionError> {
        let tidied = Box::pin(self.tidy()).await;
        let removed = match self.installed {
            true => tidy::definitions(&self.client, &self.clock).await,
            false => Ok(()),
        };
        let given_back = self.claim.give_back(&self.client).await;
        tidied.and(removed.map_err(SessionError::from)).and(given_back)
    }

    /// Describes what the end of the session removes, for the user who waits for it.
    pub fn leaves(&self) -> String {
        let namespace = self.current().clone();
        let mut parts: Vec<String> = namespace
            .map(|name| format!("the namespace {name}"))
            .into_iter()
            .collect();
        if self.installed {
            parts.push("the machine CRDs".to_owned());
        }
        parts.push("nodes, roles and tokens of this session".to_owned());
        parts.join(", ")
    }

    fn current(&self) -> parking_lot::MutexGuard<'_, Option<String>> {
        self.current.lock()
    }
}

/// The place of one run in the cluster: a namespace and a folder.
pub struct Place {
    client: kube::Client,
    kubeconfig: PathBuf,
    namespace: String,
    folder: RunFolder,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("kubeconfig", &self.kubeconfig)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Place {
    /// The administrator's client.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The namespace of machines.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The folder for files, which is removed after the run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder.
    pub fn into_folder(self) -> RunFolder {
        self.folder
    }
}

/// Limits the time of the first requests after the connection to the server.
async fn within_limit<T>(requests: impl Future<Output = Result<T, SessionError>>) -> Result<T, SessionError> {
    tokio::time::timeout(REACH_LIMIT, requests)
        .await
        .unwrap_or(Err(SessionError::Silent))
}

async fn connect(kubeconfig: &Value) -> Result<kube::Client, SessionError> {
    let server = kubeconfig.pointer("/clusters/0/cluster/server").and_then(Value::as_str);
    let server = server.unwrap_or_default().to_owned();
    let client = match client_for(kubeconfig).await {
        Ok(client) => client,
        Err(source) => return Err(SessionError::Client { server, source }),
    };
    match tokio::time::timeout(REACH_LIMIT, client.apiserver_version()).await {
        Ok(Ok(_)) => Ok(client),
        Ok(Err(source)) => Err(SessionError::Unusable {
            server,
            source: Box::new(source),
        }),
        Err(_) => Err(SessionError::NoAnswer { server }),
    }
}

async fn client_for(kubeconfig: &Value) -> Result<kube::Client, KubeconfigProblem> {
    let parsed: Kubeconfig = serde_json::from_value(kubeconfig.clone())?;
    let mut config = kube_config::of(parsed, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.connect_timeout = Some(REACH_LIMIT / 2);
    Ok(kube::Client::try_from(config)?)
}

/// Checks that the cluster has no other machine controller and no machines. Returns whether it has the machine CRDs.
///
/// # Errors
/// When another machine controller runs in the cluster, or the cluster has machines.
async fn check_cluster(client: &kube::Client, clock: &Clock) -> Result<bool, SessionError> {
    let cannot_list = |what| {
        move |error| SessionError::List {
            what,
            source: Box::new(error),
        }
    };
    let leases: Api<Lease> = Api::all(client.clone());
    let selector = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    let now = clock.now();
    for lease in leases.list(&selector).await.map_err(cannot_list("leases"))? {
        let namespace = lease.namespace().unwrap_or_default();
        let spec = lease.spec.unwrap_or_default();
        let has_holder = spec.holder_identity.is_some_and(|holder| !holder.is_empty());
        let is_fresh = spec.renew_time.is_some_and(|time| now.duration_since(time.0) < FRESH);
        if has_holder && is_fresh {
            return Err(SessionError::OtherController { namespace });
        }
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = format!("machines.{}", mcm_api::GROUP);
    let defined = definitions
        .get_metadata_opt(&name)
        .await
        .map_err(cannot_list("CRDs"))?
        .is_some();
    if defined {
        let machines: Api<DynamicObject> = Api::all_with(client.clone(), &kinds::find("Machine")?.resource());
        let listed = machines.list_metadata(&ListParams::default().limit(1)).await;
        if let Some(machine) = listed.map_err(cannot_list("machines"))?.items.first() {
            return Err(SessionError::OtherMachines {
                namespace: machine.namespace().unwrap_or_default(),
                name: machine.name_any(),
            });
        }
    }
    Ok(defined)
}
