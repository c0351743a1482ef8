//! `drydock up`, or another command that serves until it is ended, as a child process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::drydock::drydock_program;

/// A running `drydock up` or `drydock apiserver`, which is killed when dropped.
pub struct Up {
    pub child: Child,
    // Keeps the pipe open, because the process prints to it.
    output: BufReader<ChildStdout>,
    /// What it has printed so far.
    pub printed: String,
}

impl Up {
    /// Starts it in this folder, which it also uses for temporary files, and waits until it is up.
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = drydock_program();
        command
            .arg("up")
            .args(arguments)
            .env("TMPDIR", folder)
            .current_dir(folder);
        Self::of(&mut command)
    }

    /// Starts this command, which is a `drydock up`, and waits until it is up.
    pub fn of(command: &mut Command) -> Self {
        Self::when_it_prints("Ctrl-C ends everything", command)
    }

    /// Starts this command, and waits until it has printed the text.
    pub fn when_it_prints(text: &str, command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let printed = String::new();
        let mut up = Self { child, output, printed };
        up.prints(text);
        up
    }

    /// Waits until it has printed the text.
    pub fn prints(&mut self, text: &str) {
        while !self.printed.contains(text) {
            let length = self.output.read_line(&mut self.printed).unwrap();
            assert!(length > 0, "it ended: {}", self.printed);
        }
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.rest_of_line("export KUBECONFIG=").into()
    }

    /// The folder of its files.
    pub fn run_folder(&self) -> PathBuf {
        self.rest_of_line("logs are in ").into()
    }

    /// The address of the dashboard, with its secret.
    pub fn dashboard(&self) -> &str {
        self.rest_of_line("The dashboard is at ")
    }

    fn rest_of_line(&self, start: &str) -> &str {
        self.printed.split(start).nth(1).unwrap().lines().next().unwrap()
    }

    /// Ends it by Ctrl-C.
    pub fn end(self) {
        assert_eq!(self.exit_status(), Some(0));
    }

    /// Ends it by Ctrl-C. Returns its exit status.
    pub fn exit_status(mut self) -> Option<i32> {
        send(Signal::SIGINT, &self.child);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process.
pub fn send(signal: Signal, process: &Child) {
    kill(Pid::from_raw(i32::try_from(process.id()).unwrap()), signal).unwrap();
}
