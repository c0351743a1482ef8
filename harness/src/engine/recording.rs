//! The record of a run in progress.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use record::Recorder;

/// The record of a run in progress; clones share it. It outlives a run that exceeds its limits, whose engine is dropped.
#[derive(Clone, Debug, Default)]
pub struct Recording(Arc<Mutex<Option<Recorder>>>);

impl Recording {
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

    /// The record so far; `None`: the scenario did not start.
    pub fn take(&self) -> Option<Recorder> {
        self.0.lock().take()
    }
}
