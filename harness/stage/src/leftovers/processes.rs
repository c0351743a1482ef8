//! Ends the programs of a killed run.
//!
//! On Linux the kernel kills the direct children of a killed process (see [`crate::child`]). What remains are their own
//! children, such as those of the shell of `--controller`. They are found by an environment variable, which names their
//! run's folder; a process id alone may belong to another process by now. Systems without `/proc` have neither.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::run_folder::VARIABLE;

/// The interval of checks whether killed processes have ended.
const PROBE: Duration = Duration::from_millis(5);
/// The number of checks: two seconds.
const PROBES: usize = 400;

/// Kills the programs that a run with this folder started, and waits until they have ended.
pub(super) fn end_programs_of(folder: &Path) {
    let (_sender, never) = mpsc::channel::<()>();
    for _ in 0..PROBES {
        let programs = programs_of(folder);
        if programs.is_empty() {
            return;
        }
        for program in programs {
            let _ = kill(program, Signal::SIGKILL);
        }
        let _ = never.recv_timeout(PROBE);
    }
}

/// The processes that were started with the environment variable of this folder. Ended processes have no environment.
fn programs_of(folder: &Path) -> Vec<Pid> {
    let Ok(folder) = folder.canonicalize() else {
        return Vec::new();
    };
    let mut wanted = format!("{VARIABLE}=").into_bytes();
    wanted.extend(folder.as_os_str().as_bytes());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let process: i32 = entry.file_name().to_str()?.parse().ok()?;
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let is_of_run = environment.split(|byte| *byte == 0).any(|variable| variable == wanted);
            (is_of_run && process != Pid::this().as_raw()).then(|| Pid::from_raw(process))
        })
        .collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_the_programs_of_the_folder_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let start = |path: &Path| {
            let mut child = Command::new("sh")
                .args(["-c", "echo started; exec sleep 600"])
                .env(VARIABLE, path)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap())
                .read_line(&mut line)
                .unwrap();
            child
        };
        let (mut ours, mut other) = (start(&path), start(&path.join("nested")));
        end_programs_of(folder.path());
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
