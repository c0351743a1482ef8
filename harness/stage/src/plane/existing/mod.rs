//! A cluster that is there: a namespace of its own for each run, and nothing left behind.
//!
//! What lives here: the session with its checks, and the place of a run. What is removed afterwards is in `tidy`, how
//! two sessions keep out of each other's way in `claim`.

mod claim;
mod tidy;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::{Clock, Seed};
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use scenario::job::Job;
use scenario::kinds;
use serde_json::Value;
use tempfile::TempDir;

use self::claim::Claim;
use self::tidy::Before;
use super::{Plane, current_context, folder, write_kubeconfig};
use crate::kind_api::KindApi;
use crate::role::Role;
use crate::{LEASE, setup};

/// How long the API server may take to answer at the start.
const REACH_LIMIT: Duration = Duration::from_secs(10);
/// How long the account `default` of a new namespace may take to be there.
const ACCOUNT_LIMIT: Duration = Duration::from_secs(20);
const ACCOUNT_PROBE: Duration = Duration::from_millis(100);
/// A Lease that was renewed since then is held by a process that lives.
const FRESH: SignedDuration = SignedDuration::from_mins(1);
/// How long the controller manager of a cluster takes to notice a dead kubelet, unless it is set otherwise.
pub const NODE_GRACE: Duration = Duration::from_secs(50);

/// Which cluster.
#[derive(Clone, Debug)]
pub struct Access {
    /// The file.
    pub kubeconfig: PathBuf,
    /// Another context than its current one.
    pub context: Option<String>,
}

impl Access {
    /// The kubeconfig with nothing but the context that is meant.
    fn read(&self) -> Result<Value, String> {
        let cannot = |reason: String| format!("--kubeconfig {}: {reason}", self.kubeconfig.display());
        let mut kubeconfig = Kubeconfig::read_from(&self.kubeconfig).map_err(|error| cannot(error.to_string()))?;
        if self.context.is_some() {
            kubeconfig.current_context.clone_from(&self.context);
        }
        current_context(&kubeconfig).map_err(cannot)
    }

