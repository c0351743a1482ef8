//! The record of a run in progress.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use record::Recorder;

/// The record of a run in progress; clones share it. It outlives a run that exceeds its limits, whose engine is dropped.
#[derive(Clone, Debug, Default)]
pub struct Recording(Arc<Mutex<Option<Recorder>>>);

impl Recording {
    /// The record of a run with these events so far.
    pub fn of(recorder: Option<Recorder>) -> Self {
        Self(Arc::new(Mutex::new(recorder)))
    }

    /// Begins the record of a scenario that starts now.
    pub(super) fn start(&self, now: Timestamp) {
        *self.0.lock() = Some(Recorder::new(now));
    }

    /// Adds to the record.
    pub(super) fn add(&self, change: impl FnOnce(&mut Recorder)) {
        if let Some(recorder) = self.0.lock().as_mut() {
            change(recorder);
        }
    }

    /// The number of recorded events.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().as_ref().map_or(0, Recorder::recorded)
    }

    /// A copy of the record so far; `None`: the scenario did not start.
    pub fn copy(&self) -> Option<Recorder> {
        self.0.lock().clone()
    }

    /// The record so far; `None`: the scenario did not start.
    pub fn take(&self) -> Option<Recorder> {
        self.0.lock().take()
    }
}
