//! The lifecycle of a pod: containers start in order, run, end, restart, and terminate.
//!
//! Everything happens at its due time, however late the pod is processed: containers end by themselves while their
//! kubelet is down, but only the kubelet starts them.

use std::time::Duration;

use jiff::Timestamp;
use runtime::backoff::{Limits, Pause};

use crate::kubelet::facts::{SeenContainer, SeenState};
use crate::kubelet::plan::{ContainerPlan, PodPlan, RestartPolicy, Role};
use crate::model::later;

/// Pauses before restarts (back-off). After a run of ten minutes they restart with the first one.
const BACKOFF: Limits = Limits {
    first: Duration::from_secs(10),
    longest: Duration::from_secs(300),
    forgotten_after: Duration::from_secs(600),
};

/// The end of a container's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kubelet) struct Exit {
    pub(in crate::kubelet) code: i32,
    pub(in crate::kubelet) reason: String,
    pub(in crate::kubelet) started: Timestamp,
    pub(in crate::kubelet) finished: Timestamp,
}

/// State of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kubelet) enum State {
    /// It has not run since the pod started.
    Waiting,
    Running {
        since: Timestamp,
        /// The scheduled end of the run, with exit code and reason.
        ended_by: Option<(Timestamp, i32, &'static str)>,
    },
    Exited(Exit),
}

/// One container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kubelet) struct ContainerRun {
    pub(in crate::kubelet) state: State,
    /// The previous run.
    pub(in crate::kubelet) last: Option<Exit>,
    pub(in crate::kubelet) restarts: u32,
    /// The next pause, and the end of the previous run.
    backoff: Option<Pause>,
    pub(in crate::kubelet) started: bool,
    pub(in crate::kubelet) ready: bool,
}

/// The final result of a pod, or why it was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kubelet) struct Finish {
    pub(in crate::kubelet) succeeded: bool,
    /// Empty: the containers show the cause.
    pub(in crate::kubelet) reason: String,
    pub(in crate::kubelet) message: String,
}

/// A pod on a kubelet.
#[derive(Clone, Debug)]
pub(in crate::kubelet) struct PodRun {
    /// When the kubelet accepted it.
    pub(in crate::kubelet) begun: Timestamp,
    /// No container starts before this time.
    pub(in crate::kubelet) not_before: Timestamp,
    pub(in crate::kubelet) containers: Vec<ContainerRun>,
    /// Whether the init containers have completed.
    pub(in crate::kubelet) initialized: bool,
    pub(in crate::kubelet) finish: Option<Finish>,
    /// Start of its termination.
    ending: Option<Timestamp>,
    /// Until when a pod without running containers is cleaned up. Otherwise a pod that is replaced at once could be
    /// created and deleted endlessly at one moment.
    lingers: Option<Timestamp>,
}

/// The visible state of a pod: for each container whether it runs, its restarts, whether it is started and ready; then
/// whether the pod is initialized and finished.
type Visible = (Vec<(bool, u32, bool, bool)>, bool, bool);

/// Inputs of a step of a pod.
#[derive(Clone, Copy, Debug)]
pub(in crate::kubelet) struct StepInput {
    pub(in crate::kubelet) now: Timestamp,
    /// Whether its volumes are attached.
    pub(in crate::kubelet) volumes: bool,
    /// Deadline of its termination, if it is being deleted.
    pub(in crate::kubelet) deletion: Option<Timestamp>,
    /// How long its containers take to terminate.
    pub(in crate::kubelet) stop_delay: Duration,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kubelet) struct Progress {
    /// Whether the status has changed.
    pub(in crate::kubelet) changed: bool,
    /// Time of the next step.
    pub(in crate::kubelet) next: Option<Timestamp>,
}

