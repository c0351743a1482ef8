//! The embedded control plane on the wall clock: an API server and its controllers in this process, over HTTPS.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::controllers::{Name, Panics, Settings};
use apiserver::faults::{Faults, Pattern};
use apiserver::observe::Observer;
use apiserver::{Identity, ServicePort};
use clock::{Clock, Seed};
use kube::config::Kubeconfig;
use scenario::Timeouts;
use tokio::task::JoinSet;

use super::PlaneError;
use super::files::folder;
use super::kubeconfig::{current_context, write_kubeconfig};
use crate::audit::Audit;
use crate::controller_metrics::ControllerMetrics;
use crate::controllers;
use crate::role::Role;
use crate::run_folder::RunFolder;

/// The options of a control plane.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The port on the loopback address; 0: any free port.
    pub port: u16,
    /// The seed of uids and delays.
    pub seed: u64,
    /// The periods of the controllers.
    pub timeouts: &'a Timeouts,
    /// The namespace of the kubeconfig.
    pub namespace: &'a str,
    /// What the control plane is prepared for; `None`: it has only what each cluster has.
    pub role: Option<Role>,
    /// The controllers that run.
    pub controllers: BTreeSet<Name>,
    /// The folder of the API server's data and kubeconfig, which stay for the next start; `None`: they end with the
    /// control plane.
    pub data: Option<PathBuf>,
    /// Where the services run that webhooks and API services name.
    pub services: BTreeMap<ServicePort, SocketAddr>,
    /// The users whose writes the API server compares with what it has sent them; `None`: none.
    pub recorded_users: Option<Pattern>,
    /// Observes the API server in place of the audit.
    pub observer: Option<Arc<dyn Observer>>,
}

impl<'a> Options<'a> {
    /// All controllers, and any free port.
    pub fn new(seed: u64, timeouts: &'a Timeouts, namespace: &'a str, role: Option<Role>) -> Self {
        Self {
            port: 0,
            seed,
            timeouts,
            namespace,
            role,
            controllers: Name::ALL.iter().copied().collect(),
            data: None,
            services: BTreeMap::new(),
            recorded_users: None,
            observer: None,
        }
    }
}

/// An embedded control plane. Dropping it stops it and removes its files.
pub struct ControlPlane {
    serving: apiserver::serve::Serving,
    parts: JoinSet<String>,
    client: kube::Client,
    kubeconfig: PathBuf,
    namespace: String,
    audit: Audit,
    faults: Faults,
    // Last, because the other fields may still write into the folder while they end.
    folder: RunFolder,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane")
            .field("kubeconfig", &self.kubeconfig)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready for its role. It enforces RBAC.
    ///
    /// # Errors
    /// The first part that does not start.
    pub async fn start(options: Options<'_>) -> Result<Self, PlaneError> {
        let Options { seed, namespace, .. } = options;
        let folder = folder()?;
        let clock = Clock::wall();
        let audit = Audit::new(namespace);
        let seed = Seed::new(seed);
        let panics = Panics::default();
        let creates_accounts = options.controllers.contains(&Name::ServiceAccounts);
        let server_options = controllers::server_options(clock.clone(), seed.child("apiserver"), &audit);
        let server = apiserver::Server::new(apiserver::Options {
            observer: options.observer.or(server_options.observer),
            recorded_users: options.recorded_users,
            metrics: vec![Arc::new(ControllerMetrics(panics.clone()))],
            // Without the controller that creates service accounts, no pod could be created.
            service_account_admission: creates_accounts,
            data: options.data.clone(),
            services: options.services,
            ..server_options
        })?;
        let address = SocketAddr::from(([127, 0, 0, 1], options.port));
        let serving = server.serve(address).await?;
        let text = serving.kubeconfig(&Identity::admin())?;
        let admin: Kubeconfig = serde_saphyr::from_str(&text).map_err(|error| PlaneError::Syntax(Box::new(error)))?;
        let place = options.data.as_deref().unwrap_or(folder.path()).join("kubeconfig");
        let kubeconfig = write_kubeconfig(&place, current_context(&admin)?, namespace)?;

        let client = kube::Client::new(
            server.service(Identity::admin()).named("kube-controller-manager"),
            namespace,
        );
        if let Some(role) = options.role {
            role.install(&client, namespace).await?;
        }
        let mut parts = JoinSet::new();
        parts.spawn(controllers::run(
            client.clone(),
            clock,
            seed.child("controllers"),
            Settings {
                panics,
                enabled: options.controllers,
                ..controllers::settings(options.timeouts, &server.certificate_authority())
            },
        ));
        if creates_accounts {
            controllers::wait_for_default_account(&client, namespace).await?;
        }
        Ok(Self {
            serving,
            parts,
            client,
            kubeconfig,
            namespace: namespace.to_owned(),
            audit,
            faults: server.faults(),
            folder,
        })
    }

    /// The administrator's client, in process.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Writes the kubeconfig of a user into the folder, and returns its path.
    ///
    /// # Errors
    /// The certificate cannot be created, or the file cannot be written.
    pub fn kubeconfig_of(&self, user: &Identity) -> Result<PathBuf, PlaneError> {
        let text = self.serving.kubeconfig(user)?;
        let read: Kubeconfig = serde_saphyr::from_str(&text).map_err(|error| PlaneError::Syntax(Box::new(error)))?;
        let place = self.folder.path().join("user.kubeconfig");
        Ok(write_kubeconfig(&place, current_context(&read)?, &self.namespace)?)
    }

    /// The namespace of machines.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The folder for files, which is removed with the control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The fault rules of the API server.
    pub fn api_faults(&self) -> Faults {
        self.faults.clone()
    }

    /// The record of the requests of mcm and fakecloud.
    pub fn audit(&self) -> Audit {
        self.audit.clone()
    }

    /// Returns the reason when a part of the control plane ends unexpectedly.
    pub async fn failure(&mut self) -> String {
        match self.parts.join_next().await {
            Some(Ok(reason)) => reason,
            Some(Err(error)) => format!("a task of the control plane failed: {error}"),
            None => std::future::pending().await,
        }
    }

    /// Stops the control plane gracefully and returns its folder.
    pub async fn shutdown(self) -> RunFolder {
        self.serving.shutdown().await;
        self.folder
    }
}
