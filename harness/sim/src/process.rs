//! The supervisor of one simulated process: starts it, drops it when its gate's crash strikes or
//! when told to, and starts it again.
//!
//! A process is a future. Dropping it is SIGKILL: nothing of it runs on, its caches are gone. It must
//! therefore own everything that it starts (a `JoinSet`, no detached tasks).

use std::collections::BTreeSet;
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::Gate;

/// A process that is yet to [`run`](Process::run).
pub struct Process<F, T> {
    start: F,
    restart_delay: Duration,
    restart_after: fn(&T) -> bool,
    handle: Handle,
}

/// Controls a process from outside; clones control the same one.
#[derive(Clone)]
pub struct Handle(Arc<Control>);

struct Control {
    name: String,
    gate: Gate,
    state: Mutex<State>,
    commanded: Notify,
}

#[derive(Default)]
struct State {
    command: Option<Command>,
    running: bool,
    starts: u64,
    /// The incarnations that a crash point struck.
    crashed: BTreeSet<u64>,
}

#[derive(Clone, Copy)]
enum Command {
    Kill,
    Restart,
}

/// How an incarnation ended.
enum End<T> {
    Finished(T),
    Crashed,
    Commanded(Command),
}

/// The process `name` behind `gate`. `start` makes an incarnation: it builds fresh clients through the
/// gate and returns the future that is the process.
pub fn process<F, Fut>(name: &str, gate: Gate, start: F) -> Process<F, Fut::Output>
where
    F: FnMut() -> Fut,
    Fut: Future,
{
    let control = Control {
        name: name.to_owned(),
        gate,
        state: Mutex::new(State::default()),
        commanded: Notify::new(),
    };
    Process {
        start,
        restart_delay: Duration::ZERO,
        restart_after: |_| false,
        handle: Handle(Arc::new(control)),
    }
}

impl<F, Fut> Process<F, Fut::Output>
where
    F: FnMut() -> Fut,
    Fut: Future,
{
    /// How long the process stays down after a crash; zero unless told otherwise.
    #[must_use]
    pub fn restart_delay(mut self, delay: Duration) -> Self {
        self.restart_delay = delay;
        self
    }

    /// After which of its own ends the process is started again, as after a crash; none unless told otherwise.
    #[must_use]
    pub fn restart_after(mut self, ends: fn(&Fut::Output) -> bool) -> Self {
        self.restart_after = ends;
        self
    }

    /// The handle that kills and restarts it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs the process until an incarnation ends by itself, and returns what that returned.
    ///
    /// Crashes and kills do not end it: after a crash, and after an end that [`restart_after`](Process::restart_after)
    /// names, the next incarnation starts, after a kill it waits for [`Handle::restart`]. Dropping this future kills the process for good.
    pub async fn run(mut self) -> Fut::Output {
        loop {
            self.handle.started();
            let end = {
                let gate = &self.handle.0.gate;
                let mut incarnation = Box::pin((self.start)());
                let going = poll_fn(|context| match gate.poll_going(context) {
                    Poll::Ready(()) => incarnation.as_mut().poll(context),
                    Poll::Pending => Poll::Pending,
                });
                tokio::select! {
                    biased;
                    command = self.handle.command() => End::Commanded(command),
                    () = gate.crashed() => End::Crashed,
                    end = gate.serve_pauses() => end,
                    output = going => End::Finished(output),
                }
            };
            match end {
                End::Finished(output) => {
                    self.handle.stopped("finished");
                    if !(self.restart_after)(&output) {
                        return output;
                    }
                    self.recover().await;
                }
                End::Crashed => {
                    let incarnation = self.handle.0.gate.incarnation();
                    self.handle.lock().crashed.insert(incarnation);
                    self.handle.stopped("crashed");
                    self.recover().await;
                }
                End::Commanded(Command::Restart) => self.handle.stopped("killed"),
                End::Commanded(Command::Kill) => {
                    self.handle.stopped("killed");
                    self.handle.restarted().await;
                }
            }
        }
    }

    /// Stays down for the restart delay, or as long as a command meanwhile says.
    async fn recover(&self) {
        let command = tokio::select! {
            biased;
            command = self.handle.command() => Some(command),
            () = tokio::time::sleep(self.restart_delay) => None,
        };
        if let Some(Command::Kill) = command {
            self.handle.restarted().await;
        }
    }
}

impl<F, T> fmt::Debug for Process<F, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Process")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// Kills the process now: nothing of it reaches the outside from this call on. It stays down.
    pub fn kill(&self) {
        self.order(Command::Kill);
    }

    /// Starts the process, killing it first if it runs.
    pub fn restart(&self) {
        self.order(Command::Restart);
    }

    /// Whether an incarnation is running.
    pub fn is_running(&self) -> bool {
        self.lock().running
    }

    /// How often the process was started.
    pub fn starts(&self) -> u64 {
        self.lock().starts
    }

    /// How often a crash point of its gate struck.
    pub fn crashes(&self) -> usize {
        self.lock().crashed.len()
    }

    /// Whether a crash point of its gate struck that incarnation, counted from 1.
    pub fn has_crashed(&self, incarnation: u64) -> bool {
        self.lock().crashed.contains(&incarnation)
    }

    fn order(&self, command: Command) {
        self.0.gate.cut();
        self.lock().command = Some(command);
        self.0.commanded.notify_one();
    }

    async fn command(&self) -> Command {
        loop {
            let command = self.lock().command.take();
            match command {
                Some(command) => return command,
                None => self.0.commanded.notified().await,
            }
        }
    }

    async fn restarted(&self) {
        while let Command::Kill = self.command().await {}
    }

    fn started(&self) {
        self.0.gate.begin();
        let starts = {
            let mut state = self.lock();
            state.running = true;
            state.starts += 1;
            state.starts
        };
        self.0.gate.trace().process(&self.0.name, format!("started ({starts})"));
    }

    fn stopped(&self, how: &str) {
        self.lock().running = false;
        self.0.gate.cut();
        self.0.gate.trace().process(&self.0.name, how);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        formatter
            .debug_struct("Handle")
            .field("name", &self.0.name)
            .field("running", &state.running)
            .field("starts", &state.starts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