impl PodRun {
    /// A new pod.
    pub(in crate::kubelet) fn new(plan: &PodPlan, now: Timestamp, start_delay: Duration) -> Self {
        let waiting = ContainerRun {
            state: State::Waiting,
            last: None,
            restarts: 0,
            backoff: None,
            started: false,
            ready: false,
        };
        Self {
            begun: now,
            not_before: later(now, plan.start_after.unwrap_or(start_delay)),
            containers: vec![waiting; plan.containers.len()],
            initialized: false,
            finish: None,
            ending: None,
            lingers: None,
        }
    }

    /// A pod whose status shows that it runs: its containers have the state in the status. A container that the status
    /// does not show runs since now.
    pub(in crate::kubelet) fn found(plan: &PodPlan, seen: &[SeenContainer], now: Timestamp) -> Self {
        let mut run = Self::new(plan, now, Duration::ZERO);
        run.initialized = true;
        for (container, plan) in run.containers.iter_mut().zip(&plan.containers) {
            let seen = seen.iter().find(|seen| seen.name == plan.name);
            container.restarts = seen.map_or(0, |seen| seen.restarts);
            container.state = match seen.map(|seen| &seen.state) {
                Some(SeenState::Running(since)) => State::Running {
                    since: *since,
                    ended_by: None,
                },
                Some(SeenState::Exited(code, finished)) => State::Exited(Exit {
                    code: *code,
                    reason: reason_of(*code).to_owned(),
                    started: *finished,
                    finished: *finished,
                }),
                Some(SeenState::Waiting) => State::Waiting,
                None if plan.role == Role::Init => State::Exited(exit(0, "Completed", now, now)),
                None => State::Running {
                    since: now,
                    ended_by: None,
                },
            };
        }
        run.probe(plan, now);
        run
    }

    /// Rejects the pod before anything ran.
    pub(in crate::kubelet) fn refuse(&mut self, reason: &str, message: String) {
        self.finish = Some(Finish {
            succeeded: false,
            reason: reason.to_owned(),
            message,
        });
    }

    /// The pod's VM has stopped: running containers have ended, and init containers run again.
    pub(in crate::kubelet) fn lose_containers(&mut self, plan: &PodPlan, now: Timestamp, start_delay: Duration) {
        if self.finish.is_some() {
            return;
        }
        self.not_before = later(now, start_delay);
        for (container, plan) in self.containers.iter_mut().zip(&plan.containers) {
            container.started = false;
            container.ready = false;
            container.backoff = None;
            match &container.state {
                State::Running { since, .. } => {
                    container.state = State::Exited(exit(255, "Unknown", *since, now));
                }
                State::Exited(last) if plan.role == Role::Init => {
                    container.last = Some(last.clone());
                    container.state = State::Waiting;
                    self.initialized = false;
                }
                State::Exited(_) | State::Waiting => {}
            }
        }
    }

    /// Kills a running container, or lets it run out of memory.
    pub(in crate::kubelet) fn kill(&mut self, index: usize, reason: &'static str, now: Timestamp) -> bool {
        match self.containers.get_mut(index).map(|container| &mut container.state) {
            Some(State::Running { ended_by, .. }) => {
                *ended_by = Some((now, 137, reason));
                true
            }
            _ => false,
        }
    }

    /// Whether no container runs or will run.
    pub(in crate::kubelet) fn is_over(&self) -> bool {
        (self.finish.is_some() || self.ending.is_some()) && !self.runs() && self.lingers.is_none()
    }

    /// Whether a container runs.
    fn runs(&self) -> bool {
        let mut states = self.containers.iter().map(|container| &container.state);
        states.any(|state| matches!(state, State::Running { .. }))
    }

    /// Whether a container other than an init container has ever run.
    pub(in crate::kubelet) fn has_run(&self, plan: &PodPlan) -> bool {
        let mut both = self.containers.iter().zip(&plan.containers);
        both.any(|(container, plan)| {
            plan.role == Role::App && (container.last.is_some() || container.state != State::Waiting)
        })
    }

