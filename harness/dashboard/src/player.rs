//! Holds up the thread of a simulated run as the page asks, and shows what the run has done so far.

use std::sync::Arc;

use clock::Clock;
use jiff::Timestamp;
use parking_lot::{Condvar, Mutex, MutexGuard};
use record::RunRecord;
use scenario::observation::Observation;

use crate::playback::{Arrival, Command, CommandError, Gate, Playback, RunEnd, Status};
use crate::world::Shared;

/// A run that a page plays.
pub trait PlayedRun: Send + Sync + 'static {
    /// The record so far, at that virtual time, or the final one.
    fn record(&self, now: Timestamp) -> RunRecord;

    /// The plan of the run as YAML, without the data of Secrets.
    fn plan(&self) -> String;
}

/// The playback of a run; clones control the same one.
///
/// The thread of the run calls [`Player::wait`] before something happens. That thread simulates the whole world in virtual time,
/// which does not pass while the thread waits, so that a run is the same however it is played.
#[derive(Clone)]
pub struct Player {
    clock: Clock,
    world: Shared,
    run: Arc<dyn PlayedRun>,
    playback: Arc<(Mutex<Playback>, Condvar)>,
}

impl std::fmt::Debug for Player {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Player")
            .field("playback", &self.playback.0)
            .finish_non_exhaustive()
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

    /// The scenario starts at that virtual time.
    pub fn begin(&self, at: Timestamp) {
        self.playback.0.lock().begin(self.clock.now(), at);
        self.world.lock().restart(at);
    }

    /// Blocks the thread of the run until something may happen.
    pub fn wait(&self, arrival: Arrival) {
        let (playback, changed) = &*self.playback;
        let mut playback = playback.lock();
        let mut is_shown = false;
        loop {
            let gate = playback.arrive(self.clock.now(), arrival);
            if gate == Gate::Open {
                return;
            }
            if !is_shown {
                // Readers see that the world waits. A command may come meanwhile, so the gate is asked again.
                MutexGuard::unlocked(&mut playback, || self.world.lock().touch());
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
        let mut world = self.world.lock();
        world.observe(observation.at, observation.what.clone());
    }

    /// The run has ended at that virtual time.
    pub fn finish(&self, at: Timestamp, end: RunEnd) {
        self.playback.0.lock().finish(at, end);
        self.world.lock().touch();
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

    pub(crate) fn status(&self) -> Status {
        self.playback.0.lock().status(self.clock.now())
    }

    pub(crate) fn record(&self) -> RunRecord {
        let now = self.playback.0.lock().virtual_now(self.clock.now());
        self.run.record(now)
    }

    pub(crate) fn plan(&self) -> String {
        self.run.plan()
    }
}
