//! The peer: a real etcd and kube-apiserver, if available.
//!
//! Searched in `DRYDOCK_PEER_BIN`, then in PATH, then in the download cache:
//! `${DRYDOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/drydock}/kubernetes-*/bin`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clock::{Clock, Seed};
use kube::Client;
use kube::config::Kubeconfig;
use serde_json::json;
use stage::ports;
use tempfile::TempDir;
use tokio::process::Command;

use crate::objects;
use crate::process::Process;

/// The timeout for its start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The polling interval during the start: a port without a listener gives no event.
const START_PROBE: Duration = Duration::from_millis(20);

/// The paths of the programs.
#[derive(Clone, Debug)]
pub struct Programs {
    etcd: PathBuf,
    apiserver: PathBuf,
}

/// Finds the programs; the newest version in the cache.
pub fn find() -> Option<Programs> {
    if let Some(folder) = std::env::var_os("DRYDOCK_PEER_BIN") {
        return Programs::inside(Path::new(&folder));
    }
    if let (Ok(etcd), Ok(apiserver)) = (which::which("etcd"), which::which("kube-apiserver")) {
        return Some(Programs { etcd, apiserver });
    }
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = variable("DRYDOCK_CACHE").or_else(|| {
        let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        Some(caches?.join("drydock"))
    })?;
    let mut folders: Vec<PathBuf> = std::fs::read_dir(cache)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("kubernetes-"))
        })
        .collect();
    folders.sort();
    folders
        .iter()
        .rev()
        .find_map(|folder| Programs::inside(&folder.join("bin")))
}

impl Programs {
    fn inside(folder: &Path) -> Option<Self> {
        let (etcd, apiserver) = (folder.join("etcd"), folder.join("kube-apiserver"));
        (etcd.is_file() && apiserver.is_file()).then_some(Self { etcd, apiserver })
    }

    /// The version of the API server.
    pub fn version(&self) -> Result<String> {
        let output = std::process::Command::new(&self.apiserver).arg("--version").output()?;
        Ok(format!(
            "etcd and kube-apiserver, {}",
            String::from_utf8_lossy(&output.stdout).trim()
        ))
    }
}

/// A running peer; dropping it kills its processes and removes its files.
#[derive(Debug)]
pub struct Peer {
    apiserver: Process,
    etcd: Process,
    kubeconfig: Kubeconfig,
    // Last: the processes above may still write into it while they stop.
    folder: TempDir,
}

impl Peer {
    /// Starts both programs; returns when the API server is ready.
    pub async fn start(programs: &Programs) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("drydock-peer-").tempdir()?;
        let path = |name: &str| folder.path().join(name);
        let flag = |name: &str, file: &str| format!("--{name}={}", path(file).display());
        let token = Seed::from_entropy().map_err(anyhow::Error::msg)?.stream("token").uuid();
        let key = rcgen::KeyPair::generate()?;
        write_private(&path("service-accounts.key"), &key.serialize_pem())?;
        write_private(&path("service-accounts.pub"), &key.public_key_pem())?;
        write_private(&path("tokens.csv"), &format!("{token},admin,1,\"system:masters\"\n"))?;

        let (port, client_port, peer_port) = (free_port()?, free_port()?, free_port()?);
        let (client_url, peer_url) = (
            format!("http://127.0.0.1:{client_port}"),
            format!("http://127.0.0.1:{peer_port}"),
        );
        let mut etcd = Command::new(&programs.etcd);
        etcd.arg(flag("data-dir", "etcd"))
            .args([
                format!("--listen-client-urls={client_url}"),
                format!("--advertise-client-urls={client_url}"),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--initial-cluster=default={peer_url}"),
            ])
            // Without fsync, because our server does not persist either.
            .arg("--unsafe-no-fsync");
        let etcd = logged(&mut etcd, &path("etcd.log"))?;

        let mut apiserver = Command::new(&programs.apiserver);
        apiserver
            .args([
                flag("cert-dir", "certificates"),
                flag("service-account-key-file", "service-accounts.pub"),
                flag("service-account-signing-key-file", "service-accounts.key"),
                flag("token-auth-file", "tokens.csv"),
                format!("--etcd-servers={client_url}"),
                format!("--secure-port={port}"),
            ])
            .args([
                "--bind-address=127.0.0.1",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--authorization-mode=Node,RBAC",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--disable-admission-plugins=ServiceAccount",
            ]);
        let apiserver = logged(&mut apiserver, &path("kube-apiserver.log"))?;

        let mut peer = Self {
            apiserver,
            etcd,
            kubeconfig: kubeconfig(port, &token)?,
            folder,
        };
        let ready = tokio::time::timeout(START_LIMIT, peer.ready()).await;
        let ready = ready.unwrap_or_else(|_| bail!("the peer is not ready after {START_LIMIT:?}"));
        ready.with_context(|| peer.last_words())?;
        Ok(peer)
    }

    /// Writes the administrator's kubeconfig into a file that is removed with the peer.
    pub fn write_kubeconfig(&self) -> Result<PathBuf> {
        let path = self.folder.path().join("kubeconfig");
        write_private(&path, &serde_json::to_string(&self.kubeconfig)?)?;
        Ok(path)
    }

    /// An administrator's client.
    pub async fn client(&self) -> Result<Client> {
        objects::connect(self.kubeconfig.clone()).await
    }

    /// CPU time of both programs so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        Ok(self.apiserver.cpu_seconds()? + self.etcd.cpu_seconds()?)
    }

    /// The peak of resident memory of both, in MiB.
    pub fn peak_mebibytes(&self) -> Result<f64> {
        Ok(self.apiserver.peak_mebibytes()? + self.etcd.peak_mebibytes()?)
    }

    /// Kills both. A graceful shutdown of the API server would wait for its connections.
    pub async fn stop(self) -> Result<()> {
        self.apiserver.kill().await?;
        self.etcd.kill().await
    }

    fn last_words(&self) -> String {
        let last = |log: &str| {
            let text = std::fs::read_to_string(self.folder.path().join(log)).unwrap_or_default();
            format!("{log} ends with: {}", text.lines().last().unwrap_or("nothing"))
        };
        format!("{}; {}", last("kube-apiserver.log"), last("etcd.log"))
    }

    async fn ready(&mut self) -> Result<()> {
        let client = self.client().await?;
        loop {
            self.apiserver.alive().context("kube-apiserver")?;
            self.etcd.alive().context("etcd")?;
            let request = http::Request::get("/readyz").body(Vec::new())?;
            if client.request_text(request).await.is_ok_and(|text| text == "ok") {
                return Ok(());
            }
            Clock::wall().sleep(START_PROBE).await;
        }
    }
}

fn kubeconfig(port: u16, token: &str) -> Result<Kubeconfig> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "peer", "cluster": { "server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true } }],
        "users": [{ "name": "admin", "user": { "token": token } }],
        "contexts": [{ "name": "peer", "context": { "cluster": "peer", "user": "admin" } }],
        "current-context": "peer"
    }))?)
}

fn logged(command: &mut Command, log: &Path) -> Result<Process> {
    let file = File::create(log)?;
    command.stdout(file.try_clone()?).stderr(file);
    Process::start(command)
}

/// A port without a listener.
pub fn free_port() -> Result<u16> {
    ports::free_port().map_err(anyhow::Error::msg)
}

/// Writes a file that only the current user can read.
fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}
