//! Observes the API server: counts objects, and collects the records of writes.

use apiserver::observe::{Commit, Observer};
use apiserver::views::WriteRecord;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::counts::{Count, Totals};

/// The maximum number of records that are kept: the first ones. All are counted.
const RECORDS: usize = 20_000;

/// What a run observed.
#[derive(Debug)]
pub(super) struct Observed {
    counts: Mutex<Vec<Count>>,
    writes: Mutex<Writes>,
    revision: watch::Sender<u64>,
}

/// The writes of the controller.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    pub(super) total: usize,
    /// Those that changed something and were based on a view without changes by others.
    pub(super) stale: usize,
    /// Those that a change contradicts.
    pub(super) contradicted: usize,
    /// Those that the server refused or that changed nothing.
    pub(super) without_effect: usize,
    pub(super) records: Vec<WriteRecord>,
}

impl Writes {
    pub(super) fn add(&mut self, record: &WriteRecord) {
        self.total += 1;
        if !record.is_done() {
            self.without_effect += 1;
        } else {
            self.stale += usize::from(record.is_stale());
            self.contradicted += usize::from(!record.contradictions.is_empty());
        }
        if self.records.len() < RECORDS {
            self.records.push(record.clone());
        }
    }
}

impl Observed {
    pub(super) fn new(counts: Vec<Count>) -> Self {
        Self {
            counts: Mutex::new(counts),
            writes: Mutex::default(),
            revision: watch::Sender::new(0),
        }
    }

    /// Notifies of every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    pub(super) fn writes(&self) -> Writes {
        self.writes.lock().clone()
    }

    /// What was counted, in the order of the expectations.
    pub(super) fn totals(&self) -> Vec<Totals> {
        self.counts.lock().iter().map(|count| count.totals().clone()).collect()
    }
}

impl Observer for Observed {
    fn commit(&self, commit: &Commit<'_>) {
        for count in self.counts.lock().iter_mut() {
            count.add(commit.resource, commit.change);
        }
        self.revision.send_replace(commit.change.revision);
    }

    fn write(&self, record: &WriteRecord) {
        self.writes.lock().add(record);
    }
}