    /// Whether all its containers are ready.
    pub(in crate::kubelet) fn is_ready(&self, plan: &PodPlan) -> bool {
        let mut both = self.containers.iter().zip(&plan.containers);
        self.finish.is_none()
            && self.initialized
            && both.all(|(container, plan)| plan.role == Role::Init || container.ready)
    }

    /// When a container that waits for its restart starts again; `None`: never, or it runs.
    pub(in crate::kubelet) fn restarts_at(&self, index: usize, plan: &PodPlan) -> Option<Timestamp> {
        let (container, of) = (self.containers.get(index)?, plan.containers.get(index)?);
        let State::Exited(last) = &container.state else {
            return None;
        };
        let again = match (of.role, plan.restart) {
            (Role::Sidecar, _) => true,
            (Role::Init, RestartPolicy::Never) | (Role::App, RestartPolicy::Never) => false,
            (Role::Init, _) | (Role::App, RestartPolicy::OnFailure) => last.code != 0,
            (Role::App, RestartPolicy::Always) => true,
        };
        let at = match container.backoff {
            Some(pause) if pause.counts(last.finished, &BACKOFF) => later(last.finished, pause.wait),
            _ => last.finished,
        };
        again.then(|| at.max(self.not_before))
    }

    /// Processes everything that is due.
    pub(in crate::kubelet) fn step(&mut self, plan: &PodPlan, orders: StepInput) -> Progress {
        let before = self.visible();
        let now = orders.now;
        self.schedule_termination(plan, orders);
        self.end_runs(plan, now);
        if self.finish.is_none() && self.ending.is_none() {
            let late = plan.active_for.filter(|active| later(self.begun, *active) <= now);
            if late.is_some() {
                let message = "Pod was active on the node longer than the specified deadline".to_owned();
                self.refuse("DeadlineExceeded", message);
                self.kill_all(plan, now);
            } else if now >= self.not_before && orders.volumes {
                // A container whose run takes no time ends at once. Restart pauses end this loop.
                loop {
                    self.start_ready_containers(plan, now);
                    if !self.end_runs(plan, now) {
                        break;
                    }
                }
            }
            self.finish_when_done(plan, now);
        }
        self.finish_when_ended(plan);
        self.probe(plan, now);
        Progress {
            changed: self.visible() != before,
            next: self.next(plan, orders),
        }
    }

    /// The visible state.
    fn visible(&self) -> Visible {
        let containers = self.containers.iter();
        let visible = containers.map(|container| {
            let runs = matches!(container.state, State::Running { .. });
            (runs, container.restarts, container.started, container.ready)
        });
        (visible.collect(), self.initialized, self.finish.is_some())
    }

    /// When the pod terminates, schedules the end of each container, within the pod's grace period.
    fn schedule_termination(&mut self, plan: &PodPlan, orders: StepInput) {
        let Some(deadline) = orders.deletion else { return };
        let begins = self.ending.is_none();
        let since = *self.ending.get_or_insert(orders.now);
        let willing = later(since, plan.terminates_after.unwrap_or(orders.stop_delay));
        let deadline = deadline.max(since);
        if begins && self.finish.is_none() && !self.runs() {
            self.lingers = Some(later(since, orders.stop_delay).min(deadline));
        }
        self.lingers = self.lingers.filter(|until| *until > orders.now);
        let end = if willing <= deadline {
            (willing, 0, "Completed")
        } else {
            (deadline, 137, "Error")
        };
        for container in &mut self.containers {
            if let State::Running { ended_by, .. } = &mut container.state {
                let earlier = ended_by.filter(|(at, ..)| *at < end.0);
                *ended_by = if plan.never_terminates {
                    None
                } else {
                    earlier.or(Some(end))
                };
            }
        }
    }

