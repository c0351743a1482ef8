//! Restarts processes that exit, as a kubelet restarts the containers of a pod: at once, then after 10 s, 20 s and so on
//! up to five minutes, and at once again after ten minutes without an exit.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Clock;
use jiff::Timestamp;
use runtime::backoff::doubled;
use scenario::step::{Process, ProcessAction};

use super::StageError;
use super::processes::ProcessStage;
use crate::Stage as _;

/// The wait before the second restart in a row.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// An exit this long after the last start is the first of a new row.
const RESET: Duration = Duration::from_mins(10);

/// The restarts of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Backoff {
    /// The exits in a row.
    exits: u32,
    last_start: Option<Timestamp>,
    /// When the process is to be started; `None`: it runs.
    due: Option<Timestamp>,
}

impl Backoff {
    /// The process exited: how long to wait before its restart.
    fn exited(&mut self, now: Timestamp) -> Duration {
        let ran = |start| Duration::try_from(now.duration_since(start)).unwrap_or_default();
        if self.last_start.is_some_and(|start| ran(start) >= RESET) {
            self.exits = 0;
        }
        let wait = match self.exits {
            0 => Duration::ZERO,
            row => doubled(FIRST_WAIT, row - 1, LONGEST_WAIT),
        };
        self.exits += 1;
        self.due = Some(now.checked_add(wait).unwrap_or(Timestamp::MAX));
        wait
    }

    fn started(&mut self, now: Timestamp) {
        self.due = None;
        self.last_start = Some(now);
    }
}

/// The restarts of all processes of a stage.
#[derive(Debug, Default)]
pub struct Restarts(BTreeMap<Process, Backoff>);

/// What happens to a process that is kept running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// It has exited.
    Exited {
        /// The process.
        process: Process,
        /// How it exited, and when it is started again.
        line: String,
    },
    /// It was started again.
    Started(Process),
}

impl ProcessEvent {
    /// How a process exited, for users; `None`: it started.
    pub fn exit(&self) -> Option<&str> {
        match self {
            Self::Exited { line, .. } => Some(line),
            Self::Started(_) => None,
        }
    }
}

impl Restarts {
    /// Notes the result of a restart on request. After a failure the process may not run: it is started later, and this is the line
    /// to report.
    pub fn restarted(&mut self, process: Process, done: &Result<(), StageError>, now: Timestamp) -> Option<String> {
        match done {
            Ok(()) => {
                self.started(process, now);
                None
            }
            Err(error) => Some(self.exited(process, &format!("{process} cannot be restarted: {error}"), now)),
        }
    }

    fn started(&mut self, process: Process, now: Timestamp) {
        self.0.entry(process).or_default().started(now);
    }

    /// Notes the exit, and returns the line to report.
    fn exited(&mut self, process: Process, how: &str, now: Timestamp) -> String {
        let wait = self.0.entry(process).or_default().exited(now);
        match wait.as_secs() {
            0 => format!("{how}; restarting it"),
            seconds => format!("{how}; restarting it in {seconds} s"),
        }
    }

    /// The process that is to be started first, and when.
    fn next(&self) -> Option<(Timestamp, Process)> {
        let due = self
            .0
            .iter()
            .filter_map(|(process, backoff)| Some((backoff.due?, *process)));
        due.min()
    }
}

impl ProcessStage {
    /// Restarts fakecloud and the controller whenever they exit, and passes each exit and start to `report`. Returns, with the
    /// reason, only when the control plane ends, or a controller whose requests pass gates. If it is dropped, another call with
    /// the same `restarts` continues.
    pub async fn keep_running(&mut self, restarts: &mut Restarts, report: impl Fn(&ProcessEvent)) -> String {
        let clock = self.clock().clone();
        loop {
            let (exited, how) = tokio::select! {
                biased;
                reason = self.planes.failure() => return reason,
                ended = self.fakecloud.ended() => (Process::Fakecloud, ended.to_string()),
                how = self.mcm.ended() => (Process::Mcm, how),
                process = due(restarts, &clock) => match self.start_again(process).await {
                    Ok(()) => {
                        restarts.started(process, clock.now());
                        report(&ProcessEvent::Started(process));
                        continue;
                    }
                    Err(error) => (process, error.to_string()),
                },
            };
            match exited {
                Process::Fakecloud => self.fakecloud.remove_ended(),
                _ if self.mcm.remove_ended() => {}
                _ => return how,
            }
            let line = restarts.exited(exited, &how, clock.now());
            report(&ProcessEvent::Exited { process: exited, line });
        }
    }

    async fn start_again(&mut self, process: Process) -> Result<(), StageError> {
        self.process(process, ProcessAction::Start).await
    }
}

/// Returns the process whose restart is due, when it is.
async fn due(restarts: &Restarts, clock: &Clock) -> Process {
    match restarts.next() {
        Some((due, process)) => {
            clock.sleep_until(due).await;
            process
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn restarts_of_a_process_that_keeps_exiting_wait_as_a_kubelet_does() {
        let (mut backoff, mut now) = (Backoff::default(), at(0));
        let mut waits = Vec::new();
        for _ in 0..9 {
            let wait = backoff.exited(now);
            waits.push(wait.as_secs());
            now = now.checked_add(wait).unwrap();
            backoff.started(now);
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn a_process_that_ran_for_ten_minutes_is_restarted_at_once() {
        let mut backoff = Backoff::default();
        for exit in 0..4 {
            backoff.exited(at(exit));
            backoff.started(at(exit));
        }
        assert_eq!(backoff.clone().exited(at(3 + 599)).as_secs(), 80);
        assert_eq!(backoff.exited(at(3 + 600)).as_secs(), 0);
    }

    #[test]
    fn a_process_whose_restart_fails_is_started_later() {
        let mut restarts = Restarts::default();
        let failed = Err(StageError::NoProcess(Process::Mcm));
        let line = restarts.restarted(Process::Mcm, &failed, at(0)).unwrap();
        assert!(
            line.starts_with("mcm cannot be restarted: ") && line.ends_with("; restarting it"),
            "{line}"
        );
        assert_eq!(restarts.next(), Some((at(0), Process::Mcm)));
        assert_eq!(restarts.restarted(Process::Mcm, &Ok(()), at(1)), None);
        assert_eq!(restarts.next(), None);
    }

    #[test]
    fn the_process_that_is_due_first_is_started_first() {
        let mut restarts = Restarts::default();
        restarts.exited(Process::Mcm, "mcm ended", at(0));
        restarts.0.entry(Process::Mcm).or_default().started(at(0));
        assert_eq!(
            restarts.exited(Process::Mcm, "mcm ended", at(1)),
            "mcm ended; restarting it in 10 s"
        );
        assert_eq!(
            restarts.exited(Process::Fakecloud, "fakecloud ended", at(2)),
            "fakecloud ended; restarting it"
        );
        assert_eq!(restarts.next(), Some((at(2), Process::Fakecloud)));
        restarts.0.entry(Process::Fakecloud).or_default().started(at(2));
        assert_eq!(restarts.next(), Some((at(11), Process::Mcm)));
    }
}
