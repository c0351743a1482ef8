//! fakecloud as a separate process. Its ledger is in a folder, so that it survives a restart.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clock::Clock;
use scenario::step::{Process, ProcessAction};

use super::StageError;
use super::child::{Ended, Program, Running};
use super::ports::{self, PortError};

/// The program name in messages.
const NAME: &str = "fakecloud";

/// A fakecloud process. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct CloudProcess {
    program: Program,
    /// The port, which stays the same after a restart.
    port: u16,
    /// `None` between a kill and the next start.
    running: Option<Running>,
    clock: Clock,
}

impl CloudProcess {
    /// Starts the program with these arguments on a free port, with its log in `folder`.
    pub(super) async fn start(
        program: PathBuf,
        arguments: Vec<OsString>,
        folder: &Path,
        clock: Clock,
    ) -> Result<Self, PortError> {
        let mut command = vec![program.into(), "serve".into()];
        command.extend(arguments);
        let mut program = Program {
            name: NAME.to_owned(),
            command,
            environment: Vec::new(),
            log: folder.join("fakecloud.log"),
        };
        let address = |port| format!("--address=127.0.0.1:{port}");
        let (port, running) = ports::start(&program, address, &clock).await?;
        program.command.push(address(port).into());
        Ok(Self {
            program,
            port,
            running: Some(running),
            clock,
        })
    }

    /// HOST:PORT of fakecloud.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Performs an action of a step.
    pub(super) async fn perform(&mut self, action: ProcessAction) -> Result<(), StageError> {
        match action {
            ProcessAction::KillLeader => return Err(StageError::NoLeader(Process::Fakecloud)),
            ProcessAction::Kill | ProcessAction::Restart => {
                if let Some(running) = self.running.take() {
                    running.kill().await;
                }
            }
            ProcessAction::RollingRestart => self.stop().await,
            ProcessAction::Start => {}
        }
        if action != ProcessAction::Kill && self.running.is_none() {
            let mut running = self.program.start()?;
            ports::listens(self.port, NAME, &mut running, &self.clock).await?;
            self.running = Some(running);
        }
        Ok(())
    }

    /// Returns when the process ends unexpectedly.
    pub(super) async fn ended(&mut self) -> Ended {
        match &mut self.running {
            Some(running) => running.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Removes a process that has ended, so that it can be started again.
    pub(super) fn remove_ended(&mut self) {
        self.running.take_if(|running| running.has_ended());
    }

    /// Stops the process gracefully, and kills it after a grace period.
    pub(super) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }
}
