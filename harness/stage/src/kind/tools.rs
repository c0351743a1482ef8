//! The programs that a cluster needs: finding them, and running them to their end within a limit.

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

use crate::child::this_program;

/// How many of a program's last lines are shown when it fails.
const LAST_LINES: usize = 3;

/// How long this process waits for a Ctrl-C that struck a program which it had just begun.
const STRUCK: Duration = Duration::from_secs(1);

/// The programs that are missing, and how to get them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingTools {
    /// kind.
    #[error("{KIND_IS_MISSING}")]
    Kind,
    /// Docker's command line.
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

/// Why a program that runs to its end fails. `failing` says for what.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It cannot be started, or its files cannot be used.
    #[error("{failing}: {source}")]
    Io {
        /// What is not done.
        failing: String,
        /// Why.
        source: std::io::Error,
    },
    /// It ends without success, and says nothing.
    #[error("{failing} ({status})")]
    Status {
        /// What is not done.
        failing: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// It ends without success.
    #[error("{failing}: {words}")]
    Failed {
        /// What is not done.
        failing: String,
        /// The last lines that it wrote.
        words: String,
    },
    /// It does not end in time.
    #[error("{failing} within {limit:?}; the last words were: {words}")]
    TooSlow {
        /// What is not done.
        failing: String,
        /// How long it may take.
        limit: Duration,
        /// The last lines that it wrote.
        words: String,
    },
}

/// kind and Docker's command line, which kind calls.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    /// The program `kind`.
    pub(super) kind: PathBuf,
    /// The program `docker`.
    pub(super) docker: PathBuf,
    /// PATH as kind needs it: with `docker` in it.
    pub(super) path: OsString,
}

impl Tools {
    /// Looks in PATH, then in the cache of `scripts/kubernetes`.
    ///
    /// # Errors
    /// Which programs are missing.
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

/// A program in PATH, or at a place in the newest folder of the cache that has it.
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

/// Where `scripts/kubernetes` keeps what it made.
fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("DRYDOCK_CACHE").or_else(|| {
        let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(caches.join("drydock"))
    })
}

/// PATH with one more folder in front, unless it is there.
fn path_with(folder: Option<&Path>) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Some(folder) = folder.filter(|folder| !folders.iter().any(|has| has == folder)) {
        folders.insert(0, folder.to_owned());
    }
    std::env::join_paths(folders).unwrap_or(path)
}

/// The process group of a program that was ended before its own end, and whose children still run.
#[derive(Clone, Debug, Default)]
pub(super) struct Orphans(Arc<Mutex<Option<Pid>>>);

impl Orphans {
    /// Takes note of a group, or of none.
    fn note(&self, group: Option<Pid>) {
        *self.0.lock() = group;
    }

    /// Whether one of them still runs.
    pub(super) fn run(&self) -> bool {
        let group = *self.0.lock();
        group.is_some_and(|group| {
            // The first of them is a child of ours, which counts as long as nobody asked how it ended.
            let _ = waitpid(group, Some(WaitPidFlag::WNOHANG));
            killpg(group, None).is_ok()
        })
    }

    /// Ends those that still run.
    pub(super) fn end(&self) {
        let group = self.0.lock().take();
        if let Some(group) = group {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// A program to be run to its end.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// What it does, for messages: "the cluster cannot be created" follows.
    pub(super) failing: &'a str,
    /// Program and arguments.
    pub(super) command: Vec<OsString>,
    /// Variables to set; `None`: to unset.
    pub(super) environment: Vec<(&'a str, Option<OsString>)>,
    /// Where its standard error is written; standard output goes beside it, to `.out`.
    pub(super) log: PathBuf,
    /// How long it may take.
    pub(super) limit: Duration,
    /// Who looks after its children when it is ended before its own end; absent: they end with it.
    pub(super) orphans: Option<Orphans>,
}

impl Call<'_> {
    /// Runs it and returns its standard output. Dropped on the way, it ends the program and all that it started; so
    /// does the end of this process.
    ///
    /// # Errors
    /// What failed, and the last lines of the program.
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
            // Nothing that it started outlives it, and nobody waits for that.
            group.orphans = None;
        }
        if let Ok(Ok(status)) = ended
            && status.signal() == Some(Signal::SIGINT as i32)
        {
            // Until it has a group of its own, which is an instant after it begins, Ctrl-C strikes it as well as this process. Whoever
            // waits hears of that and drops this; a program that somebody else ended so is told of a little later.
            tokio::time::sleep(STRUCK).await;
        }
        match ended {
            Ok(Ok(status)) if status.success() => std::fs::read_to_string(&output_path).map_err(cannot),
            Ok(Ok(status)) => Err(match last_lines(&self.log) {
                words if words.is_empty() => CallError::Status {
                    failing: failing(),
                    status,
                },
                words => CallError::Failed {
                    failing: failing(),
                    words,
                },
            }),
            Ok(Err(error)) => Err(cannot(error)),
            Err(_) => Err(CallError::TooSlow {
                failing: failing(),
                limit: self.limit,
                words: last_lines(&self.log),
            }),
        }
    }
}

/// A process group that ends when this is dropped; only its first process where somebody looks after the others.
struct Group {
    id: Option<Pid>,
    orphans: Option<Orphans>,
}

impl Group {
    /// The group that a process leads, which was spawned with `process_group(0)`.
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
                orphans.note(Some(id));
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

/// Runs a short program and returns its output. Dropping the future kills the program and its children, and waits until the
/// program is dead.
///
/// # Errors
/// It cannot be started.
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

/// The last lines of a log that say something, as one line.
fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    last_words(&String::from_utf8_lossy(&text))
}

/// The last lines of a text that say something, as one line. A program that gives a reason after "ERROR:" is
/// quoted from there.
pub(super) fn last_words(text: &str) -> String {
    let told: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let Some(error) = told.iter().find_map(|line| line.split_once("ERROR: ")) {
        return error.1.to_owned();
    }
    told[told.len().saturating_sub(LAST_LINES)..].join(" / ")
}

/// A list of arguments from things of several types.
pub(super) fn arguments<const N: usize>(list: [&OsStr; N]) -> Vec<OsString> {
    list.into_iter().map(OsStr::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_that_a_program_gives_is_its_last_word() {
        assert_eq!(
            last_words("Creating\nERROR: failed to create: no such image\nCommand Output: long\nStack"),
            "failed to create: no such image"
        );
        assert_eq!(last_words("one\n\ntwo\nthree\nfour\n"), "two / three / four");
        assert_eq!(last_words(""), "");
    }

    #[tokio::test]
    async fn a_program_whose_output_is_awaited_no_longer_is_dead() {
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
            output = output(&mut command) => panic!("it ended: {output:?}"),
            id = started => id,
        };
        // A dead process that is not reaped yet has no command line.
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&line), "");
    }

    #[test]
    fn a_folder_comes_first_in_the_path_and_only_once() {
        let folder = Path::new("/drydock/test/bin");
        let path = path_with(Some(folder));
        assert_eq!(std::env::split_paths(&path).next().unwrap(), folder);
        let has = std::env::split_paths(&path_with(None)).next().unwrap();
        assert_eq!(path_with(Some(&has)), path_with(None));
    }
}