    /// Ends runs whose time is over; returns whether there was one.
    fn end_runs(&mut self, plan: &PodPlan, now: Timestamp) -> bool {
        let mut any = false;
        for (container, plan) in self.containers.iter_mut().zip(&plan.containers) {
            let State::Running { since, ended_by } = container.state else {
                continue;
            };
            let Some((at, code, reason)) = end_of(plan, since, ended_by).filter(|(at, ..)| *at <= now) else {
                continue;
            };
            container.state = State::Exited(exit(code, &reason, since, at));
            container.started = false;
            container.ready = false;
            any = true;
        }
        any
    }

    /// Starts the containers that may start.
    fn start_ready_containers(&mut self, plan: &PodPlan, now: Timestamp) {
        let mut initialized = true;
        for index in 0..self.containers.len() {
            let Some(of) = plan.containers.get(index) else { return };
            if of.role == Role::App && !initialized {
                break;
            }
            if of.role == Role::Init && self.initialized {
                continue;
            }
            self.start_one(index, plan, of, now);
            let Some(container) = self.containers.get_mut(index) else {
                return;
            };
            let done = match (of.role, &container.state) {
                (Role::Init, State::Exited(last)) => last.code == 0,
                (Role::Sidecar, State::Running { since, .. }) => {
                    self.initialized || now >= later(*since, of.started_after)
                }
                (Role::Sidecar, State::Exited(_)) => self.initialized,
                (Role::Init, _) | (Role::Sidecar, State::Waiting) => false,
                (Role::App, _) => true,
            };
            if !done {
                initialized = false;
                break;
            }
        }
        self.initialized |= initialized;
    }

    fn start_one(&mut self, index: usize, plan: &PodPlan, of: &ContainerPlan, now: Timestamp) {
        let due = match self.containers.get(index).map(|container| &container.state) {
            Some(State::Waiting) => !of.image_pull_fails,
            Some(State::Exited(_)) => self.restarts_at(index, plan).is_some_and(|at| at <= now),
            Some(State::Running { .. }) | None => false,
        };
        let Some(container) = self.containers.get_mut(index).filter(|_| due) else {
            return;
        };
        let running = State::Running {
            since: now,
            ended_by: None,
        };
        match std::mem::replace(&mut container.state, running) {
            State::Exited(last) => {
                container.backoff = Some(Pause::after(container.backoff, last.finished, now, &BACKOFF));
                container.restarts += 1;
                container.last = Some(last);
            }
            State::Waiting if container.last.is_some() => container.restarts += 1,
            State::Waiting | State::Running { .. } => {}
        }
    }

    /// The pod is finished when an init container failed finally, or all other containers have ended finally.
    fn finish_when_done(&mut self, plan: &PodPlan, now: Timestamp) {
        if self.finish.is_some() {
            return;
        }
        let ended = |index: usize| match self.containers.get(index).map(|container| &container.state) {
            Some(State::Exited(last)) if self.restarts_at(index, plan).is_none() => Some(last.code),
            _ => None,
        };
        let roles = plan.containers.iter().enumerate();
        let init_failed = !self.initialized
            && roles
                .clone()
                .any(|(index, of)| of.role == Role::Init && ended(index).is_some_and(|code| code != 0));
        let mut apps = roles
            .filter(|(_, of)| of.role == Role::App)
            .map(|(index, _)| ended(index));
        let codes: Option<Vec<i32>> = apps.by_ref().collect();
        let succeeded = match codes {
            _ if init_failed => false,
            Some(codes) if self.initialized && !codes.is_empty() => codes.iter().all(|code| *code == 0),
            Some(_) | None => return,
        };
        self.finish = Some(Finish {
            succeeded,
            reason: String::new(),
            message: String::new(),
        });
        self.kill_all(plan, now);
    }

    /// Finishes a pod whose termination is complete.
    fn finish_when_ended(&mut self, plan: &PodPlan) {
        if self.finish.is_some() || !self.is_over() {
            return;
        }
        let both = self.containers.iter().zip(&plan.containers);
        let apps = both.filter(|(_, of)| of.role == Role::App);
        let succeeded = apps.map(|(container, _)| &container.state).all(|state| match state {
            State::Exited(last) => last.code == 0,
            State::Waiting | State::Running { .. } => false,
        });
        self.finish = Some(Finish {
            succeeded,
            reason: String::new(),
            message: String::new(),
        });
    }