    /// The context and the server, for asking a person.
    ///
    /// # Errors
    /// One line: why the file is not usable.
    pub fn describe(&self) -> Result<String, String> {
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

/// A session with a cluster: runs one after another, each in a namespace of its own.
pub struct Session {
    client: kube::Client,
    role: Role,
    kubeconfig: Value,
    clock: Clock,
    seed: Seed,
    before: Before,
    /// Whether the definitions of the machine API are ours to remove.
    installed: bool,
    /// The namespace of the run that is under way, or was when it was interrupted.
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
    /// Connects, and looks whether nobody else controls machines there.
    ///
    /// # Errors
    /// One line: the server does not answer within ten seconds, or who controls machines there.
    pub async fn start(access: &Access, role: Role) -> Result<Self, String> {
        let kubeconfig = access.read()?;
        let client = connect(&kubeconfig).await?;
        let clock = Clock::wall();
        let seed = Seed::from_entropy().map_err(|error| error.to_string())?;
        // Before anything else: what is there may be another session's.
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
            Err(reason) => {
                let _ = claim.give_back(&client).await;
                Err(reason)
            }
        }
    }

    /// Looks around and installs the definitions where machines will be; what was there before, and whether the
    /// definitions are ours to remove. Leaves nothing when it fails.
    async fn prepare(client: &kube::Client, role: Role, clock: &Clock) -> Result<(Before, bool), String> {
        let defined = within_limit(look_around(client, clock)).await?;
        let before = Before::look(client).await?;
        if !role.holds_machines() {
            return Ok((before, false));
        }
        let installed = setup::install_definitions(client).await;
        if installed.is_err() && !defined {
            let _ = tidy::definitions(client, clock).await;
        }
        installed.map(|()| (before, !defined))
    }

    /// A name for the namespace of a run.
    pub fn namespace_for(&self, job: &Job) -> String {
        let stream = format!("namespace of {} {}", job.plan.scenario.name, job.plan.seed);
        let suffix = self.seed.stream(&stream).uuid();
        format!("drydock-{}", suffix.split('-').next().unwrap_or_default())
    }

    /// Returns, with a sentence, when another session takes the cluster.
    pub async fn taken(&self) -> String {
        self.claim.kept(&self.client, &self.clock).await
    }

    /// Makes a namespace ready for a run; [`Session::tidy`] removes it.
    ///
    /// # Errors
    /// One sentence: what cannot be made.
    pub async fn place(&self, namespace: &str) -> Result<Plane, String> {
        *self.current() = Some(namespace.to_owned());
        let place = self.prepared(namespace).await?;
        Ok(Plane::Existing(Box::new(place)))
    }

    async fn prepared(&self, namespace: &str) -> Result<Place, String> {
        let folder = folder()?;
        let path = folder.path().join("kubeconfig");
        let kubeconfig = write_kubeconfig(&path, self.kubeconfig.clone(), namespace)?;
        self.role.install(&self.client, namespace).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let there = async {
            while !matches!(accounts.get_metadata_opt("default").await, Ok(Some(_))) {
                self.clock.sleep(ACCOUNT_PROBE).await;
            }
        };
        let waited = tokio::time::timeout(ACCOUNT_LIMIT, there).await;
        waited.map_err(|_| {
            format!("the namespace {namespace} has no service account `default` after {ACCOUNT_LIMIT:?}: does a controller manager run?")
        })?;
        Ok(Place {
            client: self.client.clone(),
            kubeconfig,
            namespace: namespace.to_owned(),
            folder,
        })
    }

    /// Removes what the run that is under way made.
    ///
    /// # Errors
    /// One line: what is left, and why.
    pub async fn tidy(&self) -> Result<(), String> {
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

    /// Removes everything that the session made.
    ///
    /// # Errors
    /// One line: what is left, and why.
    pub async fn end(self) -> Result<(), String> {
        let tidied = Box::pin(self.tidy()).await;
        let removed = if self.installed {
            tidy::definitions(&self.client, &self.clock).await
        } else {
            Ok(())
        };
        let given_back = self.claim.give_back(&self.client).await;
        tidied.and(removed).and(given_back)
    }

    /// What is removed at the end, for a person who waits for it.
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

/// The namespace of one run.
pub struct Place {
    client: kube::Client,
    kubeconfig: PathBuf,
    namespace: String,
    folder: TempDir,
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

    /// Where files go that end with the run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its files.
    pub fn into_folder(self) -> TempDir {
        self.folder
    }
}

/// The first requests to a server that answered a moment ago.
async fn within_limit<T>(asking: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::time::timeout(REACH_LIMIT, asking)
        .await
        .unwrap_or_else(|_| Err(format!("the API server stopped to answer for {REACH_LIMIT:?}")))
}

async fn connect(kubeconfig: &Value) -> Result<kube::Client, String> {
    let server = kubeconfig.pointer("/clusters/0/cluster/server").and_then(Value::as_str);
    let cannot = |error: &dyn std::fmt::Display| format!("no client for {}: {error}", server.unwrap_or_default());
    let parsed: Kubeconfig = serde_json::from_value(kubeconfig.clone()).map_err(|error| cannot(&error))?;
    let config = kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| cannot(&error))?;
    config.default_retry = false;
    config.connect_timeout = Some(REACH_LIMIT / 2);
    let client = kube::Client::try_from(config).map_err(|error| cannot(&error))?;
    let server = server.unwrap_or_default();
    match tokio::time::timeout(REACH_LIMIT, client.apiserver_version()).await {
        Ok(Ok(_)) => Ok(client),
        Ok(Err(error)) => Err(format!("the API server {server} cannot be used: {error}")),
        Err(_) => Err(format!(
            "the API server {server} does not answer within {} s",
            REACH_LIMIT.as_secs()
        )),
    }
}

/// Whether the machine CRDs are there.
///
/// # Errors
/// One line: which other machine controller runs there, or whose machines are there.
async fn look_around(client: &kube::Client, clock: &Clock) -> Result<bool, String> {
    let told = |what: &str| {
        let what = what.to_owned();
        move |error: kube::Error| format!("cannot list {what}: {error}")
    };
    let leases: Api<Lease> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    let now = clock.now();
    for lease in leases.list(&named).await.map_err(told("leases"))? {
        let namespace = lease.namespace().unwrap_or_default();
        let spec = lease.spec.unwrap_or_default();
        let held = spec.holder_identity.is_some_and(|holder| !holder.is_empty());
        let renewed = spec.renew_time.is_some_and(|time| now.duration_since(time.0) < FRESH);
        if held && renewed {
            return Err(format!(
                "another machine controller runs in this cluster: the Lease {namespace}/{LEASE} is held; \
                 stop it, or use a cluster without one"
            ));
        }
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = format!("machines.{}", mcm_api::GROUP);
    let defined = definitions
        .get_metadata_opt(&name)
        .await
        .map_err(told("CRDs"))?
        .is_some();
    if defined {
        let machines: Api<DynamicObject> = Api::all_with(client.clone(), &kinds::find("Machine")?.resource());
        let listed = machines.list_metadata(&ListParams::default().limit(1)).await;
        if let Some(machine) = listed.map_err(told("machines"))?.items.first() {
            return Err(format!(
                "this cluster has machines that are not ours ({}/{}): use a cluster without any",
                machine.namespace().unwrap_or_default(),
                machine.name_any()
            ));
        }
    }
    Ok(defined)
}
