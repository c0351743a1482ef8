//! Finds the running world of `drydock up` for other commands: by a file in the folder where both run, or by flags.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use durable::private_files;
use fakecloud::proto::cloud_client::CloudClient;
use kube::config::{KubeConfigOptions, Kubeconfig};
use mcm_driver::channel::{AddressError, channel};
use mcm_driver::tls::{Tls, TlsFiles};
use nix::unistd::Pid;
use runtime::kube_config;
use serde::{Deserialize, Serialize};
use stage::leftovers::has_owner;
use stage::plane::{FileError, KubeconfigProblem, private_file};
use tonic::transport::Channel;

use super::Stop;

/// The file that `drydock up` writes, relative to its folder.
const FILE: &str = ".drydock/up.json";
/// Maximum size of a response of fakecloud: ten thousand VMs are a few megabytes.
const ANSWER_LIMIT: usize = 64 << 20;
/// Timeout of connections to the API server.
const SERVER_LIMIT: Duration = Duration::from_secs(10);

/// Why a world cannot be found or announced.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorldError {
    #[error(transparent)]
    Cloud(#[from] AddressError),
    #[error("the kubeconfig {} is not usable: {source}", path.display())]
    Kubeconfig { path: PathBuf, source: KubeconfigProblem },
    #[error("cannot write {}: its folder is not usable: {source}", path.display())]
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

/// The addresses of the parts of a world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct World {
    /// `grpc://HOST:PORT`, or `grpcs://` with `tls`.
    pub(super) cloud: String,
    /// The files of a connection over mutual TLS.
    pub(super) tls: Option<TlsPaths>,
    /// The administrator's kubeconfig; `None`: the API server is unknown.
    pub(super) kubeconfig: Option<PathBuf>,
}

/// The files of a client for mutual TLS, and the expected server name.
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
    /// A client for fakecloud's controls. It connects at the first call.
    ///
    /// # Errors
    /// When the address is invalid.
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

    /// Describes the error of a call to fakecloud.
    pub(super) fn describe_error(&self, status: &tonic::Status) -> String {
        fakecloud::cli::describe_error(&self.cloud, status)
    }

    /// A client for the API server, as its administrator; `None`: the API server is unknown.
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
    let mut config = kube_config::of(read, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.connect_timeout = Some(SERVER_LIMIT);
    Ok(kube::Client::try_from(config)?)
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    /// The process of `drydock up`.
    process: i32,
    /// Its run folder, which it owns while it runs.
    run_folder: PathBuf,
    world: World,
}

/// The file of a running world; dropping the value removes the file.
#[derive(Debug)]
pub(super) struct Announced {
    path: PathBuf,
}

impl Announced {
    /// Writes the file, readable only by this user. `run_folder` belongs to this process. `None`: another `drydock up`
    /// runs in `folder` and owns the file.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub(super) fn new(folder: &Path, world: &World, run_folder: &Path) -> Result<Option<Self>, WorldError> {
        let path = folder.join(FILE);
        if matches!(read(&path)?, Some(entry) if has_owner(&entry.run_folder)) {
            return Ok(None);
        }
        let entry = Entry {
            process: Pid::this().as_raw(),
            run_folder: run_folder.to_owned(),
            world: world.clone(),
        };
        let text = match serde_json::to_string_pretty(&entry) {
            Ok(text) => text,
            Err(source) => return Err(WorldError::NoJson { path, source }),
        };
        if let Some(folder) = path.parent()
            && let Err(source) = private_files::restrict_folder(folder)
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
        // The folder is kept if it contains reports.
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
        Some(entry) if has_owner(&entry.run_folder) => Ok(entry.world),
        Some(entry) => Err(WorldError::Killed { process: entry.process }),
    }
}

/// Reads the file; `None`: it does not exist.
fn read(path: &Path) -> Result<Option<Entry>, WorldError> {
    let text = match private_files::read(path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        Err(source) => {
            let path = path.to_owned();
            return Err(WorldError::Read { path, source });
        }
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|source| WorldError::Syntax {
            path: path.to_owned(),
            source,
        })
}

/// The file that a killed `drydock up` left in `folder`. A file that cannot be read is not regarded as such.
pub(super) fn left(folder: &Path) -> Option<PathBuf> {
    let path = folder.join(FILE);
    let entry = read(&path).ok().flatten()?;
    (!has_owner(&entry.run_folder)).then_some(path)
}