    /// Kills the containers that still run when the pod is finished.
    fn kill_all(&mut self, plan: &PodPlan, now: Timestamp) {
        for (container, of) in self.containers.iter_mut().zip(&plan.containers) {
            if let State::Running { since, .. } = container.state {
                let (code, reason) = if of.role == Role::Sidecar {
                    (0, "Completed")
                } else {
                    (137, "Error")
                };
                container.state = State::Exited(exit(code, reason, since, now));
            }
            container.started = false;
            container.ready = false;
        }
    }

    fn probe(&mut self, plan: &PodPlan, now: Timestamp) {
        for (container, of) in self.containers.iter_mut().zip(&plan.containers) {
            match &container.state {
                State::Running { since, .. } => {
                    let elapsed = Duration::try_from(now.duration_since(*since)).unwrap_or_default();
                    container.started = elapsed >= of.started_after;
                    container.ready = container.started
                        && elapsed >= of.ready_after
                        && !of.not_ready.iter().any(|(from, to)| (*from..*to).contains(&elapsed));
                }
                State::Exited(last) => {
                    container.started = false;
                    container.ready = of.role == Role::Init && last.code == 0;
                }
                State::Waiting => {
                    container.started = false;
                    container.ready = false;
                }
            }
        }
    }

    /// Time of the next scheduled change.
    fn next(&self, plan: &PodPlan, orders: StepInput) -> Option<Timestamp> {
        let now = orders.now;
        let active = self.finish.is_none() && self.ending.is_none();
        let mut times: Vec<Timestamp> = self.lingers.into_iter().collect();
        if active {
            times.extend(plan.active_for.map(|active| later(self.begun, active)));
            if orders.volumes {
                times.push(self.not_before);
            }
        }
        for (index, (container, of)) in self.containers.iter().zip(&plan.containers).enumerate() {
            match &container.state {
                State::Running { since, ended_by } => {
                    times.extend(end_of(of, *since, *ended_by).map(|(at, ..)| at));
                    if of.role != Role::Init {
                        let windows = of.not_ready.iter().flat_map(|(from, to)| [*from, *to]);
                        let probes = [of.started_after, of.ready_after].into_iter().chain(windows);
                        times.extend(probes.map(|probe| later(*since, probe)));
                    }
                }
                State::Exited(_) if active => times.extend(self.restarts_at(index, plan)),
                State::Exited(_) | State::Waiting => {}
            }
        }
        times.into_iter().filter(|at| *at > now).min()
    }
}

/// End, exit code and reason of a run.
fn end_of(
    of: &ContainerPlan,
    since: Timestamp,
    ended_by: Option<(Timestamp, i32, &'static str)>,
) -> Option<(Timestamp, i32, String)> {
    let own = of.run_for.map(|run_for| {
        let reason = of
            .exit_reason
            .clone()
            .unwrap_or_else(|| reason_of(of.exit_code).to_owned());
        (later(since, run_for), of.exit_code, reason)
    });
    let liveness = of
        .liveness_fails_after
        .map(|after| (later(since, after), 137, "Error".to_owned()));
    let outside = ended_by.map(|(at, code, reason)| (at, code, reason.to_owned()));
    [outside, own, liveness]
        .into_iter()
        .flatten()
        .min_by_key(|(at, ..)| *at)
}

fn exit(code: i32, reason: &str, started: Timestamp, finished: Timestamp) -> Exit {
    Exit {
        code,
        reason: reason.to_owned(),
        started,
        finished,
    }
}

fn reason_of(code: i32) -> &'static str {
    if code == 0 { "Completed" } else { "Error" }
}
