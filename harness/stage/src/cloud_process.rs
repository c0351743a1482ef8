//! fakecloud as a process of its own: its ledger lies in a folder, so that it outlives the process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clock::Clock;
use scenario::step::{Process, ProcessAction};

use super::StageError;
use super::child::{Ended, Program, Running};
use super::ports::{self, PortError};

/// What it is called, and its log.
const NAME: &str = "fakecloud";

/// Dropping it kills it.
#[derive(Debug)]
pub(super) struct CloudProcess {
    program: Program,
    /// Where it listens, also after a restart.
    port: u16,
    /// `None` between its end and its next start.
    running: Option<Running>,
    clock: Clock,
}

impl CloudProcess {
    /// Starts the program with these arguments, its log and its ledger in `folder`, on a free port.
    pub(super) async fn start(
        program: PathBuf,
        arguments: Vec<OsString>,
        folder: &Path,
        clock: Clock,
    ) -> Result<Self, PortError> {
        let mut data = OsString::from("--data=");
        data.push(folder.join("ledger"));
        let mut command = vec![program.into(), "serve".into(), data];
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

    /// HOST:PORT of it.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Performs a step.
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

    /// Returns when it ends by itself.
    pub(super) async fn ended(&mut self) -> Ended {
        match &mut self.running {
            Some(running) => running.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Asks it to end, and ends it when it does not.
    pub(super) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }
}
