//! Holds up the thread of a simulated run as the page asks, and shows what the run has done so far.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use jiff::Timestamp;
use parking_lot::{Condvar, Mutex, MutexGuard};
use record::RunRecord;
use scenario::observation::Observation;
use scenario::plan::TimedStep;

use crate::faults::FaultPlan;
use crate::playback::{Arrival, Command, CommandError, Gate, Place, Playback, RunEnd, Status};
use crate::world::Shared;

/// A run that a page plays, and those that take its place.
pub trait PlayedRun: Send + Sync + 'static {
    /// The record so far, at that virtual time, or the final one.
    fn record(&self, now: Timestamp) -> RunRecord;

    /// The plan of the run as YAML, without the data of Secrets.
    fn plan(&self) -> String;

    /// Begins a run with a changed plan, which takes the place of the current one. It has the same history up to the change. The run calls the methods of `handle`, but not before this method has returned.
    ///
    /// # Errors
    /// See [`BeginError`]. Then nothing changes.
    fn begin_again(&self, change: Change, handle: RunHandle) -> Result<(), BeginError>;
}

/// A change of the faults in a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The steps that are added.
    pub add: Vec<TimedStep>,
    /// The steps that are removed: the end of a fault that ends earlier.
    pub remove: Vec<TimedStep>,
}

/// Why a run with other faults cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// The plan with these faults is invalid.
    #[error("{field}: {problem}")]
    Plan {
        /// The field of the plan.
        field: String,
        /// The problem.
        problem: String,
    },
    /// The plan cannot be written as YAML.
    #[error("the plan cannot be written as YAML: {0}")]
    Yaml(String),
    /// Nothing performs runs any more.
    #[error("the world ends")]
    Ended,
}

/// The playback of a run; clones control the same one.
///
/// The thread of the run calls [`RunHandle::wait`] before something happens. That thread simulates the whole world in virtual
/// time, which does not pass while the thread waits, so that a run is the same however it is played. A fault that a user injects
/// is part of the plan of another run, which repeats the history of this one and takes its place.
#[derive(Clone)]
pub struct Player {
    clock: Clock,
    world: Shared,
    run: Arc<dyn PlayedRun>,
    playback: Arc<(Mutex<Playback>, Condvar)>,
}

/// The player as one run sees it. When another run takes its place, this one has no effect on the page.
#[derive(Clone, Debug)]
pub struct RunHandle {
    player: Player,
    run: u64,
}

/// Why a fault is not injected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InjectError {
    /// The run is in another state.
    #[error(transparent)]
    State(#[from] CommandError),
    /// The run cannot begin.
    #[error(transparent)]
    Begin(#[from] BeginError),
}

impl std::fmt::Debug for Player {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Player")
            .field("playback", &self.playback.0)
            .finish_non_exhaustive()
    }
}

impl RunHandle {
    /// The scenario starts at that virtual time.
    pub fn begin(&self, at: Timestamp) {
        let Player {
            clock, world, playback, ..
        } = &self.player;
        let mut playback = playback.0.lock();
        if playback.run() == self.run {
            playback.begin(clock.now(), at);
            world.lock().restart(at);
        }
    }

    /// Blocks the thread of the run until something may happen. `Break`: another run takes its place, and it ends.
    pub fn wait(&self, arrival: Arrival) -> ControlFlow<()> {
        let Player {
            clock, world, playback, ..
        } = &self.player;
        let (playback, changed) = &**playback;
        let mut playback = playback.lock();
        let mut is_shown = false;
        loop {
            if playback.run() != self.run {
                return ControlFlow::Break(());
            }
            let gate = playback.arrive(clock.now(), arrival);
            if gate == Gate::Open {
                return ControlFlow::Continue(());
            }
            if !is_shown {
                // Readers see that the world waits. A command may come meanwhile, so the gate is asked again.
                MutexGuard::unlocked(&mut playback, || world.lock().touch());
                is_shown = true;
                continue;
            }
            match gate {
                Gate::After(time) => drop(changed.wait_for(&mut playback, time)),
                Gate::Open | Gate::Closed => changed.wait(&mut playback),
            }
        }
    }

