//! A real control plane as child processes: etcd and kube-apiserver from where envtest's users have them, with our
//! built-in controllers beside it, since nobody else acts on nodes there.
//!
//! What lives here: finding the programs, their certificates and flags, and waiting until they serve. What must not:
//! fetching or building them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::{Clock, Seed};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{client_of, folder, private_file, write_kubeconfig};
use crate::scenario::Timeouts;
use crate::stage::child::{Program, Running};
use crate::stage::controllers;
use crate::stage::ports::{ATTEMPTS, free_port, is_taken};
use crate::stage::role::Role;

/// The programs of a control plane.
pub const PROGRAMS: [&str; 2] = ["etcd", "kube-apiserver"];
/// How long both may take until the API server is ready.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How often that is looked at.
const START_PROBE: Duration = Duration::from_millis(100);
/// Namespaces that the API server makes by itself, a moment after it is ready.
const OWN_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-node-lease"];

/// Dropping it kills both processes and removes their files.
pub struct ControlPlane {
    server: Running,
    etcd: Running,
    parts: JoinSet<String>,
    client: kube::Client,
    kubeconfig: PathBuf,
    namespace: String,
    // Last: what is above may still write into it while it ends.
    folder: TempDir,
}

/// Where the programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    etcd: PathBuf,
    server: PathBuf,
}

impl Programs {
    /// Looks in KUBEBUILDER_ASSETS, then PATH, then the cache that `scripts/kubernetes/build` fills.
    ///
    /// # Errors
    /// One line: what is missing and how to get it.
    pub fn find() -> Result<Self, String> {
        let mut folders: Vec<PathBuf> = Vec::new();
        if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") {
            let assets = PathBuf::from(assets);
            return Self::inside(&assets).ok_or_else(|| {
                format!(
                    "KUBEBUILDER_ASSETS names {}, where etcd and kube-apiserver are not both: \
                     set it to what `setup-envtest use -p path` prints, or unset it",
                    assets.display()
                )
            });
        }
        if let Some(paths) = std::env::var_os("PATH") {
            folders.extend(std::env::split_paths(&paths));
        }
        folders.extend(cached());
        folders.iter().find_map(|folder| Self::inside(folder)).ok_or_else(|| {
            "etcd and kube-apiserver are neither in KUBEBUILDER_ASSETS nor in PATH nor in the cache: \
             run scripts/kubernetes/build, or `setup-envtest use -p env` and what it prints"
                .to_owned()
        })
    }

    fn inside(folder: &Path) -> Option<Self> {
        let [etcd, server] = PROGRAMS.map(|name| folder.join(name));
        (etcd.is_file() && server.is_file()).then_some(Self { etcd, server })
    }

    /// The folder of the API server.
    pub fn folder(&self) -> &Path {
        self.server.parent().unwrap_or(Path::new("."))
    }
}

/// The folders of the cache that may have the programs, the newest version first.
fn cached() -> Vec<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = variable("DRYDOCK_CACHE").or_else(|| {
        let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        Some(cache?.join("drydock"))
    });
    let entries = cache.and_then(|cache| std::fs::read_dir(cache).ok());
    let mut versions: Vec<(Vec<u64>, PathBuf)> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix("kubernetes-v")?;
            let numbers = version.split(['.', '-']).filter_map(|number| number.parse().ok());
            Some((numbers.collect(), entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).collect()
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
    /// Starts it and waits until the CRDs are served.
    ///
    /// # Errors
    /// One sentence: what is missing, or what did not start within a minute.
    pub async fn start(timeouts: &Timeouts, namespace: &str, role: Role) -> Result<Self, String> {
        let programs = Programs::find()?;
        let clock = Clock::wall();
        let mut attempts = 1..=ATTEMPTS;
        let started = loop {
            let started = tokio::time::timeout(START_LIMIT, Started::new(&programs, namespace, &clock)).await;
            match started.unwrap_or_else(|_| Err(format!("kube-apiserver is not ready after {START_LIMIT:?}"))) {
                Ok(started) => break started,
                Err(reason) if is_taken(&reason) && attempts.next().is_some() => {}
                Err(reason) => return Err(reason),
            }
        };
        let Started {
            server,
            etcd,
            client,
            kubeconfig,
            root_certificate,
            folder,
        } = started;
        role.install(&client, namespace).await?;
        let mut parts = JoinSet::new();
        parts.spawn(controllers::run(
            client.clone(),
            clock,
            Seed::from_entropy()?.child("controllers"),
            controllers::settings(timeouts, &root_certificate),
        ));
        controllers::furnished(&client, namespace).await?;
        Ok(Self {
            server,
            etcd,
            parts,
            client,
            kubeconfig,
            namespace: namespace.to_owned(),
            folder,
        })
    }

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

    /// Where files go that end with the control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns, with a sentence, when a part of it ends that nobody ended.
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
            reason = self.server.ended() => reason,
            reason = self.etcd.ended() => reason,
            reason = parts => reason,
        }
    }

    /// Ends it and hands its files over. Nothing in it is worth an orderly end.
    pub async fn shutdown(mut self) -> TempDir {
        self.parts.shutdown().await;
        self.server.kill().await;
        self.etcd.kill().await;
        self.folder
    }
}

/// Both processes, once the API server is ready.
struct Started {
    server: Running,
    etcd: Running,
    client: kube::Client,
    kubeconfig: PathBuf,
    root_certificate: String,
    folder: TempDir,
}

