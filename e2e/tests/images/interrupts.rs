//! Sessions of stage `kind` that end early: by Ctrl-C at every stage of their lives, and by missing
//! requirements. Asserts that no container, process or temporary folder is left.

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
const END_LIMIT: Duration = Duration::from_secs(60);
/// How long a session may take to report a missing requirement without running a program.
const REQUIREMENT_LIMIT: Duration = Duration::from_secs(30);
/// The same when it must try a cluster.
const TRY_LIMIT: Duration = Duration::from_mins(4);
/// The exit status of an invalid command line.
const USAGE: i32 = 2;
/// The exit status on a machine that cannot run the stage.
const UNAVAILABLE: i32 = 3;
/// The environment variable that identifies the processes of one session.
const MARK: &str = "DRYDOCK_TEST_SESSION";

/// The messages of a session's phases, in order; Ctrl-C is sent at each.
const PARTS: [&str; 6] = [
    // Images are built and the cluster is created at the same time.
    "creating the cluster",
    "images built",
    " created: ",
    "images loaded",
    "machine API installed",
    "deployed into",
];

/// Ctrl-C is also sent this long after the creation of the cluster began, when its node is about to start.
const MOMENTS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// A session in its own folder.
struct Session {
    folder: TempDir,
    mark: String,
    command: Command,
}

impl Session {
    fn new(arguments: &[&str]) -> Self {
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

    fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    fn start(&mut self) -> Running {
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
    async fn assert_nothing_is_left(&self, at: &str, printed: &[String]) {
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
fn cluster(printed: &[String]) -> Option<String> {
    let name = printed
        .iter()
        .find_map(|line| line.split_once("creating the cluster "))?
        .1;
    name.split(',').next().map(str::to_owned)
}

/// The process of a session.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    printed: Vec<String>,
}

impl Running {
    /// Waits until the session prints a line with `text`.
    async fn wait_for_line(&mut self, text: &str) {
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
    fn interrupt(&self) {
        let group = self.child.id().and_then(|id| i32::try_from(id).ok()).unwrap();
        killpg(Pid::from_raw(group), Signal::SIGINT).unwrap();
    }

    /// Waits for the end; returns exit status, output, and error output.
    async fn ends(mut self, limit: Duration) -> (Option<i32>, Vec<String>, String) {
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

#[tokio::test]
async fn ctrl_c_in_any_phase_leaves_nothing_behind() {
    let mut clusters = Vec::new();
    let later = MOMENTS.map(|moment| (PARTS[0], moment));
    let parts = PARTS[1..].iter().map(|part| (*part, Duration::ZERO));
    for (part, moment) in later.into_iter().chain(parts) {
        let mut session = Session::new(&["run", "lifecycle", "--stage", "kind"]);
        let mut running = session.start();
        running.wait_for_line(part).await;
        tokio::time::sleep(moment).await;
        running.interrupt();
        let (status, printed, error) = running.ends(END_LIMIT).await;
        assert_eq!(status, Some(130), "{part}: {error}");
        assert!(error.ends_with("drydock: interrupted\n"), "{part}: {error}");
        session.assert_nothing_is_left(part, &printed).await;
        clusters.extend(cluster(&printed));
    }
    assert_eq!(clusters.len(), MOMENTS.len() + PARTS.len() - 1);
    // A container that was being started when its cluster was deleted would exist by now.
    let left = stage::kind::leftovers().await.unwrap();
    assert!(clusters.iter().all(|cluster| !left.contains(cluster)), "{left:?}");
}

#[tokio::test]
async fn missing_requirements_fail_fast_with_one_line_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.yaml");
    std::fs::write(&wrong, "kind: [").unwrap();
    let wrong = wrong.to_str().unwrap();
    let docker = which::which("docker").unwrap();
    let without_kind = folder.path().join("bin");
    std::fs::create_dir(&without_kind).unwrap();
    std::os::unix::fs::symlink(docker, without_kind.join("docker")).unwrap();

    let run = ["run", "lifecycle", "--stage", "kind"];
    let absent = ["--images", "mcm=nothing:here,fakecloud=nothing:here"];
    let with = |more: &[&'static str]| Session::new(&[&run[..], more].concat());
    let cases = [
        (
            with(&[]).env("DOCKER_HOST", "unix:///nowhere"),
            REQUIREMENT_LIMIT,
            UNAVAILABLE,
            "unix:///nowhere",
        ),
        (
            with(&[]).env("DOCKER_HOST", "tcp://127.0.0.1:1"),
            REQUIREMENT_LIMIT,
            UNAVAILABLE,
            "no socket of this machine",
        ),
        (
            with(&[])
                .env("PATH", without_kind)
                .env("DRYDOCK_CACHE", folder.path().join("empty")),
            REQUIREMENT_LIMIT,
            UNAVAILABLE,
            "the program kind",
        ),
        (
            with(&["--cluster", "Not_a_name"]),
            REQUIREMENT_LIMIT,
            USAGE,
            "lower-case",
        ),
        (
            with(&["--kind-config", "nowhere.yaml"]),
            REQUIREMENT_LIMIT,
            USAGE,
            "--kind-config nowhere.yaml",
        ),
        (
            Session::new(&[&run[..], &["--kind-config", wrong]].concat()),
            REQUIREMENT_LIMIT,
            USAGE,
            "the cluster cannot be created",
        ),
        (
            with(&["--node-image", "nothing:here"]),
            TRY_LIMIT,
            USAGE,
            "nothing:here",
        ),
        (
            with(&absent),
            REQUIREMENT_LIMIT,
            USAGE,
            "the Docker engine has no image nothing:here",
        ),
    ];
    for (mut session, limit, exit_status, expected) in cases {
        let (status, printed, error) = session.start().ends(limit).await;
        assert_eq!(status, Some(exit_status), "{expected}: {error}");
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(error.lines().count(), 1, "{expected}: {error}");
        session.assert_nothing_is_left(expected, &printed).await;
    }
}
