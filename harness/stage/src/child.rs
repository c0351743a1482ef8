//! Child processes that end with this one, whatever ends it.
//!
//! A child is started through a tether: this executable once more, which asks the kernel for SIGKILL at its parent's
//! death and then becomes the program.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// How long a process may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Why a child process does not run.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The path of this executable, beside which the others are, is unknown.
    #[error("cannot tell where this program is: {0}")]
    UnknownLocation(#[source] std::io::Error),
    /// The program is not built.
    #[error("there is no {name} beside {}: build it with `make build`", beside.display())]
    NotBuilt {
        /// The program.
        name: String,
        /// This executable.
        beside: PathBuf,
    },
    /// The operating system does not start it, or its log cannot be opened.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// It ended by itself.
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// How a child process ended by itself.
#[derive(Debug, thiserror::Error)]
#[error("{program} ended ({status}){}", shown(last_line.as_deref()))]
pub struct Ended {
    /// The program.
    pub program: String,
    /// Its exit status, or why that is unknown.
    pub status: String,
    /// The last line of its log that is not empty.
    pub last_line: Option<String>,
}

fn shown(last_line: Option<&str>) -> String {
    last_line.map_or_else(String::new, |line| format!("; its last words: {line}"))
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
    /// Becomes the program; returns only when it cannot, with the reason.
    pub fn become_it(self) -> String {
        #[cfg(target_os = "linux")]
        if let Err(error) = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL) {
            return format!("cannot tie a process to its parent: {error}");
        }
        // The parent may have died before the kernel was asked.
        if nix::unistd::getppid() != Pid::from_raw(self.parent) {
            return "the parent is gone".to_owned();
        }
        let Some((program, arguments)) = self.command.split_first() else {
            return "no program is named".to_owned();
        };
        let error = std::process::Command::new(program).args(arguments).exec();
        format!("cannot start {}: {error}", program.display())
    }
}

/// A program to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is called in messages.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Variables to set.
    pub environment: Vec<(String, OsString)>,
    /// Where its output goes, appended.
    pub log: PathBuf,
}

/// A started program; killed with its whole process group when dropped.
#[derive(Debug)]
pub struct Running {
    name: String,
    log: PathBuf,
    child: Child,
    group: Option<Pid>,
}

impl Program {
    /// Starts it, in a process group of its own.
    ///
    /// # Errors
    /// When it cannot be started.
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
        let child = Command::new(this_program().map_err(cannot)?)
            .args(["tether", "--parent", &std::process::id().to_string(), "--"])
            .args(&self.command)
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
        })
    }
}

/// The process group of a started program, for stopping it and letting it go on.
#[derive(Clone, Copy, Debug)]
pub struct Group(Option<Pid>);

impl Group {
    /// Has it stand still, or go on (SIGSTOP, SIGCONT).
    pub fn stand_still(self, still: bool) {
        let signal = if still { Signal::SIGSTOP } else { Signal::SIGCONT };
        if let Self(Some(group)) = self {
            let _ = killpg(group, signal);
        }
    }
}

impl Running {
    /// Its process group.
    pub fn group(&self) -> Group {
        Group(self.group)
    }

    /// Returns when it ends by itself.
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

    /// Ends it without notice.
    pub async fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait().await;
    }

    /// Asks it to end, and ends it when it does not.
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
        // A process that was waited for has given its id back; others of its group may live on.
        self.signal(Signal::SIGKILL);
        // It is gone before anything else goes, above all the folder that it may write into.
        if self.child.id().is_some()
            && let Some(process) = self.group
        {
            let _ = nix::sys::wait::waitpid(process, None);
        }
    }
}

/// The last line of a log that is not empty.
fn last_line(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(str::to_owned)
}

/// The program that runs, to start it once more. Of one that was built anew meanwhile, Linux still has the file that runs.
///
/// # Errors
/// When the system does not tell where it is.
pub fn this_program() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe()
}

/// The program of that name beside this executable, or in a build folder above a test's.
///
/// # Errors
/// [`ChildError::NotBuilt`] says what to build.
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