impl Started {
    async fn new(programs: &Programs, namespace: &str, clock: &Clock) -> Result<Self, String> {
        let folder = folder()?;
        let files = Files::write(folder.path())?;
        let (client_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
        let etcd = etcd(programs, folder.path(), client_port, peer_port).start()?;
        let server = kube_apiserver(programs, folder.path(), &files, client_port, port).start()?;
        let value = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "envtest", "cluster": {
                "server": format!("https://127.0.0.1:{port}"), "certificate-authority": files.authority,
            } }],
            "users": [{ "name": "admin", "user": { "token": files.token } }],
            "contexts": [{ "name": "envtest", "context": { "cluster": "envtest", "user": "admin" } }],
            "current-context": "envtest",
        });
        let kubeconfig = write_kubeconfig(&folder.path().join("kubeconfig"), value, namespace)?;
        let client = client_of(&kubeconfig).await?;
        let mut started = Self {
            server,
            etcd,
            client,
            kubeconfig,
            root_certificate: files.root_certificate,
            folder,
        };
        started.ready(clock).await?;
        Ok(started)
    }

    /// Waits until the API server is ready and has its own namespaces, no longer than both processes live.
    async fn ready(&mut self, clock: &Clock) -> Result<(), String> {
        let client = &self.client;
        let ready = async {
            loop {
                let request = http::Request::get("/readyz").body(Vec::new());
                let answer = match request {
                    Ok(request) => client.request_text(request).await,
                    Err(_) => return,
                };
                if answer.is_ok_and(|answer| answer == "ok") && has_namespaces(client).await {
                    return;
                }
                clock.sleep(START_PROBE).await;
            }
        };
        tokio::select! {
            biased;
            reason = self.etcd.ended() => Err(reason),
            reason = self.server.ended() => Err(reason),
            () = ready => Ok(()),
        }
    }
}

async fn has_namespaces(client: &kube::Client) -> bool {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in OWN_NAMESPACES {
        if !matches!(namespaces.get_metadata_opt(name).await, Ok(Some(_))) {
            return false;
        }
    }
    true
}

/// What kube-apiserver reads from files.
struct Files {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    account_key: PathBuf,
    account_public_key: PathBuf,
    tokens: PathBuf,
    /// The administrator's.
    token: String,
    /// What `authority` holds.
    root_certificate: String,
}

impl Files {
    /// A certificate authority, the server's certificate, the key of service accounts, the administrator's token.
    fn write(folder: &Path) -> Result<Self, String> {
        let cannot = |error: rcgen::Error| format!("cannot make certificates: {error}");
        let authority_key = KeyPair::generate().map_err(cannot)?;
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "drydock-envtest");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_certificate = authority.self_signed(&authority_key).map_err(cannot)?;
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().map_err(cannot)?;
        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        let mut server = CertificateParams::new(names).map_err(cannot)?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = server.signed_by(&key, &issuer).map_err(cannot)?;
        let accounts = KeyPair::generate().map_err(cannot)?;
        let token = Seed::from_entropy()?.stream("administrator's token").uuid();
        let write = |name: &str, text: &str| private_file(&folder.join(name), text);
        Ok(Self {
            authority: write("ca.crt", &authority_certificate.pem())?,
            certificate: write("apiserver.crt", &certificate.pem())?,
            key: write("apiserver.key", &key.serialize_pem())?,
            account_key: write("accounts.key", &accounts.serialize_pem())?,
            account_public_key: write("accounts.pub", &accounts.public_key_pem())?,
            tokens: write("tokens.csv", &format!("{token},admin,admin,system:masters\n"))?,
            token,
            root_certificate: authority_certificate.pem(),
        })
    }
}

fn etcd(programs: &Programs, folder: &Path, port: u16, peer_port: u16) -> Program {
    let (client, peer) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{peer_port}"),
    );
    Program {
        name: "etcd".to_owned(),
        command: vec![
            programs.etcd.clone().into(),
            path_flag("--data-dir=", &folder.join("etcd")),
            format!("--listen-client-urls={client}").into(),
            format!("--advertise-client-urls={client}").into(),
            format!("--listen-peer-urls={peer}").into(),
            format!("--initial-advertise-peer-urls={peer}").into(),
            format!("--initial-cluster=default={peer}").into(),
            // What is lost with the machine was going to be removed anyhow.
            "--unsafe-no-fsync".into(),
        ],
        environment: Vec::new(),
        log: folder.join("etcd.log"),
    }
}

fn kube_apiserver(programs: &Programs, folder: &Path, files: &Files, etcd_port: u16, port: u16) -> Program {
    let mut command: Vec<OsString> = vec![programs.server.clone().into()];
    command.extend(
        [
            format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-bootstrap-token-auth".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        ]
        .map(OsString::from),
    );
    command.extend([
        path_flag("--cert-dir=", folder),
        path_flag("--tls-cert-file=", &files.certificate),
        path_flag("--tls-private-key-file=", &files.key),
        path_flag("--service-account-key-file=", &files.account_public_key),
        path_flag("--service-account-signing-key-file=", &files.account_key),
        path_flag("--token-auth-file=", &files.tokens),
    ]);
    Program {
        name: "kube-apiserver".to_owned(),
        command,
        environment: Vec::new(),
        log: folder.join("kube-apiserver.log"),
    }
}

fn path_flag(name: &str, value: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(value);
    flag
}
