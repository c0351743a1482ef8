//! Sessions of stage `kind` as child processes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clock::Seed;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// How long a session may take until the next message: programs may have to be compiled first.
const LINE_LIMIT: Duration = Duration::from_mins(10);
/// How long a session may take to end after Ctrl-C.
pub(crate) const END_LIMIT: Duration = Duration::from_secs(60);
/// The environment variable that identifies the processes of one session.
const MARK: &str = "DRYDOCK_TEST_SESSION";

/// A session in its own folder.
pub(crate) struct Session {
    folder: TempDir,
    mark: String,
    command: Command,
}

impl Session {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mark = Seed::from_entropy().unwrap().stream("session").uuid();
        let temporary = folder.path().join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_drydock"));
        command
            .args(arguments)
            .current_dir(folder.path())
            .env("TMPDIR", temporary)
            .env(MARK, &mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Self { folder, mark, command }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn start(&mut self) -> Running {
        let mut child = self.command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Running {
            child,
            lines: output.lines(),
            printed: Vec::new(),
        }
    }

    /// The remaining processes of the session, by their command lines.
    fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.mark);
        let folders = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let marked = folders.map(|folder| folder.path()).filter(|folder| {
            let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
        });
        marked.map(|folder| command_line(&folder)).collect()
    }

    /// Asserts that an ended session left nothing.
    pub(crate) async fn assert_nothing_is_left(&self, at: &str, printed: &[String]) {
        assert_eq!(self.processes(), Vec::<String>::new(), "{at}");
        let temporary = std::fs::read_dir(self.folder.path().join("tmp")).unwrap();
        let left: Vec<PathBuf> = temporary.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "{at}");
        if let Some(cluster) = cluster(printed) {
            let left = stage::kind::leftovers().await.unwrap();
            assert!(!left.contains(&cluster), "{at}: the cluster {cluster} is left");
        }
    }
}

/// The command line of a process.
fn command_line(folder: &Path) -> String {
    let line = std::fs::read(folder.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// The cluster that a session reports to create.
pub(crate) fn cluster(printed: &[String]) -> Option<String> {
    let name = printed
        .iter()
        .find_map(|line| line.split_once("creating the cluster "))?
        .1;
    name.split(',').next().map(str::to_owned)
}

/// The process of a session.
pub(crate) struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The lines that it has printed.
    pub(crate) printed: Vec<String>,
}

impl Running {
    /// Waits until the session prints a line with `text`.
    pub(crate) async fn wait_for_line(&mut self, text: &str) {
        let reading = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                let found = line.contains(text);
                self.printed.push(line);
                if found {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(LINE_LIMIT, reading).await;
        if found != Ok(true) {
            let mut errors = String::new();
            if let (Ok(false), Some(mut stderr)) = (found, self.child.stderr.take()) {
                stderr.read_to_string(&mut errors).await.unwrap();
            }
            panic!("it does not print {text:?}: {:?} {errors}", self.printed);
        }
    }

    /// Sends SIGINT to the process group, as a terminal does on Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let group = self.child.id().and_then(|id| i32::try_from(id).ok()).unwrap();
        killpg(Pid::from_raw(group), Signal::SIGINT).unwrap();
    }

    /// Waits for the end; returns exit status, output, and error output.
    pub(crate) async fn ends(mut self, limit: Duration) -> (Option<i32>, Vec<String>, String) {
        let mut failure = String::new();
        let mut errors = self.child.stderr.take().unwrap();
        let ending = async {
            let rest = async {
                while let Some(line) = self.lines.next_line().await.unwrap() {
                    self.printed.push(line);
                }
            };
            let ((), read, status) = tokio::join!(rest, errors.read_to_string(&mut failure), self.child.wait());
            read.unwrap();
            status.unwrap().code()
        };
        let status = tokio::time::timeout(limit, ending).await;
        let status = status.unwrap_or_else(|_| panic!("it did not end within {limit:?}: {failure}"));
        (status, self.printed, failure)
    }
}
