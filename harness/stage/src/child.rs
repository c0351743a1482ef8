//! Child processes that end when this process ends, for any reason.
//!
//! A child starts through a tether: a second instance of this executable, which asks the kernel to send it SIGKILL when
//! its parent dies, and then executes the program.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use clock::Clock;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::run_folder::VARIABLE;

/// How long a process may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Errors of starting and running a child process.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The path of this executable, whose folder holds the other programs, is unknown.
    #[error("cannot determine the path of this program: {0}")]
    UnknownLocation(#[source] std::io::Error),
    /// The program is not built.
    #[error("{name} is not in the folder of {}: build it with `make build`", beside.display())]
    NotBuilt {
        /// The program.
        name: String,
        /// This executable.
        beside: PathBuf,
    },
    /// The operating system does not start the program, or its log cannot be opened.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The process ended unexpectedly.
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// An unexpected end of a child process.
#[derive(Debug, thiserror::Error)]
#[error("{program} ended ({status}){}", log_suffix(last_line.as_deref()))]
pub struct Ended {
    /// The program.
    pub program: String,
    /// The exit status, or the error of waiting for it.
    pub status: String,
    /// The last non-empty line of its log.
    pub last_line: Option<String>,
}

fn log_suffix(last_line: Option<&str>) -> String {
    last_line.map_or_else(String::new, |line| format!("; last log line: {line}"))
}

/// The arguments of the hidden command `tether`.
#[derive(Args, Clone, Debug)]
pub struct Tether {
    /// The process id of the parent that this one must not outlive
    #[arg(long)]
    parent: i32,

    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Tether {
    /// Replaces this process with the program. Returns only on failure, with the reason.
    pub fn become_it(self) -> String {
        if let Err(error) = end_with_parent(self.parent) {
            return error.to_string();
        }
        let Some((program, arguments)) = self.command.split_first() else {
            return "no program is specified".to_owned();
        };
        let error = std::process::Command::new(program).args(arguments).exec();
        format!("cannot start {}: {error}", program.display())
    }
}

/// Errors of tying this process to its parent.
#[derive(Debug, thiserror::Error)]
pub enum TetherError {
    /// The kernel refuses.
    #[error("cannot request a signal at the parent's death: {0}")]
    Refused(#[source] nix::errno::Errno),
    /// The parent has ended already.
    #[error("the parent process has ended")]
    Orphan,
}

/// Lets the kernel kill this process when its parent ends. Only Linux can.
///
/// # Errors
/// The kernel refuses, or the parent has ended already.
pub fn end_with_parent(parent: i32) -> Result<(), TetherError> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(TetherError::Refused)?;
    // The parent may have died before the call of prctl.
    if nix::unistd::getppid() != Pid::from_raw(parent) {
        return Err(TetherError::Orphan);
    }
    Ok(())
}

/// Passes the run's folder, which contains `log`, to a program, so that it is found if this process is killed.
pub(crate) fn name_folder(command: &mut Command, log: &Path) {
    if let Some(folder) = log.parent().and_then(|folder| folder.canonicalize().ok()) {
        command.env(VARIABLE, folder);
    }
}

/// A program to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name in messages.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Environment variables to set.
    pub environment: Vec<(String, OsString)>,
    /// The file that its output is appended to.
    pub log: PathBuf,
}

/// A started program. Dropping it kills its whole process group.
#[derive(Debug)]
pub struct Running {
    name: String,
    log: PathBuf,
    child: Child,
    group: Option<Pid>,
    /// The number of pauses that have not ended.
    pauses: Arc<AtomicUsize>,
}

impl Program {
    /// Starts the program in a new process group.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(&self) -> Result<Running, ChildError> {
        let cannot = |source| ChildError::Start {
            program: self.name.clone(),
            source,
        };
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(cannot)?;
        let errors = log.try_clone().map_err(cannot)?;
        let mut command = Command::new(this_program().map_err(cannot)?);
        name_folder(&mut command, &self.log);
        let child = command
            .args(["tether", "--parent", &std::process::id().to_string(), "--"])
            .args(&self.command)
            // The times in its log are those of other processes.
            .env("TZ", "UTC")
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Ok(Running {
            name: self.name.clone(),
            log: self.log.clone(),
            child,
            group,
            pauses: Arc::default(),
        })
    }
}

/// The process group of a started program, which can be stopped and continued.
#[derive(Clone, Copy, Debug)]
pub struct Group(Option<Pid>);

impl Group {
    /// Stops (SIGSTOP) or continues (SIGCONT) the processes of the group.
    pub fn set_stopped(self, stopped: bool) {
        let signal = if stopped { Signal::SIGSTOP } else { Signal::SIGCONT };
        if let Self(Some(group)) = self {
            let _ = killpg(group, signal);
        }
    }
}

impl Running {
    /// The process group of the program.
    pub fn group(&self) -> Group {
        Group(self.group)
    }

    /// Stops the program (SIGSTOP), and continues it (SIGCONT) after `time`. Overlapping pauses end at the latest of their ends.
    pub fn pause(&self, time: Duration, clock: Clock) {
        let (group, pauses) = (self.group(), Arc::downgrade(&self.pauses));
        self.pauses.fetch_add(1, Ordering::Relaxed);
        group.set_stopped(true);
        tokio::spawn(async move {
            clock.sleep(time).await;
            // After the program ended, another one may have the number of its group.
            let pauses = pauses.upgrade();
            if pauses.is_some_and(|pauses| pauses.fetch_sub(1, Ordering::Relaxed) == 1) {
                group.set_stopped(false);
            }
        });
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns when the process ends unexpectedly.
    pub async fn ended(&mut self) -> Ended {
        let status = match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Ended {
            program: self.name.clone(),
            status,
            last_line: last_line(&self.log),
        }
    }

    /// Kills the process group with SIGKILL.
    pub async fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait().await;
    }

    /// Sends SIGTERM, and kills the process group after a grace period.
    pub async fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            self.kill().await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = killpg(group, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a wait the process id is free again, but other processes of the group may still run.
        self.signal(Signal::SIGKILL);
        // Wait for its end before other values are dropped: it may still write into a folder that is about to be
        // removed.
        if self.child.id().is_some()
            && let Some(process) = self.group
        {
            let _ = nix::sys::wait::waitpid(process, None);
        }
    }
}

/// The last non-empty line of a log.
fn last_line(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(str::to_owned)
}

/// The path of the running executable, for starting a second instance. On Linux the path refers to the running file
/// even after a rebuild has replaced it.
///
/// # Errors
/// When the operating system does not provide the path.
pub fn this_program() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe()
}

/// The program of that name in the folder of this executable or, for tests, in its parent folder.
///
/// # Errors
/// [`ChildError::NotBuilt`] if neither folder has the program.
pub fn beside(name: &str) -> Result<PathBuf, ChildError> {
    let this = std::env::current_exe().map_err(ChildError::UnknownLocation)?;
    this.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| ChildError::NotBuilt {
            name: name.to_owned(),
            beside: this.clone(),
        })
}
