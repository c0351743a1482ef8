//! A control plane on the wall clock: the API server and its controllers in this process, over HTTPS,
//! with the machine CRDs served. What must not live here: fakecloud, mcm, scenarios.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use apiserver::Identity;
use clock::{Clock, Seed};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{NAMESPACE, setup};
use crate::scenario::Timeouts;

/// Dropping it ends it and removes its files.
#[derive(Debug)]
pub struct ControlPlane {
    serving: apiserver::serve::Serving,
    parts: JoinSet<String>,
    kubeconfig: PathBuf,
    // Last: what is above may still write into it while it ends.
    folder: TempDir,
}

impl ControlPlane {
    /// Starts it and waits until the CRDs are served. The client is the administrator's, in process.
    ///
    /// # Errors
    /// One sentence: what could not be started.
    pub async fn start(port: u16, seed: u64, timeouts: &Timeouts) -> Result<(Self, kube::Client), String> {
        let folder = tempfile::Builder::new()
            .prefix("drydock-")
            .tempdir()
            .map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        let clock = Clock::wall();
        let options = apiserver::Options::new(clock.clone(), Seed::new(seed).child("apiserver"));
        let server = apiserver::Server::new(options).map_err(|error| error.to_string())?;
        let serving = server
            .serve(SocketAddr::from(([127, 0, 0, 1], port)))
            .await
            .map_err(|error| error.to_string())?;
        let kubeconfig = write_kubeconfig(&serving, folder.path(), &Identity::admin(), "kubeconfig")?;

        let client = kube::Client::new(server.service(Identity::admin()), NAMESPACE);
        setup::install_definitions(&client).await?;
        setup::install_namespace(&client, NAMESPACE).await?;
        let mut parts = JoinSet::new();
        let (inside, settings) = (client.clone(), setup::node_lifecycle(timeouts));
        parts.spawn(async move {
            controllers::node_lifecycle::run(inside, clock, settings, CancellationToken::new()).await;
            "node lifecycle ended".to_owned()
        });
        let plane = Self {
            serving,
            parts,
            kubeconfig,
            folder,
        };
        Ok((plane, client))
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where files go that end with the control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes `USER.kubeconfig` for a user without groups.
    ///
    /// # Errors
    /// One sentence: why it cannot be written.
    pub fn kubeconfig_of(&self, user: &str) -> Result<PathBuf, String> {
        let file = format!("{user}.kubeconfig");
        write_kubeconfig(&self.serving, self.folder(), &Identity::user(user), &file)
    }

    /// Returns, with a sentence, when a part of it ends that nobody ended.
    pub async fn trouble(&mut self) -> String {
        match self.parts.join_next().await {
            Some(Ok(reason)) => reason,
            Some(Err(error)) => format!("a part of the control plane broke: {error}"),
            None => std::future::pending().await,
        }
    }

    /// Ends it in order and hands its files over.
    pub async fn shutdown(self) -> TempDir {
        self.serving.shutdown().await;
        self.folder
    }
}

fn write_kubeconfig(
    serving: &apiserver::serve::Serving,
    folder: &Path,
    identity: &Identity,
    file: &str,
) -> Result<PathBuf, String> {
    let text = serving.kubeconfig(identity).map_err(|error| error.to_string())?;
    private_file(&folder.join(file), &text)
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
