//! The system under attack: a `drydock up` with its processes.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::{fs, io};

use anyhow::Context as _;
use parking_lot::Mutex;
use tempfile::TempDir;

/// What the program prints when it is ready.
const READY: &str = "Ctrl-C ends everything";
/// What precedes the path of the administrator's kubeconfig.
const KUBECONFIG: &str = "export KUBECONFIG=";

/// A running system, which is killed when dropped.
pub(super) struct System {
    child: Child,
    kubeconfig: PathBuf,
    /// What it printed after it was ready: only the ends of processes.
    printed: Arc<Mutex<Vec<String>>>,
    // Removed after the processes that use it.
    _folder: TempDir,
}

impl System {
    /// Starts the program `drydock` and waits until it is ready.
    pub(super) fn start(drydock: &Path) -> anyhow::Result<Self> {
        let folder = TempDir::new()?;
        let program = fs::canonicalize(drydock)
            .with_context(|| format!("{} does not exist: run `make build` first", drydock.display()))?;
        let mut child = Command::new(program)
            .arg("up")
            .current_dir(folder.path())
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("drydock up has no output")?;
        let mut lines = BufReader::new(output).lines();
        let mut kubeconfig = None;
        for line in lines.by_ref() {
            let line = line?;
            if let Some((_, path)) = line.split_once(KUBECONFIG) {
                kubeconfig = Some(PathBuf::from(path));
            }
            if line.contains(READY) {
                break;
            }
        }
        let printed = Arc::new(Mutex::new(Vec::new()));
        std::thread::spawn({
            let printed = Arc::clone(&printed);
            move || lines.map_while(Result::ok).for_each(|line| printed.lock().push(line))
        });
        Ok(Self {
            child,
            kubeconfig: kubeconfig.context("drydock up ended before it was ready")?,
            printed,
            _folder: folder,
        })
    }

    /// The administrator's kubeconfig.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The ends of processes since the start.
    pub(super) fn ended(&self) -> Vec<String> {
        self.printed.lock().clone()
    }

    /// The process with the API server, and mcm.
    pub(super) fn processes(&self) -> Processes {
        let server = self.child.id();
        Processes([Some(server), child_of(server, "mcm")])
    }
}

impl Drop for System {
    fn drop(&mut self) {
        // SIGTERM, so that it ends its own processes.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

/// Processes whose memory is measured; `None`: not found.
pub(super) struct Processes([Option<u32>; 2]);

impl Processes {
    /// Forgets the largest memory so far.
    pub(super) fn reset_peaks(&self) -> io::Result<()> {
        self.0
            .iter()
            .flatten()
            .try_for_each(|pid| fs::write(format!("/proc/{pid}/clear_refs"), "5"))
    }

    /// The largest resident memory of each, in KiB; zero for a process that ended.
    pub(super) fn peaks(&self) -> [u64; 2] {
        self.0.map(|pid| pid.and_then(peak).unwrap_or(0))
    }
}

fn peak(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The child process with that name.
fn child_of(parent: u32, name: &str) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok();
    let threads = fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten();
    let of_threads = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    children
        .into_iter()
        .chain(of_threads)
        .flat_map(|pids| {
            pids.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .find(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name))
}
