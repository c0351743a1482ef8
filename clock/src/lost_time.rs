//! Measures the time that a process loses while the machine does not run it, so that wall-clock deadlines can be
//! extended.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::Clock;
use crate::waits::Waits;

/// How often the watchdog thread wakes.
const PERIOD: Duration = Duration::from_millis(20);
/// A wake-up that is late by less than this is timer jitter.
const JITTER: Duration = Duration::from_millis(5);
/// The number of wake-ups between two reads of the kernel's run-queue statistics.
const SAMPLED: u32 = 5;
/// The period of reads of the run-queue statistics of the started processes: there may be hundreds of threads.
const DESCENDANTS_SAMPLED: Duration = Duration::from_secs(1);
/// The longest wait of a thread that counts in full.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Losses within this period share one entry, which bounds memory to one entry per second.
const RESOLUTION: Duration = Duration::from_secs(1);

/// The time that this process lost because the machine was busy, suspended or swapping.
///
/// A watchdog thread wakes every 20 ms and records how late each wake-up is. On Linux the kernel also reports how
/// long each runnable thread waited for a core; the longest wait counts if it exceeds the late wake-ups. The waits of
/// started processes count on request. Other losses come from a [`Recorder`]. Wall-clock deadlines are extended by
/// the time lost since they began. Clones share their measurements.
#[derive(Clone, Debug, Default)]
pub struct LostTime(Vec<Arc<Measured>>);

/// The losses that one source measures.
#[derive(Debug, Default)]
struct Measured {
    log: Mutex<Log>,
}

/// Records losses that something other than the watchdog measures, for the [`LostTime`] that was created with it.
#[derive(Debug)]
pub struct Recorder(Arc<Measured>);

impl Recorder {
    /// Adds a loss that ended at `now` or continues then. Calls are in order of time.
    pub fn add(&self, now: Timestamp, late: Duration) {
        if !late.is_zero() {
            self.0.lock().add(now, late);
        }
    }
}

/// The losses in order of time: each entry is a moment and the sum of all losses up to it.
#[derive(Debug, Default)]
struct Log(Vec<(Timestamp, Duration)>);

impl Log {
    /// Records a loss of `late` that ended at `now`.
    fn add(&mut self, now: Timestamp, late: Duration) {
        let sum = self.total() + late;
        let first_of_entry = self.0.len().checked_sub(2).and_then(|before| self.0.get(before));
        let open = first_of_entry.is_some_and(|(before, _)| elapsed(*before, now) < RESOLUTION);
        match self.0.last_mut() {
            Some(last) if open => *last = (now, sum),
            _ => self.0.push((now, sum)),
        }
    }

    fn total(&self) -> Duration {
        self.0.last().map_or(Duration::ZERO, |(_, sum)| *sum)
    }

    /// The time lost after `moment`. A loss in progress at `moment` counts in full.
    fn since(&self, moment: Timestamp) -> Duration {
        let before = self.0.partition_point(|(at, _)| *at <= moment);
        let known = before.checked_sub(1).map_or(Duration::ZERO, |last| self.0[last].1);
        self.total() - known
    }
}

impl LostTime {
    /// Never loses time, as in virtual time.
    pub fn none() -> Self {
        Self::default()
    }

    /// The time that this process lost, from the first call on.
    pub fn measured() -> Self {
        static WATCHDOG: OnceLock<Arc<Measured>> = OnceLock::new();
        Self(vec![in_background("watchdog", &WATCHDOG, watch)])
    }

    /// The time that this process or one that it started lost, from the first call on. On a busy machine a process
    /// that computes waits longer for a core than one that mostly sleeps.
    pub fn measured_with_descendants() -> Self {
        static DESCENDANTS: OnceLock<Arc<Measured>> = OnceLock::new();
        Self::measured().or(Self(vec![in_background(
            "descendants",
            &DESCENDANTS,
            watch_descendants,
        )]))
    }

    /// The losses that the returned recorder adds.
    pub fn recorded() -> (Self, Recorder) {
        let measured = Arc::new(Measured::default());
        (Self(vec![Arc::clone(&measured)]), Recorder(measured))
    }

    /// Fixed losses for tests: the time lost until each of these moments, in order of time.
    pub fn known(losses: &[(Timestamp, Duration)]) -> Self {
        let (lost, recorder) = Self::recorded();
        for (until, late) in losses {
            recorder.add(*until, *late);
        }
        lost
    }

