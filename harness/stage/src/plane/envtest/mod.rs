//! A real control plane as child processes: etcd and kube-apiserver from the folders that envtest uses, with our
//! built-in controllers, because there is no kube-controller-manager.
//!
//! This module contains the parts that a run adds to the processes of `servers`. It does not download or build
//! programs.

mod etcd;
mod programs;
mod servers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clock::{Clock, Seed};
use scenario::Timeouts;
use tokio::task::JoinSet;

pub use self::etcd::EtcdError;
pub use self::programs::{MissingPrograms, PROGRAMS, Programs};
use self::servers::Servers;
pub use self::servers::{LOGS, Spares};
use super::PlaneError;
use super::files::folder;
use crate::controllers;
use crate::role::Role;
use crate::run_folder::RunFolder;

/// A control plane of one run. Dropping it kills both processes and removes their files.
#[derive(Debug)]
pub struct ControlPlane {
    servers: Servers,
    /// The size of each log in bytes at the start of this run.
    logged: [u64; LOGS.len()],
    spares: Arc<Spares>,
    parts: JoinSet<String>,
    kubeconfig: PathBuf,
    namespace: String,
    folder: RunFolder,
}

impl ControlPlane {
    /// Takes servers from `spares` or starts new ones, and waits until they are ready for the role.
    ///
    /// # Errors
    /// The missing program, or the part that does not start within a minute.
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
        controllers::wait_for_default_account(&client, namespace).await?;
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

    /// The folder for files, which is removed after the run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the reason when a part of the control plane ends unexpectedly.
    pub async fn failure(&mut self) -> String {
        let parts = async {
            match self.parts.join_next().await {
                Some(Ok(reason)) => reason,
                Some(Err(error)) => format!("a task of the control plane failed: {error}"),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = self.servers.ended() => ended.to_string(),
            reason = parts => reason,
        }
    }

    /// Stops the controllers, returns the servers to `spares`, and returns the run's folder.
    pub async fn shutdown(mut self) -> RunFolder {
        self.parts.shutdown().await;
        for (name, start) in LOGS.iter().zip(self.logged) {
            keep_log(&self.servers.folder().join(name), &self.folder.path().join(name), start);
        }
        self.spares.give_back(self.servers).await;
        self.folder
    }
}

/// Links the servers' logs into the folder of a run. Returns their sizes in bytes.
fn follow_logs(servers: &Path, run: &Path) -> Result<[u64; LOGS.len()], PlaneError> {
    let mut lengths = [0; LOGS.len()];
    for (name, length) in LOGS.iter().zip(&mut lengths) {
        let log = servers.join(name);
        *length = log.metadata().map_or(0, |metadata| metadata.len());
        std::os::unix::fs::symlink(&log, run.join(name)).map_err(|source| PlaneError::Link { log: name, source })?;
    }
    Ok(lengths)
}

/// Replaces the link to a log by a copy of the log from byte `start`, which is empty if the log cannot be read.
fn keep_log(log: &Path, kept: &Path, start: u64) {
    let text = std::fs::read(log).unwrap_or_default();
    let start = usize::try_from(start).unwrap_or(usize::MAX).min(text.len());
    let _ = std::fs::remove_file(kept);
    let _ = std::fs::write(kept, &text[start..]);
}
