//! Programs that a test starts beside `drydock`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::drydock::drydock_program;

/// A process. Dropping it terminates it and waits until it has removed its files.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(process) = i32::try_from(self.0.id()) {
            let _ = kill(Pid::from_raw(process), Signal::SIGTERM);
        }
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts a program without output.
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Starts a program, and waits for the line of its output that contains `before`. Returns what follows in that line.
    pub fn announced(command: &mut Command, before: &str) -> (Self, String) {
        let mut running = Self(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let output = BufReader::new(running.0.stdout.take().unwrap());
        let mut lines = output.lines().map(Result::unwrap);
        let found = lines.find_map(|line| Some(line.split_once(before)?.1.trim().to_owned()));
        (running, found.expect("the program announces itself"))
    }
}

/// A program of the workspace, built.
pub fn program(name: &str) -> Command {
    drydock_program();
    Command::new(Path::new(env!("CARGO_BIN_EXE_drydock")).with_file_name(name))
}
