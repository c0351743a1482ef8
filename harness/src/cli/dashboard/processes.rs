//! Requests for steps on processes, which only the owner of the stage can perform.

use std::time::Duration;

use dashboard::PerformError;
use scenario::step::{Process, ProcessAction};
use stage::StageError;
use tokio::sync::{mpsc, oneshot};

/// A step on a process, which only the owner of the stage can perform.
#[derive(Debug)]
pub(in crate::cli) struct ProcessRequest {
    pub(in crate::cli) process: Process,
    pub(in crate::cli) change: ProcessChange,
    /// Receives the result.
    pub(in crate::cli) done: oneshot::Sender<Result<(), StageError>>,
}

/// What happens to a process.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) enum ProcessChange {
    /// It ends or starts.
    Action(ProcessAction),
    /// It is paused for that long.
    Pause(Duration),
}

/// Sends requests to the owner of the stage.
#[derive(Clone, Debug)]
pub(super) struct Processes(pub(super) mpsc::Sender<ProcessRequest>);

impl Processes {
    /// Changes a process, and waits until that is done.
    ///
    /// # Errors
    /// When the stage fails to do it, or the world ends.
    pub(super) async fn change(&self, process: Process, change: ProcessChange) -> Result<(), PerformError> {
        let ended = || PerformError::Refused("the world ends".to_owned());
        let (done, result) = oneshot::channel();
        let request = ProcessRequest { process, change, done };
        self.0.send(request).await.map_err(|_| ended())?;
        let result = result.await.map_err(|_| ended())?;
        result.map_err(|error| PerformError::Refused(error.to_string()))
    }
}
