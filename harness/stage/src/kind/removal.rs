//! The end of a cluster that this process created: nothing of it is left, whatever ends the process in order.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use clock::Clock;
use judge::evaluate::between;

use super::error::{ClusterError, DeleteError};
use super::tools::{Orphans, Tools, last_words};

/// How long a deletion may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How long what an ended creation left running may take to end: a node that is being started cannot be called back, and
/// can be removed only when it is there.
const ORPHANS_LIMIT: Duration = Duration::from_secs(20);
/// How often that is looked at.
const ORPHANS_PROBE: Duration = Duration::from_millis(100);

/// Deletes the cluster when it is dropped, unless that was done or is not wanted.
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
    /// Of a cluster that is about to be created. kind takes it out of the kubeconfig that it wrote, and out of no other.
    pub(super) fn of(tools: &Tools, cluster: &str, kubeconfig: &Path, orphans: &Orphans) -> Self {
        Self(Some(Target {
            tools: tools.clone(),
            cluster: cluster.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            orphans: orphans.clone(),
        }))
    }

    /// Lets the cluster be.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    /// Deletes the cluster now.
    ///
    /// # Errors
    /// What is left, and the command that removes it.
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
    /// kind deletes the nodes that it knows; a creation that was killed may have left another one.
    fn delete(&self) -> Result<(), DeleteError> {
        self.outlast_creation();
        let mut delete = Command::new(&self.tools.kind);
        delete.args(["delete", "cluster", "--name", &self.cluster, "--kubeconfig"]);
        let deleted = self.call(delete.arg(&self.kubeconfig));
        if self.remove_nodes()? {
            return Ok(());
        }
        deleted.map(drop)
    }

    /// Removes nodes until nobody is about to start one. What else still runs in them ends with them.
    fn outlast_creation(&self) {
        let clock = Clock::wall();
        let started = clock.now();
        let (_held, never) = mpsc::channel::<()>();
        while self.orphans.run() && between(started, clock.now()) < ORPHANS_LIMIT {
            // One that is just being made may refuse; it is looked at again.
            let _ = self.remove_nodes();
            let _ = never.recv_timeout(ORPHANS_PROBE);
        }
        self.orphans.end();
    }

    /// Removes the containers that are nodes of the cluster, and says whether there were any.
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

    /// Runs a program that a terminal's Ctrl-C does not reach.
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
            words: last_words(&String::from_utf8_lossy(&output.stderr)),
        })
    }
}