/// The world to use; by default the one that `drydock up` runs in this folder.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Another world than this folder's")]
pub(super) struct Where {
    /// fakecloud's control address (`fakecloud serve --control-address`; without it, --address)
    #[arg(long, global = true, value_name = "HOST:PORT")]
    cloud: Option<String>,

    /// CA certificates for fakecloud's certificate (PEM); needs --tls-cert and --tls-key
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// The client certificate, signed by an authority of `fakecloud serve --tls-control-ca` (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// The name in fakecloud's certificate; the default is the host of --cloud
    #[arg(long, global = true, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// The kubeconfig of the nodes' cluster; without it the state of Nodes is unknown
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Where {
    /// The selected world.
    pub(super) fn world(self, folder: &Path) -> Result<World, Stop> {
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
                return Err(Stop::Usage(
                    "--tls-ca, --tls-cert and --tls-key belong together: mutual TLS requires all of them".to_owned(),
                ));
            }
        };
        let Some(address) = self.cloud else {
            let stray = [
                ("TLS files", tls.is_some() || self.tls_server_name.is_some()),
                ("--kubeconfig", self.kubeconfig.is_some()),
            ];
            if let Some((what, _)) = stray.into_iter().find(|(_, given)| *given) {
                return Err(Stop::Usage(format!(
                    "{what} without --cloud: specify the address of fakecloud, too"
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

    use stage::run_folder::RunFolder;

    use super::*;

    fn world() -> World {
        World {
            cloud: "grpc://127.0.0.1:7300".to_owned(),
            tls: None,
            kubeconfig: Some(PathBuf::from("kubeconfig")),
        }
    }

    fn mode_of(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// Writes the file of a process that owned this folder.
    fn write_file(folder: &Path, run_folder: &Path) {
        let text = serde_json::to_string(&Entry {
            process: 1,
            run_folder: run_folder.to_owned(),
            world: world(),
        });
        std::fs::create_dir_all(folder.join(".drydock")).unwrap();
        std::fs::write(folder.join(FILE), text.unwrap()).unwrap();
    }

    #[test]
    fn a_world_is_found_while_it_runs_and_its_file_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::new().unwrap();
        let announced = Announced::new(folder.path(), &world(), run.path()).unwrap().unwrap();
        assert_eq!(find(folder.path()).unwrap(), world());
        assert_eq!(mode_of(&folder.path().join(FILE)), 0o600);
        assert_eq!(mode_of(&folder.path().join(".drydock")), 0o700);
        drop(announced);
        let error = find(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("no `drydock up` runs in this folder"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn reports_in_the_folder_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join(".drydock/reports")).unwrap();
        let run = RunFolder::new().unwrap();
        drop(Announced::new(folder.path(), &world(), run.path()).unwrap().unwrap());
        let left = std::fs::read_dir(folder.path().join(".drydock")).unwrap();
        let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["reports"]);
    }

    #[test]
    fn an_existing_folder_becomes_private_and_links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::new().unwrap();
        let own = folder.path().join(".drydock");
        std::fs::create_dir(&own).unwrap();
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
        let announced = Announced::new(folder.path(), &world(), run.path()).unwrap();
        assert_eq!(mode_of(&own), 0o700);
        drop(announced);

        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &own).unwrap();
        let error = Announced::new(folder.path(), &world(), run.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_file_of_a_killed_process_is_reported_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        write_file(folder.path(), &folder.path().join("removed"));
        let error = find(folder.path()).unwrap_err().to_string();
        assert!(error.contains("was killed and left .drydock/up.json"), "{error}");
        assert_eq!(left(folder.path()), Some(folder.path().join(FILE)));
        let run = RunFolder::new().unwrap();
        assert!(Announced::new(folder.path(), &world(), run.path()).unwrap().is_some());
    }

    #[test]
    fn the_second_world_of_a_folder_does_not_replace_the_file_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunFolder::new().unwrap();
        write_file(folder.path(), first.path());
        let second = RunFolder::new().unwrap();
        assert!(
            Announced::new(folder.path(), &world(), second.path())
                .unwrap()
                .is_none()
        );
        assert_eq!(left(folder.path()), None);
        assert_eq!(find(folder.path()).unwrap(), world());
    }

    #[test]
    fn flags_select_another_world_and_belong_together() {
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
        assert!(
            half.world(folder.path())
                .unwrap_err()
                .to_string()
                .contains("belong together")
        );
        let stray = Where {
            kubeconfig: path(),
            ..Where::default()
        };
        let error = stray.world(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--kubeconfig without --cloud"), "{error}");
    }
}
