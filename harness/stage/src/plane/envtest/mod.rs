//! A real control plane as child processes: etcd and kube-apiserver from where envtest's users have them, with our
//! built-in controllers beside it, since nothing else acts on nodes there.
//!
//! What lives here: what a run adds to the processes (`servers`). What must not: fetching or building them.

mod etcd;
mod programs;
mod servers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clock::{Clock, Seed};
use scenario::Timeouts;
use tempfile::TempDir;
use tokio::task::JoinSet;

pub use self::etcd::EtcdError;
pub use self::programs::{MissingPrograms, PROGRAMS, Programs};
use self::servers::Servers;
pub use self::servers::{LOGS, Spares};
use super::PlaneError;
use super::files::folder;
use crate::controllers;
use crate::role::Role;

/// Dropping it kills both processes and removes their files.
#[derive(Debug)]
pub struct ControlPlane {
    servers: Servers,
    /// How long each log was when this run began.
    logged: [u64; LOGS.len()],
    spares: Arc<Spares>,
    parts: JoinSet<String>,
    kubeconfig: PathBuf,
    namespace: String,
    folder: TempDir,
}

impl ControlPlane {
    /// Takes servers from `spares` or starts some, and waits until they are ready for the role.
    ///
    /// # Errors
    /// What is missing, or what did not start within a minute.
    pub async fn start(
        timeouts: &Timeouts,
        namespace: &str,
        role: Role,
        spares: &Arc<Spares>,
    ) -> Result<Self, PlaneError> {
        let servers = match spares.take(role.holds_machines()) {
            Some(servers) => servers,
            None => Servers::start(role.holds_machines()).await?,
        };
        let folder = folder()?;
        let kubeconfig = servers.access().write(folder.path(), namespace)?;
        let logged = follow_logs(servers.folder(), folder.path())?;
        let client = servers.client();
        role.install(&client, namespace).await?;
        let mut parts = JoinSet::new();
        parts.spawn(controllers::run(
            client.clone(),
            Clock::wall(),
            Seed::from_entropy()?.child("controllers"),
            controllers::settings(timeouts, &servers.access().root_certificate),
        ));
        controllers::furnished(&client, namespace).await?;
        Ok(Self {
            servers,
            logged,
            spares: spares.clone(),
            parts,
            kubeconfig,
            namespace: namespace.to_owned(),
            folder,
        })
    }

    /// The administrator's client.
    pub fn client(&self) -> kube::Client {
        self.servers.client()
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

    /// Returns, with a sentence, when a part of it ends by itself.
    pub async fn trouble(&mut self) -> String {
        let parts = async {
            match self.parts.join_next().await {
                Some(Ok(reason)) => reason,
                Some(Err(error)) => format!("a part of the control plane broke: {error}"),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = self.servers.ended() => ended.to_string(),
            reason = parts => reason,
        }
    }

    /// Ends what the run added, gives the servers back, and hands the run's files over.
    pub async fn shutdown(mut self) -> TempDir {
        self.parts.shutdown().await;
        for (name, start) in LOGS.iter().zip(self.logged) {
            keep_log(&self.servers.folder().join(name), &self.folder.path().join(name), start);
        }
        self.spares.give_back(self.servers).await;
        self.folder
    }
}

/// Makes the servers' logs visible in the folder of a run; how long they are at its start, in bytes.
fn follow_logs(servers: &Path, run: &Path) -> Result<[u64; LOGS.len()], PlaneError> {
    let mut lengths = [0; LOGS.len()];
    for (name, length) in LOGS.iter().zip(&mut lengths) {
        let log = servers.join(name);
        *length = log.metadata().map_or(0, |metadata| metadata.len());
        std::os::unix::fs::symlink(&log, run.join(name)).map_err(|source| PlaneError::Link { log: name, source })?;
    }
    Ok(lengths)
}

/// Replaces the link to a log by a copy of what was appended after `start`, in bytes; empty where the log cannot be read.
fn keep_log(log: &Path, kept: &Path, start: u64) {
    let text = std::fs::read(log).unwrap_or_default();
    let start = usize::try_from(start).unwrap_or(usize::MAX).min(text.len());
    let _ = std::fs::remove_file(kept);
    let _ = std::fs::write(kept, &text[start..]);
}
