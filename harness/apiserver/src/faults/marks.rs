//! Records when each revision was the newest, for caches that lag by a duration.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::Clock;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

/// Revisions with their commit times, recorded only while a rule needs them.
#[derive(Debug)]
pub(crate) struct Marks {
    clock: Clock,
    wanted: AtomicBool,
    recorded: Mutex<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    /// Oldest first; the first one is the newest that is at least `longest` old.
    marks: VecDeque<(Timestamp, u64)>,
    /// The longest lag of any rule.
    longest: Duration,
}

impl Marks {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            wanted: AtomicBool::new(false),
            recorded: Mutex::default(),
        }
    }

    /// Records marks for lags up to `longest`; `None` stops recording. `revision` is the newest one.
    pub(super) fn keep(&self, longest: Option<Duration>, revision: u64) {
        let mut recorded = self.lock();
        recorded.longest = longest.unwrap_or_default();
        if longest.is_none() {
            recorded.marks.clear();
        } else if recorded.marks.is_empty() {
            recorded.marks.push_back((self.clock.now(), revision));
        }
        self.wanted.store(longest.is_some(), Ordering::SeqCst);
    }

    /// The newest revision `by` ago, but not from before recording began.
    pub(super) fn revision(&self, by: Duration) -> Option<u64> {
        let then = self.clock.now().saturating_sub(by).unwrap_or(Timestamp::MIN);
        let recorded = self.lock();
        let older = recorded.marks.partition_point(|(at, _)| *at <= then);
        recorded
            .marks
            .get(older.saturating_sub(1))
            .map(|(_, revision)| *revision)
    }

    pub(crate) fn committed(&self, revision: u64) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let now = self.clock.now();
        let mut recorded = self.lock();
        recorded.marks.push_back((now, revision));
        let then = now.saturating_sub(recorded.longest).unwrap_or(Timestamp::MIN);
        while recorded.marks.get(1).is_some_and(|(at, _)| *at <= then) {
            recorded.marks.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn marks_give_the_newest_revision_of_a_time_and_expire() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
        let marks = Marks::new(clock.clone());
        let seconds = Duration::from_secs;
        assert_eq!(marks.revision(seconds(1)), None);
        marks.committed(4);
        marks.keep(Some(seconds(10)), 4);
        for revision in 5..100 {
            clock.sleep(seconds(1)).await;
            marks.committed(revision);
        }
        assert_eq!(marks.revision(seconds(0)), Some(99));
        assert_eq!(marks.revision(seconds(3)), Some(96));
        assert_eq!(marks.revision(seconds(10)), Some(89));
        assert_eq!(marks.lock().marks.len(), 11);
        marks.keep(None, 99);
        assert_eq!(marks.revision(seconds(3)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_lag_reaches_before_the_first_mark() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
        let marks = Marks::new(clock.clone());
        clock.sleep(Duration::from_secs(100)).await;
        marks.keep(Some(Duration::from_secs(60)), 7);
        clock.sleep(Duration::from_secs(5)).await;
        marks.committed(8);
        assert_eq!(marks.revision(Duration::from_secs(60)), Some(7));
    }
}
