//! Processes: starting them, ending them with everything they started, and reading what they used from the kernel.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clock::Clock;
use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::DRYDOCK;

/// How long a process may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// How long `drydock up` may take to say where its kubeconfig is.
const START_LIMIT: Duration = Duration::from_secs(20);
/// The kernel counts CPU time for users in hundredths of a second.
const TICKS_A_SECOND: f64 = 100.0;

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

    /// CPU time used so far, user and system, all threads.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let text = self.read("stat")?;
        // The second field is the program's name in brackets, which may contain anything.
        let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks = |index: usize| -> Result<f64> {
            let field = fields.get(index).context("/proc/PID/stat is too short")?;
            Ok(field.parse::<u32>()?.into())
        };
        Ok((ticks(11)? + ticks(12)?) / TICKS_A_SECOND)
    }

    /// The most memory it ever had resident, in MiB.
    pub fn peak_mebibytes(&self) -> Result<f64> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next());
        let kibibytes: u32 = kibibytes.context("/proc/PID/status has no VmHWM")?.parse()?;
        Ok(f64::from(kibibytes) / 1024.0)
    }

    /// Asks it to end, and ends it when it does not.
    pub async fn stop(mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.id)?), Signal::SIGTERM)?;
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    /// Ends it without notice.
    pub async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Fails when it has ended.
    pub fn alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("it ended at its start: {status}"),
            None => Ok(()),
        }
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.id);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}; this bench needs Linux"))
    }
}

/// `drydock up` with the control plane alone.
#[derive(Debug)]
pub struct Drydock {
    /// The process that serves.
    pub process: Process,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    // Whatever it prints later finds a reader.
    _output: BufReader<ChildStdout>,
}

impl Drydock {
    /// Starts it; returns when it serves.
    pub async fn start() -> Result<Self> {
        let mut command = Command::new(DRYDOCK);
        command.args(["up", "--without=mcm,fakecloud"]).stdout(Stdio::piped());
        let mut process = Process::start(&mut command)?;
        let mut output = BufReader::new(process.child.stdout.take().context("no standard output")?);
        let told = tokio::time::timeout(START_LIMIT, kubeconfig_in(&mut output)).await;
        let kubeconfig = told.context("drydock up says nothing")??;
        Ok(Self {
            process,
            kubeconfig,
            _output: output,
        })
    }
}

async fn kubeconfig_in(output: &mut BufReader<ChildStdout>) -> Result<PathBuf> {
    let mut line = String::new();
    while output.read_line(&mut line).await? > 0 {
        if let Some(path) = line.trim().strip_prefix("export KUBECONFIG=") {
            return Ok(path.into());
        }
        line.clear();
    }
    bail!("drydock up ended without naming a kubeconfig")
}
