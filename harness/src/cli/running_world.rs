//! The world that `drydock up` keeps: how other commands find it, by a file in the folder where both run, or by flags.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fakecloud::proto::cloud_client::CloudClient;
use kube::config::{KubeConfigOptions, Kubeconfig};
use mcm_driver::channel::{AddressError, channel};
use mcm_driver::tls::{Tls, TlsFiles};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use stage::plane::{FileError, KubeconfigProblem, private_file};
use tonic::transport::Channel;

use super::Usage;

/// Where `drydock up` says that it runs, below the folder that it was started in.
const FILE: &str = ".drydock/up.json";
/// The largest answer of fakecloud that is read: ten thousand VMs are a few megabytes.
const ANSWER_LIMIT: usize = 64 << 20;
/// How long the API server may take to accept a connection, and to answer.
const SERVER_LIMIT: Duration = Duration::from_secs(10);

/// Why there is no world to use, or it is not announced.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorldError {
    #[error(transparent)]
    Cloud(#[from] AddressError),
    #[error("the kubeconfig {} is not usable: {source}", path.display())]
    Kubeconfig { path: PathBuf, source: KubeconfigProblem },
    #[error("cannot write {}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    NoJson { path: PathBuf, source: serde_json::Error },
    #[error(transparent)]
    Write(#[from] FileError),
    #[error("cannot read {}: {source}; remove it", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read {}: {source}; remove it", path.display())]
    Syntax { path: PathBuf, source: serde_json::Error },
    #[error("no `drydock up` runs in this folder: start one here, or say --cloud HOST:PORT")]
    NotUp,
    #[error(
        "the `drydock up` of this folder (process {process}) was killed and left {FILE}; start it again, \
         or say --cloud HOST:PORT"
    )]
    Killed { process: i32 },
}

/// fakecloud's controls over a connection.
pub(super) type Controls = CloudClient<Channel>;

/// Where the parts of a world answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct World {
    /// `grpc://HOST:PORT`, or `grpcs://` with `tls`.
    pub(super) cloud: String,
    /// The files of a connection over mutual TLS.
    pub(super) tls: Option<TlsPaths>,
    /// The administrator's; `None`: the API server is not known.
    pub(super) kubeconfig: Option<PathBuf>,
}

/// What a client shows, and what it expects of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TlsPaths {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
    server_name: Option<String>,
}

impl From<Tls> for TlsPaths {
    fn from(tls: Tls) -> Self {
        Self {
            ca: tls.files.ca,
            cert: tls.files.cert,
            key: tls.files.key,
            server_name: tls.server_name,
        }
    }
}

impl World {
    /// fakecloud's controls. A connection is made when it is needed.
    ///
    /// # Errors
    /// When the address makes no sense.
    pub(super) fn controls(&self) -> Result<Controls, WorldError> {
        let tls = self.tls.clone().map(|tls| Tls {
            files: TlsFiles {
                ca: tls.ca,
                cert: tls.cert,
                key: tls.key,
            },
            server_name: tls.server_name,
        });
        let channel = channel(&self.cloud, tls)?;
        Ok(CloudClient::new(channel).max_decoding_message_size(ANSWER_LIMIT))
    }

    /// What a call to fakecloud met with, in a sentence.
    pub(super) fn refused(&self, status: &tonic::Status) -> String {
        match status.code() {
            tonic::Code::Unavailable | tonic::Code::DeadlineExceeded => {
                format!("fakecloud does not answer at {}: {}", self.cloud, status.message())
            }
            _ => status.message().to_owned(),
        }
    }

    /// The API server, as its administrator; `None`: it is not known.
    ///
    /// # Errors
    /// When the kubeconfig is not usable.
    pub(super) async fn client(&self) -> Result<Option<kube::Client>, WorldError> {
        let Some(path) = &self.kubeconfig else { return Ok(None) };
        let client = client_of(path).await;
        client.map(Some).map_err(|source| WorldError::Kubeconfig {
            path: path.clone(),
            source,
        })
    }
}

async fn client_of(kubeconfig: &Path) -> Result<kube::Client, KubeconfigProblem> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.connect_timeout = Some(SERVER_LIMIT);
    Ok(kube::Client::try_from(config)?)
}

/// What stands in the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    /// The process of `drydock up`.
    process: i32,
    world: World,
}

/// The file of a world that is up; dropping it removes the file.
#[derive(Debug)]
pub(super) struct Announced {
    path: PathBuf,
}

impl Announced {
    /// Writes the file, for this user alone. `None`: another `drydock up` runs in `folder`, and has the file.
    ///
    /// # Errors
    /// Why there is no file.
    pub(super) fn new(folder: &Path, world: &World) -> Result<Option<Self>, WorldError> {
        let path = folder.join(FILE);
        if matches!(read(&path)?, Some(entry) if runs(entry.process) && entry.process != own()) {
            return Ok(None);
        }
        let entry = Entry {
            process: own(),
            world: world.clone(),
        };
        let text = match serde_json::to_string_pretty(&entry) {
            Ok(text) => text,
            Err(source) => return Err(WorldError::NoJson { path, source }),
        };
        if let Some(folder) = path.parent()
            && let Err(source) = std::fs::create_dir_all(folder)
        {
            return Err(WorldError::Folder { path, source });
        }
        private_file(&path, &text)?;
        Ok(Some(Self { path }))
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // The folder stays while reports are in it.
        if let Some(folder) = self.path.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// The world that runs in `folder`.
pub(super) fn find(folder: &Path) -> Result<World, WorldError> {
    let path = folder.join(FILE);
    match read(&path)? {
        None => Err(WorldError::NotUp),
        Some(entry) if runs(entry.process) => Ok(entry.world),
        Some(entry) => Err(WorldError::Killed { process: entry.process }),
    }
}

/// `None`: there is no such file.
fn read(path: &Path) -> Result<Option<Entry>, WorldError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            let path = path.to_owned();
            return Err(WorldError::Read { path, source });
        }
    };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|source| WorldError::Syntax {
            path: path.to_owned(),
            source,
        })
}

