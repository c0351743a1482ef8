//! etcd and kube-apiserver as child processes, which consecutive runs may reuse.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::{Clock, Seed};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, VersionMatch};
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};

use super::etcd::{Contents, Etcd};
use super::programs::Programs;
use crate::child::{ChildError, Ended, Program, Running};
use crate::plane::PlaneError;
use crate::plane::files::{folder, private_file};
use crate::plane::kubeconfig::{KubeconfigError, client_of, write_kubeconfig};
use crate::ports::{ATTEMPTS, free_port, is_taken};
use crate::run_folder::RunFolder;
use crate::{NAMESPACE, setup};

/// How long the API server may take to become ready.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The interval of readiness checks.
const START_PROBE: Duration = Duration::from_millis(100);
/// How long the API server may take to observe the restored contents.
const RESTORE_LIMIT: Duration = Duration::from_secs(10);
/// The interval of reads of the restored contents.
const RESTORE_PROBE: Duration = Duration::from_millis(10);
/// Namespaces that the API server creates itself, shortly after it is ready.
const OWN_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-node-lease"];
/// The file names of the logs.
pub const LOGS: [&str; 2] = ["etcd.log", "kube-apiserver.log"];

/// Both processes, ready for use. Dropping this kills them and removes their files.
pub struct Servers {
    server: Running,
    etcd: Running,
    contents: Contents,
    store: Etcd,
    client: kube::Client,
    access: Access,
    /// Whether the initial contents include the machine CRDs.
    with_machines: bool,
    // Last, because the processes may still write into the folder while they end.
    folder: RunFolder,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers")
            .field("folder", &self.folder)
            .field("with_machines", &self.with_machines)
            .finish_non_exhaustive()
    }
}

/// The administrator's access to the API server.
#[derive(Clone, Debug)]
pub struct Access {
    kubeconfig: Value,
    /// The certificate that signs the API server's certificate, in PEM.
    pub root_certificate: String,
}

impl Access {
    /// Writes the administrator's kubeconfig, with `namespace` in its context.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, folder: &Path, namespace: &str) -> Result<PathBuf, KubeconfigError> {
        write_kubeconfig(&folder.join("kubeconfig"), self.kubeconfig.clone(), namespace)
    }
}

/// Running servers that no run uses. A start takes seconds of CPU time, while a restore of the initial contents takes a
/// tenth of a second.
#[derive(Debug, Default)]
pub struct Spares(Mutex<Vec<Servers>>);

impl Spares {
    /// Takes spare servers with or without the machine CRDs.
    pub fn take(&self, with_machines: bool) -> Option<Servers> {
        let mut spares = self.0.lock();
        let index = spares
            .iter()
            .position(|servers| servers.with_machines == with_machines)?;
        Some(spares.swap_remove(index))
    }

    /// Restores servers for another run. Kills servers that cannot be restored.
    pub async fn give_back(&self, servers: Servers) {
        if matches!(tokio::time::timeout(RESTORE_LIMIT, servers.restore()).await, Ok(Ok(()))) {
            self.0.lock().push(servers);
        } else {
            servers.kill().await;
        }
    }
}

impl Servers {
    /// Starts both processes and waits until the API server is ready and, with `with_machines`, serves the machine
    /// CRDs.
    ///
    /// # Errors
    /// The missing program, or the part that does not start within a minute.
    pub async fn start(with_machines: bool) -> Result<Self, PlaneError> {
        let programs = Programs::find()?;
        let mut attempts = 1..=ATTEMPTS;
        let started = loop {
            let started = tokio::time::timeout(START_LIMIT, Started::new(&programs)).await;
            match started.unwrap_or(Err(PlaneError::NotReady { limit: START_LIMIT })) {
                Ok(started) => break started,
                Err(PlaneError::Child(ChildError::Ended(ended))) if is_taken(&ended) && attempts.next().is_some() => {}
                Err(error) => return Err(error),
            }
        };
        if with_machines {
            setup::install_definitions(&started.client).await?;
            setup::discovered(&started.client).await?;
        }
        let Started {
            server,
            etcd,
            store,
            client,
            access,
            folder,
        } = started;
        Ok(Self {
            contents: store.contents().await?,
            server,
            etcd,
            store,
            client,
            access,
            with_machines,
            folder,
        })
    }

