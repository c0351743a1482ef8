//! Deletes a cluster that this process created when the process ends in an orderly way.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use clock::Clock;
use judge::evaluate::between;

use super::error::{ClusterError, DeleteError};
use super::tools::{Orphans, Tools, last_lines_of};

/// How long a deletion may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the remaining processes of an aborted creation may run: the start of a node cannot be cancelled, and the
/// node can be removed only after it exists.
const ORPHANS_LIMIT: Duration = Duration::from_secs(20);
/// The interval of checks for these processes.
const ORPHANS_PROBE: Duration = Duration::from_millis(100);

/// Deletes the cluster when dropped, unless it is already deleted or to be kept.
#[derive(Debug)]
pub(super) struct Removal(Option<Target>);

#[derive(Clone, Debug)]
struct Target {
    tools: Tools,
    cluster: String,
    kubeconfig: PathBuf,
    orphans: Orphans,
}

impl Removal {
    /// The removal of a cluster that is about to be created. kind removes it only from the kubeconfig in `kubeconfig`.
    pub(super) fn of(tools: &Tools, cluster: &str, kubeconfig: &Path, orphans: &Orphans) -> Self {
        Self(Some(Target {
            tools: tools.clone(),
            cluster: cluster.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            orphans: orphans.clone(),
        }))
    }

    /// Keeps the cluster.
    pub(super) fn keep_cluster(&mut self) {
        self.0 = None;
    }

    /// Deletes the cluster now.
    ///
    /// # Errors
    /// When the cluster is not deleted, with the command that deletes it.
    pub(super) fn remove(&mut self) -> Result<(), ClusterError> {
        let Some(target) = self.0.take() else {
            return Ok(());
        };
        let name = target.cluster.clone();
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || done.send(target.delete()));
        match ended.recv_timeout(LIMIT) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(ClusterError::Left { name, source }),
            Err(_) => Err(ClusterError::SlowDeletion { name, limit: LIMIT }),
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("drydock: {error}");
        }
    }
}

impl Target {
    /// Deletes the cluster with kind, and then nodes that kind does not list, such as those of a killed creation.
    fn delete(&self) -> Result<(), DeleteError> {
        self.finish_aborted_creation();
        let mut delete = Command::new(&self.tools.kind);
        delete.args(["delete", "cluster", "--name", &self.cluster, "--kubeconfig"]);
        let deleted = self.call(delete.arg(&self.kubeconfig));
        if self.remove_nodes()? {
            return Ok(());
        }
        deleted.map(drop)
    }

    /// Removes nodes until no process of an aborted creation can start another one.
    fn finish_aborted_creation(&self) {
        let clock = Clock::wall();
        let started = clock.now();
        let (_sender, never) = mpsc::channel::<()>();
        while self.orphans.are_running() && between(started, clock.now()) < ORPHANS_LIMIT {
            // The removal of a node that is being created may fail; the next iteration retries.
            let _ = self.remove_nodes();
            let _ = never.recv_timeout(ORPHANS_PROBE);
        }
        self.orphans.kill();
    }

    /// Removes the containers that are nodes of the cluster. Returns whether there were any.
    fn remove_nodes(&self) -> Result<bool, DeleteError> {
        let label = format!("label=io.x-k8s.kind.cluster={}", self.cluster);
        let nodes = self.call(Command::new(&self.tools.docker).args(["ps", "-aq", "--filter", &label]))?;
        let nodes: Vec<&str> = nodes.split_whitespace().collect();
        if nodes.is_empty() {
            return Ok(false);
        }
        self.call(Command::new(&self.tools.docker).args(["rm", "-f", "-v"]).args(nodes))?;
        Ok(true)
    }

    /// Runs a program in its own process group, so that Ctrl-C in a terminal does not reach it.
    fn call(&self, command: &mut Command) -> Result<String, DeleteError> {
        let output = command
            .env("PATH", &self.tools.path)
            .stdin(Stdio::null())
            .process_group(0)
            .output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(DeleteError::Failed {
            output: last_lines_of(&String::from_utf8_lossy(&output.stderr)),
        })
    }
}
