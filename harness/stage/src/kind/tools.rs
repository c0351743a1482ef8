//! Finds the programs that a cluster needs, and runs them to their end within a time limit.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::process::{Child, Command};

use crate::child::{name_folder, this_program};

/// How many of a failed program's last lines a message contains.
const LAST_LINES: usize = 3;

/// How long this process waits for its own Ctrl-C after a SIGINT has ended a program that it just started.
const INTERRUPT_DELAY: Duration = Duration::from_secs(1);

/// The programs that are missing, and how to get them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingTools {
    /// kind.
    #[error("{KIND_IS_MISSING}")]
    Kind,
    /// The Docker command line.
    #[error("{DOCKER_IS_MISSING}")]
    Docker,
    /// Both.
    #[error("{KIND_IS_MISSING}; {DOCKER_IS_MISSING}")]
    Both,
}

const KIND_IS_MISSING: &str = "the program kind is in neither PATH nor Drydock's cache: \
     install it (https://kind.sigs.k8s.io), or build it with scripts/kubernetes/build";
const DOCKER_IS_MISSING: &str = "the program docker is in neither PATH nor Drydock's cache: \
     install Docker, or on Debian run scripts/kubernetes/engine start";

/// Errors of running a program to its end. `failing` describes the failed operation.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It cannot be started, or its files cannot be used.
    #[error("{failing}: {source}")]
    Io {
        /// The failed operation.
        failing: String,
        /// The cause.
        source: std::io::Error,
    },
    /// It fails without output.
    #[error("{failing} ({status})")]
    Status {
        /// The failed operation.
        failing: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// It fails.
    #[error("{failing}: {output}")]
    Failed {
        /// The failed operation.
        failing: String,
        /// Its last lines of output.
        output: String,
    },
    /// It does not end in time.
    #[error("{failing} within {limit:?}; last output: {output}")]
    TooSlow {
        /// The failed operation.
        failing: String,
        /// How long it may take.
        limit: Duration,
        /// Its last lines of output.
        output: String,
    },
}

/// kind and the Docker command line, which kind calls.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    /// The program `kind`.
    pub(super) kind: PathBuf,
    /// The program `docker`.
    pub(super) docker: PathBuf,
    /// PATH for kind, with the folder of `docker`.
    pub(super) path: OsString,
}

impl Tools {
    /// Searches PATH, then the cache of `scripts/kubernetes`.
    ///
    /// # Errors
    /// The missing programs.
    pub(super) fn find() -> Result<Self, MissingTools> {
        match (find("kind", "bin/kind"), find("docker", "docker")) {
            (Some(kind), Some(docker)) => Ok(Self {
                kind,
                path: path_with(docker.parent()),
                docker,
            }),
            (None, Some(_)) => Err(MissingTools::Kind),
            (Some(_), None) => Err(MissingTools::Docker),
            (None, None) => Err(MissingTools::Both),
        }
    }
}

/// A program in PATH, else in the engine folder of the cache, else at path `cached` in the newest Kubernetes folder of
/// the cache that has it.
fn find(name: &str, cached: &str) -> Option<PathBuf> {
    if let Ok(path) = which::which(name) {
        return Some(path);
    }
    let cache = cache_folder()?;
    let engine = cache.join("engine/bin").join(cached);
    if engine.is_file() {
        return Some(engine);
    }
    let mut folders: Vec<PathBuf> = std::fs::read_dir(cache)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("kubernetes-"))
        })
        .collect();
    folders.sort();
    folders
        .into_iter()
        .rev()
        .map(|folder| folder.join(cached))
        .find(|path| path.is_file())
}

/// The folder in which `scripts/kubernetes` stores its results.
fn cache_folder() -> Option<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    variable("DRYDOCK_CACHE").or_else(|| {
        let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
        Some(caches.join("drydock"))
    })
}

/// PATH with another folder in front, unless PATH contains it.
fn path_with(folder: Option<&Path>) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Some(folder) = folder.filter(|folder| !folders.iter().any(|other| other == folder)) {
        folders.insert(0, folder.to_owned());
    }
    std::env::join_paths(folders).unwrap_or(path)
}

/// The process group of a program that was killed and whose children may still run.
#[derive(Clone, Debug, Default)]
pub(super) struct Orphans(Arc<Mutex<Option<Pid>>>);

impl Orphans {
    /// Records the process group, or `None`.
    fn record(&self, group: Option<Pid>) {
        *self.0.lock() = group;
    }

    /// Whether a process of the group still runs.
    pub(super) fn are_running(&self) -> bool {
        let group = *self.0.lock();
        group.is_some_and(|group| {
            // The group leader is a child of this process and remains in the group as a zombie until this wait.
            let _ = waitpid(group, Some(WaitPidFlag::WNOHANG));
            killpg(group, None).is_ok()
        })
    }