    /// The administrator's client.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The administrator's access to the API server.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The folder of the logs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Restores the initial contents, and waits until the API server observes them.
    async fn restore(&self) -> Result<(), PlaneError> {
        self.store.restore(&self.contents).await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        // Reads from the cache of the API server, which follows etcd.
        let cached = ListParams::default().at("0").matching(VersionMatch::NotOlderThan);
        let clock = Clock::wall();
        loop {
            let list = namespaces.list_metadata(&cached).await.map_err(PlaneError::Restored)?;
            let names: Option<Vec<&str>> = list.items.iter().map(|item| item.metadata.name.as_deref()).collect();
            if names.is_some_and(|names| names.into_iter().eq(self.contents.names_of("namespaces"))) {
                return Ok(());
            }
            clock.sleep(RESTORE_PROBE).await;
        }
    }

    /// Returns when one of the processes ends unexpectedly.
    pub async fn ended(&mut self) -> Ended {
        tokio::select! {
            biased;
            ended = self.server.ended() => ended,
            ended = self.etcd.ended() => ended,
        }
    }

    /// Kills both processes. Their contents are not needed, so a graceful stop is unnecessary.
    pub async fn kill(self) {
        self.server.kill().await;
        self.etcd.kill().await;
    }
}

/// Both processes after the API server has become ready.
struct Started {
    server: Running,
    etcd: Running,
    store: Etcd,
    client: kube::Client,
    access: Access,
    folder: RunFolder,
}

impl Started {
    async fn new(programs: &Programs) -> Result<Self, PlaneError> {
        let folder = folder()?;
        let files = Files::write(folder.path())?;
        let (client_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
        let etcd = etcd(programs, folder.path(), client_port, peer_port).start()?;
        let server = kube_apiserver(programs, folder.path(), &files, client_port, port).start()?;
        let access = Access {
            kubeconfig: json!({
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{ "name": "envtest", "cluster": {
                    "server": format!("https://127.0.0.1:{port}"), "certificate-authority": files.authority,
                } }],
                "users": [{ "name": "admin", "user": { "token": files.token } }],
                "contexts": [{ "name": "envtest", "context": { "cluster": "envtest", "user": "admin" } }],
                "current-context": "envtest",
            }),
            root_certificate: files.root_certificate,
        };
        let client = client_of(&access.write(folder.path(), NAMESPACE)?).await?;
        let mut started = Self {
            server,
            etcd,
            store: Etcd::at(client_port)?,
            client,
            access,
            folder,
        };
        started.ready().await?;
        Ok(started)
    }

    /// Waits until the API server is ready and has its own namespaces. Fails if a process ends.
    async fn ready(&mut self) -> Result<(), ChildError> {
        let (client, clock) = (&self.client, Clock::wall());
        let ready = async {
            loop {
                let request = http::Request::get("/readyz").body(Vec::new());
                let response = match request {
                    Ok(request) => client.request_text(request).await,
                    Err(_) => return,
                };
                if response.is_ok_and(|response| response == "ok") && has_namespaces(client).await {
                    return;
                }
                clock.sleep(START_PROBE).await;
            }
        };
        tokio::select! {
            biased;
            ended = self.etcd.ended() => Err(ended.into()),
            ended = self.server.ended() => Err(ended.into()),
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

/// The files that kube-apiserver reads.
struct Files {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    account_key: PathBuf,
    account_public_key: PathBuf,
    tokens: PathBuf,
    /// The administrator's token.
    token: String,
    /// The content of `authority`.
    root_certificate: String,
}

impl Files {
    /// Writes a certificate authority, the server's certificate, the key of service accounts and the administrator's
    /// token.
    fn write(folder: &Path) -> Result<Self, PlaneError> {
        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "drydock-envtest");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = server.signed_by(&key, &issuer)?;
        let accounts = KeyPair::generate()?;
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
            // The data does not have to survive a crash of the machine.
            "--unsafe-no-fsync".into(),
        ],
        environment: fewer_collections(),
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
        environment: fewer_collections(),
        log: folder.join("kube-apiserver.log"),
    }
}

/// Garbage collections only after the memory has grown fivefold, instead of twofold, save a tenth of the CPU time of both
/// programs. A value that the user sets has precedence.
fn fewer_collections() -> Vec<(String, OsString)> {
    let name = "GOGC".to_owned();
    match std::env::var_os(&name) {
        Some(_) => Vec::new(),
        None => vec![(name, "400".into())],
    }
}

fn path_flag(name: &str, value: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(value);
    flag
}