    /// Shows what the run observes.
    pub fn observe(&self, observation: &Observation) {
        let playback = self.player.playback.0.lock();
        if playback.run() == self.run {
            let mut world = self.player.world.lock();
            world.observe(observation.at, observation.what.clone());
        }
    }

    /// The run has ended at that virtual time. Returns whether it is the current one.
    pub fn finish(&self, at: Timestamp, end: RunEnd) -> bool {
        let mut playback = self.player.playback.0.lock();
        if playback.run() != self.run {
            return false;
        }
        playback.finish(at, end);
        self.player.world.lock().touch();
        true
    }

    /// Whether it is the current run.
    pub fn is_current(&self) -> bool {
        self.player.playback.0.lock().run() == self.run
    }
}

impl Player {
    /// The playback of a run that has not started yet. `clock` is the wall clock.
    pub fn new(clock: Clock, started: Timestamp, world: Shared, run: Arc<dyn PlayedRun>) -> Self {
        let playback = Playback::new(clock.now(), started);
        Self {
            clock,
            world,
            run,
            playback: Arc::new((Mutex::new(playback), Condvar::new())),
        }
    }

    /// The player as the current run sees it.
    pub fn current(&self) -> RunHandle {
        let run = self.playback.0.lock().run();
        RunHandle {
            player: self.clone(),
            run,
        }
    }

    /// Performs a command of the page.
    pub(crate) fn command(&self, command: Command) -> Result<Status, CommandError> {
        let (playback, changed) = &*self.playback;
        let now = self.clock.now();
        let status = {
            let mut playback = playback.lock();
            playback.command(now, command)?;
            playback.status(now)
        };
        changed.notify_all();
        self.world.lock().touch();
        Ok(status)
    }

    /// The place at which a fault would be injected now.
    pub(crate) fn place_of_fault(&self) -> Result<Place, CommandError> {
        self.playback.0.lock().place_of_fault(self.clock.now())
    }

    /// Begins a fault at the current place, which is returned with its virtual time.
    pub(crate) fn inject(&self, fault: &FaultPlan) -> Result<(Place, Timestamp), InjectError> {
        self.change(|place, _| Change {
            add: fault.timed(place.at, place.recorded),
            remove: Vec::new(),
        })
    }

    /// Ends a fault at the current place. `until` is the virtual time at which it ends otherwise, if it does.
    pub(crate) fn end(&self, fault: &FaultPlan, until: Option<Timestamp>) -> Result<(), InjectError> {
        let changed = self.change(|place, started| {
            let planned = until.and_then(|until| Duration::try_from(until.duration_since(started)).ok());
            Change {
                add: fault.timed_end(place.at, Some(place.recorded)),
                remove: planned.map(|at| fault.timed_end(at, None)).unwrap_or_default(),
            }
        });
        changed.map(drop)
    }

    /// Begins the run again with a change of its plan at the current place. The change depends on the start of the scenario.
    fn change(&self, change: impl FnOnce(Place, Timestamp) -> Change) -> Result<(Place, Timestamp), InjectError> {
        let (playback, changed) = &*self.playback;
        let at = {
            let mut playback = playback.lock();
            let place = playback.place_of_fault(self.clock.now())?;
            let change = change(place, playback.started());
            let handle = RunHandle {
                player: self.clone(),
                run: playback.run() + 1,
            };
            self.run.begin_again(change, handle)?;
            (place, playback.replay_to(place))
        };
        changed.notify_all();
        self.world.lock().touch();
        Ok(at)
    }

    /// The virtual time.
    pub(crate) fn now(&self) -> Timestamp {
        self.playback.0.lock().virtual_now(self.clock.now())
    }

    pub(crate) fn status(&self) -> Status {
        self.playback.0.lock().status(self.clock.now())
    }

    pub(crate) fn record(&self) -> RunRecord {
        self.run.record(self.now())
    }

    pub(crate) fn plan(&self) -> String {
        self.run.plan()
    }
}