    /// Kills the processes of the group.
    pub(super) fn kill(&self) {
        let group = self.0.lock().take();
        if let Some(group) = group {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// A program to run to its end.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// The beginning of error messages, for example "the cluster cannot be created".
    pub(super) failing: &'a str,
    /// Program and arguments.
    pub(super) command: Vec<OsString>,
    /// Environment variables to set, or to unset if `None`.
    pub(super) environment: Vec<(&'a str, Option<OsString>)>,
    /// The file for its standard error. Standard output goes to the same path with the extension `.out`.
    pub(super) log: PathBuf,
    /// How long it may take.
    pub(super) limit: Duration,
    /// Records the children that still run when the program is killed. If `None`, they are killed with it.
    pub(super) orphans: Option<Orphans>,
}

impl Call<'_> {
    /// Runs the program and returns its standard output. Dropping the future kills the program and, unless `orphans` is
    /// set, its children. The end of this process kills the program too.
    ///
    /// # Errors
    /// The failed operation, and the last lines of the program.
    pub(super) async fn run(self) -> Result<String, CallError> {
        let failing = || self.failing.to_owned();
        let cannot = |source| CallError::Io {
            failing: failing(),
            source,
        };
        let output_path = self.log.with_extension("out");
        let errors = File::create(&self.log).map_err(cannot)?;
        let output = File::create(&output_path).map_err(cannot)?;
        let mut command = Command::new(this_program().map_err(cannot)?);
        command
            .args(["tether", "--parent", &std::process::id().to_string(), "--"])
            .args(&self.command)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .kill_on_drop(true);
        name_folder(&mut command, &self.log);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.spawn().map_err(cannot)?;
        let mut group = Group::of(&child);
        group.orphans = self.orphans.clone();
        let ended = tokio::time::timeout(self.limit, child.wait()).await;
        if let Ok(Ok(_)) = ended {
            // After a regular end, the drop of the group kills remaining children, and no cleanup has to wait for them.
            group.orphans = None;
        }
        if let Ok(Ok(status)) = ended
            && status.signal() == Some(Signal::SIGINT as i32)
        {
            // Until the new process has its own group, shortly after its start, Ctrl-C reaches it as well as this
            // process. In that case this process receives the signal too, and drops this future during the delay. If
            // another process sent the SIGINT, the delay only postpones the error.
            tokio::time::sleep(INTERRUPT_DELAY).await;
        }
        match ended {
            Ok(Ok(status)) if status.success() => std::fs::read_to_string(&output_path).map_err(cannot),
            Ok(Ok(status)) => Err(match last_lines(&self.log) {
                output if output.is_empty() => CallError::Status {
                    failing: failing(),
                    status,
                },
                output => CallError::Failed {
                    failing: failing(),
                    output,
                },
            }),
            Ok(Err(error)) => Err(cannot(error)),
            Err(_) => Err(CallError::TooSlow {
                failing: failing(),
                limit: self.limit,
                output: last_lines(&self.log),
            }),
        }
    }
}

/// A process group that is killed on drop. If `orphans` is set, only its leader is killed.
struct Group {
    id: Option<Pid>,
    orphans: Option<Orphans>,
}

impl Group {
    /// The group of a process that was spawned with `process_group(0)`.
    fn of(child: &Child) -> Self {
        Self {
            id: child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw),
            orphans: None,
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(id) = self.id else {
            return;
        };
        match &self.orphans {
            Some(orphans) => {
                let _ = kill(id, Signal::SIGKILL);
                orphans.record(Some(id));
            }
            None => {
                let _ = killpg(id, Signal::SIGKILL);
            }
        }
        // SIGKILL takes effect later: until then the process may write into a folder that the caller removes next.
        // The process stays a zombie, which Tokio reaps.
        let _ = waitid(Id::Pid(id), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    }
}

/// Runs a short program and returns its output. Dropping the future kills the program and its children, and waits for
/// the end of the program.
///
/// # Errors
/// When the program cannot be started.
pub(super) async fn output(command: &mut Command) -> std::io::Result<Output> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let child = command.spawn()?;
    let mut group = Group::of(&child);
    let output = child.wait_with_output().await;
    group.id = None;
    output
}

/// The last non-empty lines of a log, as one line.
fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    last_lines_of(&String::from_utf8_lossy(&text))
}

/// The last non-empty lines of a text, as one line. If a line contains "ERROR: ", only the text after it.
pub(super) fn last_lines_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let Some(error) = lines.iter().find_map(|line| line.split_once("ERROR: ")) {
        return error.1.to_owned();
    }
    lines[lines.len().saturating_sub(LAST_LINES)..].join(" / ")
}

/// Converts arguments to owned strings.
pub(super) fn arguments<const N: usize>(list: [&OsStr; N]) -> Vec<OsString> {
    list.into_iter().map(OsStr::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_after_error_replaces_the_last_lines() {
        assert_eq!(
            last_lines_of("Creating\nERROR: failed to create: no such image\nCommand Output: long\nStack"),
            "failed to create: no such image"
        );
        assert_eq!(last_lines_of("one\n\ntwo\nthree\nfour\n"), "two / three / four");
        assert_eq!(last_lines_of(""), "");
    }

    #[tokio::test]
    async fn dropping_the_output_future_kills_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\"; exec sleep 600"]).arg(&file);
        let started = async {
            loop {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                match text.trim_end().parse::<u32>() {
                    Ok(id) if text.ends_with('\n') => return id,
                    _ => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            }
        };
        let id = tokio::select! {
            output = output(&mut command) => panic!("the program ended: {output:?}"),
            id = started => id,
        };
        // A dead process that is not reaped yet has no command line.
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&line), "");
    }

    #[test]
    fn a_folder_is_added_to_the_front_of_the_path_only_once() {
        let folder = Path::new("/drydock/test/bin");
        let path = path_with(Some(folder));
        assert_eq!(std::env::split_paths(&path).next().unwrap(), folder);
        let first = std::env::split_paths(&path_with(None)).next().unwrap();
        assert_eq!(path_with(Some(&first)), path_with(None));
    }
}
