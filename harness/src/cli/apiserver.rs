//! `drydock apiserver`: runs only a control plane, for tests of controllers in any language.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use clock::Clock;
use controllers::Name;
use durable::private_files;
use kube::config::Kubeconfig;
use scenario::Timeouts;
use stage::plane::embedded::{ControlPlane, Options};
use tokio::sync::oneshot;

use super::data_folder::DataFolder;
use super::output::say;
use super::service_addresses::ServiceAddresses;
use super::{Ended, Outcome, Stop, block_on, interrupted};

/// The name of the context of kubeconfigs that drydock writes.
const CONTEXT: &str = "drydock";
/// The namespace of the kubeconfig.
const NAMESPACE: &str = "default";

const EXAMPLES: &str = "Examples:
  drydock apiserver                                          all controllers, any free port
  drydock apiserver --controllers=none                       as envtest: nothing is collected or scheduled
  drydock apiserver --controllers='*,-deployment-controller' all controllers except one
  drydock apiserver --data=state --port=6443                 continues with the objects of the last start
  drydock apiserver --kubeconfig=test.kubeconfig --until-stdin-closes
                                                             for a test's helper: it waits for the file, and the
                                                             server ends with the test, also if that is killed";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Apiserver {
    /// The built-in controllers that run, as for kube-controller-manager: `*` for all, NAME, `-NAME` to leave one out, or
    /// `none`
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,

    /// Writes the administrator's kubeconfig to this file once the server is ready, and removes it at the end
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The port on the loopback address; 0: any free port
    #[arg(long, default_value_t = 0)]
    port: u16,

    #[command(flatten)]
    data: DataFolder,

    #[command(flatten)]
    services: ServiceAddresses,

    /// Ends when standard input is closed: also when the process that started the server is killed
    #[arg(long)]
    until_stdin_closes: bool,

    /// The seed of uids and delays
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Apiserver {
    pub(super) fn execute(self) -> Ended {
        block_on(async {
            tokio::select! {
                biased;
                _ = interrupted() => Ok(Outcome::Passed),
                ended = self.serve() => ended,
            }
        })?
    }

    async fn serve(self) -> Ended {
        let clock = Clock::wall();
        let from = clock.now();
        let controllers = Name::select(&self.controllers).map_err(|error| format!("--controllers: {error}"));
        let controllers = controllers.map_err(Stop::Usage)?;
        if let Some(path) = &self.kubeconfig {
            check_replaceable(path)?;
        }
        let timeouts = Timeouts::production();
        let mut plane = ControlPlane::start(Options {
            port: self.port,
            controllers,
            data: self.data.of_api_server(),
            services: self.services.into_map(),
            ..Options::new(self.seed, &timeouts, NAMESPACE, None)
        })
        .await?;
        let written = match &self.kubeconfig {
            Some(path) => Some(WrittenKubeconfig::copy(plane.kubeconfig(), path)?),
            None => None,
        };
        let kubeconfig = written.as_ref().map_or(plane.kubeconfig(), |written| &written.path);
        say!("export KUBECONFIG={}", kubeconfig.display());
        let milliseconds = clock.now().duration_since(from).as_millis();
        let end = self.data.describe_end("it");
        say!("The API server is ready after {milliseconds} ms. {end}");
        let ended = tokio::select! {
            biased;
            () = stdin_closes(), if self.until_stdin_closes => Ok(Outcome::Passed),
            reason = plane.failure() => Err(Stop::Usage(reason)),
        };
        drop(plane.shutdown().await);
        ended
    }
}

/// A kubeconfig in a file that the user named. Dropping it removes the file, unless another process replaced it.
struct WrittenKubeconfig {
    path: PathBuf,
    content: Vec<u8>,
}

impl WrittenKubeconfig {
    fn copy(from: &Path, to: &Path) -> Result<Self, Stop> {
        let content = std::fs::read(from)?;
        let written = private_files::replace(to, &content);
        written.map_err(|error| Stop::Usage(format!("--kubeconfig {}: {error}", to.display())))?;
        Ok(Self {
            path: to.to_owned(),
            content,
        })
    }
}

impl Drop for WrittenKubeconfig {
    fn drop(&mut self) {
        if std::fs::read(&self.path).is_ok_and(|content| content == self.content) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Refuses to replace a file that drydock did not write, such as the user's own kubeconfig.
fn check_replaceable(path: &Path) -> Result<(), Stop> {
    let refuse = |why: &str| Err(Stop::Usage(format!("--kubeconfig {}: {why}", path.display())));
    let mut text = String::new();
    match File::open(path).and_then(|mut file| file.read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return refuse(&error.to_string()),
    }
    let ours = Kubeconfig::from_yaml(&text).is_ok_and(|known| {
        known.current_context.as_deref() == Some(CONTEXT) && known.contexts.len() == 1 && known.clusters.len() == 1
    });
    if ours {
        return Ok(());
    }
    refuse("the file exists and drydock did not write it; name another file, or remove it")
}

/// Returns when standard input ends. The thread that reads it ends with the process.
async fn stdin_closes() {
    let (closed, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = closed.send(());
    });
    let _ = receiver.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kubeconfig_of_drydock_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        assert!(check_replaceable(&path).is_ok(), "there is no file");
        let of = |context: &str| {
            format!(
                "apiVersion: v1\nkind: Config\nclusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1'}}}}]\n\
                 contexts: [{{name: {context}, context: {{cluster: a, user: a}}}}]\nusers: []\n\
                 current-context: {context}\n"
            )
        };
        for (text, is_replaced) in [
            (of("drydock"), true),
            (of("production"), false),
            ("text".to_owned(), false),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(check_replaceable(&path).is_ok(), is_replaced, "{text}");
        }
    }

    #[test]
    fn a_written_kubeconfig_is_removed_unless_it_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, "text").unwrap();
        drop(WrittenKubeconfig::copy(&from, &to).unwrap());
        assert!(!to.exists());
        let written = WrittenKubeconfig::copy(&from, &to).unwrap();
        std::fs::write(&to, "of another process").unwrap();
        drop(written);
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "of another process");
    }
}
