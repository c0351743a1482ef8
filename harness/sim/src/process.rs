//! The supervisor of one simulated process: starts it, drops it when its gate crashes it or on a command, and
//! restarts it.
//!
//! A process is a future. Dropping it is SIGKILL: its code stops and its caches are lost. It must therefore own all
//! its tasks (a `JoinSet`, no detached tasks).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::Gate;

thread_local! {
    static CURRENT: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// The name of the process whose code runs on this thread now; `None`: the code belongs to no process.
pub fn current_process() -> Option<Arc<str>> {
    CURRENT.with_borrow(Clone::clone)
}

/// While it exists, the code on this thread belongs to a process.
struct Current(Option<Arc<str>>);

impl Current {
    fn enter(name: &Arc<str>) -> Self {
        Self(CURRENT.replace(Some(Arc::clone(name))))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// A process before its [`run`](Process::run).
pub struct Process<F, T> {
    start: F,
    restart_delay: Duration,
    restart_after: fn(&T) -> bool,
    handle: Handle,
}

/// Controls a process; clones control the same process.
#[derive(Clone)]
pub struct Handle(Arc<Control>);

struct Control {
    name: Arc<str>,
    gate: Gate,
    state: Mutex<State>,
    commanded: Notify,
}

#[derive(Default)]
struct State {
    command: Option<Command>,
    running: bool,
    starts: u64,
    /// The incarnations that ended at a crash point.
    crashed: BTreeSet<u64>,
}

#[derive(Clone, Copy)]
enum Command {
    Kill,
    Restart,
}

enum End<T> {
    Finished(T),
    Crashed,
    Commanded(Command),
}

/// The process `name` behind `gate`. `start` creates an incarnation: it builds new clients through the gate and
/// returns the future of the process.
pub fn process<F, Fut>(name: &str, gate: Gate, start: F) -> Process<F, Fut::Output>
where
    F: FnMut() -> Fut,
    Fut: Future,
{
    let control = Control {
        name: name.into(),
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
    /// The delay between a crash and the restart; zero by default.
    #[must_use]
    pub fn restart_delay(mut self, delay: Duration) -> Self {
        self.restart_delay = delay;
        self
    }

    /// Which outputs of the process cause a restart, as after a crash; none by default.
    #[must_use]
    pub fn restart_after(mut self, ends: fn(&Fut::Output) -> bool) -> Self {
        self.restart_after = ends;
        self
    }

    /// The handle that kills and restarts the process.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs the process until an incarnation finishes, and returns its output.
    ///
    /// Crashes and kills do not end this future. After a crash, and after an output that
    /// [`restart_after`](Process::restart_after) accepts, the next incarnation starts; after a kill the supervisor
    /// waits for [`Handle::restart`]. Dropping this future kills the process permanently.
    pub async fn run(mut self) -> Fut::Output {
        loop {
            self.handle.started();
            let end = {
                let Control { name, gate, .. } = &*self.handle.0;
                let mut incarnation = Box::pin((self.start)());
                let running = poll_fn(|context| match gate.poll_resumed(context) {
                    Poll::Ready(()) => {
                        let _current = Current::enter(name);
                        incarnation.as_mut().poll(context)
                    }
                    Poll::Pending => Poll::Pending,
                });
                tokio::select! {
                    biased;
                    command = self.handle.command() => End::Commanded(command),
                    () = gate.crashed() => End::Crashed,
                    end = gate.serve_pauses() => end,
                    output = running => End::Finished(output),
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

    /// Waits for the restart delay, or follows a command that arrives meanwhile.
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
    /// Kills the process immediately: none of its requests leaves after this call. It stays down.
    pub fn kill(&self) {
        self.send_command(Command::Kill);
    }

    /// Starts the process, killing it first if it runs.
    pub fn restart(&self) {
        self.send_command(Command::Restart);
    }

    pub fn is_running(&self) -> bool {
        self.lock().running
    }

    /// How many times the process has started.
    pub fn starts(&self) -> u64 {
        self.lock().starts
    }

    /// How many times a crash point of its gate has crashed it.
    pub fn crashes(&self) -> usize {
        self.lock().crashed.len()
    }

    /// Whether a crash point of its gate crashed that incarnation, counted from 1.
    pub fn has_crashed(&self, incarnation: u64) -> bool {
        self.lock().crashed.contains(&incarnation)
    }

    fn send_command(&self, command: Command) {
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