fn own() -> i32 {
    Pid::this().as_raw()
}

/// Whether a process of that id runs, be it another user's.
fn runs(process: i32) -> bool {
    process > 0 && kill(Pid::from_raw(process), None) != Err(Errno::ESRCH)
}

/// Which world is meant; without any of these, the one that `drydock up` keeps in this folder.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Another world than this folder's")]
pub(super) struct Where {
    /// fakecloud's address
    #[arg(long, global = true, value_name = "HOST:PORT")]
    cloud: Option<String>,

    /// Certificates of the authorities that sign fakecloud's certificate (PEM); together with the next two
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// The certificate to show (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// The name that fakecloud's certificate carries; without it that of --cloud
    #[arg(long, global = true, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// The cluster whose nodes these are; without it what the API server says of them is not shown
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Where {
    /// The world that is meant.
    pub(super) fn world(self, folder: &Path) -> Result<World, Usage> {
        let files = (self.tls_ca, self.tls_cert, self.tls_key);
        let tls = match files {
            (Some(ca), Some(cert), Some(key)) => Some(TlsPaths {
                ca,
                cert,
                key,
                server_name: self.tls_server_name.clone(),
            }),
            (None, None, None) => None,
            _ => {
                return Err(Usage(
                    "--tls-ca, --tls-cert and --tls-key belong together: both sides show certificates".to_owned(),
                ));
            }
        };
        let Some(address) = self.cloud else {
            let stray = [
                ("TLS files", tls.is_some() || self.tls_server_name.is_some()),
                ("--kubeconfig", self.kubeconfig.is_some()),
            ];
            if let Some((what, _)) = stray.into_iter().find(|(_, given)| *given) {
                return Err(Usage(format!(
                    "{what} without --cloud: say the address of the fakecloud, too"
                )));
            }
            return Ok(find(folder)?);
        };
        let scheme = if tls.is_some() { "grpcs" } else { "grpc" };
        let cloud = match address.contains("://") {
            true => address,
            false => format!("{scheme}://{address}"),
        };
        Ok(World {
            cloud,
            tls,
            kubeconfig: self.kubeconfig,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn world() -> World {
        World {
            cloud: "grpc://127.0.0.1:7300".to_owned(),
            tls: None,
            kubeconfig: Some(PathBuf::from("kubeconfig")),
        }
    }

    /// The file as a process left it.
    fn left_by(folder: &Path, process: i32) {
        let text = serde_json::to_string(&Entry {
            process,
            world: world(),
        });
        std::fs::create_dir_all(folder.join(".drydock")).unwrap();
        std::fs::write(folder.join(FILE), text.unwrap()).unwrap();
    }

    /// The id of a process that has ended.
    fn ended() -> i32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        process
    }

    #[test]
    fn a_world_is_found_while_it_is_up_by_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let announced = Announced::new(folder.path(), &world()).unwrap().unwrap();
        assert_eq!(find(folder.path()).unwrap(), world());
        let mode = std::fs::metadata(folder.path().join(FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(announced);
        let error = find(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("no `drydock up` runs in this folder"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn reports_beside_the_file_stay() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join(".drydock/reports")).unwrap();
        drop(Announced::new(folder.path(), &world()).unwrap().unwrap());
        let left = std::fs::read_dir(folder.path().join(".drydock")).unwrap();
        let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["reports"]);
    }

    #[test]
    fn a_file_of_a_process_that_was_killed_is_told_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        left_by(folder.path(), ended());
        let error = find(folder.path()).unwrap_err().to_string();
        assert!(error.contains("was killed and left .drydock/up.json"), "{error}");
        assert!(Announced::new(folder.path(), &world()).unwrap().is_some());
    }

    #[test]
    fn the_second_world_of_a_folder_leaves_the_file_to_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = i32::try_from(std::os::unix::process::parent_id()).unwrap();
        left_by(folder.path(), first);
        assert!(Announced::new(folder.path(), &world()).unwrap().is_none());
        assert_eq!(find(folder.path()).unwrap(), world());
    }

    #[test]
    fn flags_name_another_world_and_belong_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = || Some(PathBuf::from("x"));
        let plain = Where {
            cloud: Some("127.0.0.1:7300".to_owned()),
            ..Where::default()
        };
        assert_eq!(plain.world(folder.path()).unwrap().cloud, "grpc://127.0.0.1:7300");
        let tls = Where {
            cloud: Some("127.0.0.1:7300".to_owned()),
            tls_ca: path(),
            tls_cert: path(),
            tls_key: path(),
            ..Where::default()
        };
        assert_eq!(tls.world(folder.path()).unwrap().cloud, "grpcs://127.0.0.1:7300");
        let half = Where {
            tls_ca: path(),
            ..Where::default()
        };
        assert!(half.world(folder.path()).unwrap_err().0.contains("belong together"));
        let stray = Where {
            kubeconfig: path(),
            ..Where::default()
        };
        let error = stray.world(folder.path()).unwrap_err().0;
        assert!(error.contains("--kubeconfig without --cloud"), "{error}");
    }
}
