//! How often each controller panicked and started again, for metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use quantity::Saturating as _;

/// The panics of all controllers of one run. Clones share the numbers.
#[derive(Clone, Debug, Default)]
pub struct Panics(Arc<Mutex<BTreeMap<&'static str, PanicCounts>>>);

/// The panics of one controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PanicCounts {
    /// How often it panicked.
    pub panics: u64,
    /// How often it started again after that. One less than `panics` while it waits.
    pub restarts: u64,
}

impl PartialEq for Panics {
    fn eq(&self, other: &Self) -> bool {
        self.counts() == other.counts()
    }
}

impl Panics {
    /// The numbers of all supervised controllers by name.
    pub fn counts(&self) -> BTreeMap<&'static str, PanicCounts> {
        self.0.lock().clone()
    }

    /// A controller is supervised from now on.
    pub(super) fn supervised(&self, controller: &'static str) {
        self.0.lock().entry(controller).or_default();
    }

    pub(super) fn panicked(&self, controller: &'static str) {
        self.0.lock().entry(controller).or_default().panics.raise(1);
    }

    pub(super) fn restarted(&self, controller: &'static str) {
        self.0.lock().entry(controller).or_default().restarts.raise(1);
    }
}
