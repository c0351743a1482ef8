//! Processes: starts them, and stops them with their descendants.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clock::Clock;
use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::{DRYDOCK, kernel};

/// How long a process may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// How long `drydock up` may take to print the path of its kubeconfig.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Seconds since `from`, by the wall clock.
pub fn seconds_since(clock: &Clock, from: Timestamp) -> f64 {
    clock.now().duration_since(from).as_secs_f64()
}

/// A child process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    id: u32,
}

impl Process {
    /// Starts a program.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).kill_on_drop(true).spawn();
        let child = child.with_context(|| format!("cannot start {:?}", command.as_std().get_program()))?;
        let id = child.id().context("a process that was just started has no id")?;
        Ok(Self { child, id })
    }

    /// The process ID.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// See [`kernel::cpu_seconds`].
    pub fn cpu_seconds(&self) -> Result<f64> {
        kernel::cpu_seconds(self.id)
    }

    /// See [`kernel::peak_mebibytes`].
    pub fn peak_mebibytes(&self) -> Result<f64> {
        kernel::peak_mebibytes(self.id)
    }

    /// Sends SIGTERM, and kills the process if it does not end.
    pub async fn stop(mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.id)?), Signal::SIGTERM)?;
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    /// Kills the process.
    pub async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Fails if the process has ended.
    pub fn alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("it ended at its start: {status}"),
            None => Ok(()),
        }
    }
}

/// A running `drydock up`.
#[derive(Debug)]
pub struct Drydock {
    /// The server process.
    pub process: Process,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    output: Lines<BufReader<ChildStdout>>,
}

impl Drydock {
    /// Starts a control plane without programs; returns when it serves.
    pub async fn start() -> Result<Self> {
        Self::start_with(&["--without=mcm,fakecloud"]).await
    }

    /// Starts it with these arguments; returns when it serves.
    pub async fn start_with(arguments: &[&str]) -> Result<Self> {
        Self::start_in(Path::new("."), arguments).await
    }

    /// Starts it in a folder with these arguments; returns when it serves.
    pub async fn start_in(folder: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(DRYDOCK);
        command
            .current_dir(folder)
            .arg("up")
            .args(arguments)
            .stdout(Stdio::piped());
        let mut process = Process::start(&mut command)?;
        let output = process.child.stdout.take().context("no standard output")?;
        let mut output = BufReader::new(output).lines();
        let line = line_with(&mut output, "export KUBECONFIG=", START_LIMIT).await?;
        let (_, path) = line.split_once('=').unwrap_or_default();
        Ok(Self {
            process,
            kubeconfig: path.into(),
            output,
        })
    }

    /// The next printed line that contains this text.
    pub async fn line_with(&mut self, text: &str, limit: Duration) -> Result<String> {
        line_with(&mut self.output, text, limit).await
    }
}

async fn line_with(output: &mut Lines<BufReader<ChildStdout>>, text: &str, limit: Duration) -> Result<String> {
    let found = async {
        while let Some(line) = output.next_line().await? {
            if line.contains(text) {
                return Ok(line);
            }
        }
        bail!("drydock up ended without a line with {text:?}")
    };
    tokio::time::timeout(limit, found)
        .await
        .with_context(|| format!("drydock up printed no line with {text:?} within {limit:?}"))?
}