    /// Also includes the losses of `other`. Both may measure the same loss, so the larger sum counts.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The time lost between `moment` and now.
    pub fn since(&self, moment: Timestamp) -> Duration {
        let losses = self.0.iter().map(|measured| measured.lock().since(moment));
        losses.max().unwrap_or_default()
    }
}

/// Equal if both share their measurements.
impl PartialEq for LostTime {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Eq for LostTime {}

/// What a thread measures that starts with the first call.
fn in_background(name: &str, once: &OnceLock<Arc<Measured>>, measure: fn(&Measured)) -> Arc<Measured> {
    let measured = once.get_or_init(|| {
        let measured = Arc::new(Measured::default());
        let shared = Arc::clone(&measured);
        // Without the thread there are no measurements, and deadlines are not extended.
        let _ = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || measure(&shared));
        measured
    });
    Arc::clone(measured)
}

/// Measures the waits of the processes that this process started.
fn watch_descendants(measured: &Measured) {
    let clock = Clock::wall();
    let (never, condition) = (Mutex::new(()), Condvar::new());
    let mut guard = never.lock();
    let mut waits = Waits::default();
    waits.of_descendants();
    let (mut before, mut room) = (clock.now(), Duration::ZERO);
    loop {
        condition.wait_for(&mut guard, DESCENDANTS_SAMPLED);
        let now = clock.now();
        // A wait counts when it ends, in full. The waits of several threads overlap: together they lose at most all the time.
        room = (room + elapsed(before, now)).min(LONGEST_WAIT);
        before = now;
        let lost = waits.of_descendants().min(room);
        room -= lost;
        if lost > JITTER {
            measured.lock().add(now, lost);
        }
    }
}

/// The watchdog thread.
fn watch(measured: &Measured) {
    let clock = Clock::wall();
    // Nothing signals this condition: waiting on it with a timeout is a sleep outside the async runtime.
    let (never, condition) = (Mutex::new(()), Condvar::new());
    let mut guard = never.lock();
    let mut before = clock.now();
    let (mut waits, mut late) = (Waits::default(), Duration::ZERO);
    waits.of_this_process();
    for wake_up in (1..SAMPLED).chain([0]).cycle() {
        condition.wait_for(&mut guard, PERIOD);
        let now = clock.now();
        late += Some(elapsed(before, now).saturating_sub(PERIOD))
            .filter(|late| *late > JITTER)
            .unwrap_or_default();
        before = now;
        if wake_up == 0 {
            let lost = std::mem::take(&mut late).max(waits.of_this_process());
            if lost > JITTER {
                measured.lock().add(now, lost);
            }
        }
    }
}

impl Measured {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn log(losses: &[(i64, u64)]) -> Log {
        let mut log = Log::default();
        for (now, late) in losses {
            log.add(at(*now), Duration::from_millis(*late));
        }
        log
    }

    #[test]
    fn the_time_lost_since_a_moment_is_the_sum_of_later_losses() {
        let log = log(&[(1_000, 30), (5_000, 200), (9_000, 1)]);
        for (moment, lost) in [
            (0, 231),
            (1_000, 201),
            (4_900, 201),
            (5_000, 1),
            (9_000, 0),
            (20_000, 0),
        ] {
            assert_eq!(log.since(at(moment)), Duration::from_millis(lost), "since {moment} ms");
        }
    }

    #[test]
    fn many_losses_within_a_second_need_few_entries() {
        let losses: Vec<_> = (0..1_000).map(|number| (number * 20, 10)).collect();
        let log = log(&losses);
        assert_eq!(log.total(), Duration::from_secs(10));
        assert!(log.0.len() <= 42, "{} entries for 20 s", log.0.len());
    }

    #[test]
    fn virtual_time_has_no_losses() {
        assert_eq!(LostTime::none().since(at(0)), Duration::ZERO);
        assert_eq!(LostTime::none(), LostTime::default());
        assert_ne!(LostTime::none(), LostTime::measured());
    }

    #[test]
    fn of_two_measurements_the_larger_loss_counts() {
        let (lost, recorder) = LostTime::recorded();
        let known = LostTime::known(&[(at(1_000), Duration::from_secs(3)), (at(5_000), Duration::from_secs(1))]);
        let lost = known.or(lost);
        assert_eq!(lost.since(at(0)), Duration::from_secs(4));
        recorder.add(at(6_000), Duration::from_secs(2));
        assert_eq!(lost.since(at(0)), Duration::from_secs(4));
        assert_eq!(lost.since(at(1_000)), Duration::from_secs(2));
    }
}
