//! The end of a cluster that this process created: nothing of it is left, whatever ends the process in order.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use clock::Clock;
use judge::evaluate::between;

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
    /// One line with what is left and the command that removes it.
    pub(super) fn remove(&mut self) -> Result<(), String> {
        let Some(target) = self.0.take() else {
            return Ok(());
        };
        let left = format!(
            "the cluster {0} is left; remove it with: kind delete cluster --name {0}",
            target.cluster
        );
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || done.send(target.delete()));
        match ended.recv_timeout(LIMIT) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(format!("{left} ({reason})")),
            Err(_) => Err(format!("{left} (it was not deleted within {LIMIT:?})")),
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if let Err(reason) = self.remove() {
            eprintln!("drydock: {reason}");
        }
    }
}

impl Target {
    /// kind deletes the nodes that it knows; a creation that was killed may have left another one.
    fn delete(&self) -> Result<(), String> {
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
    fn remove_nodes(&self) -> Result<bool, String> {
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
    fn call(&self, command: &mut Command) -> Result<String, String> {
        let output: io::Result<Output> = command
            .env("PATH", &self.tools.path)
            .stdin(Stdio::null())
            .process_group(0)
            .output();
        match output {
            Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Ok(output) => Err(last_words(&String::from_utf8_lossy(&output.stderr))),
            Err(error) => Err(error.to_string()),
        }
    }
}
