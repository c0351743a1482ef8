//! Heartbeats that need no request while they are regular.
//!
//! A sender of periodic heartbeats, such as a kubelet, and a reader that only checks for them share a [`Pulses`]. A
//! healthy sender starts a pulse once. From then on each beat is implied: it costs nothing, and its time is exact. In
//! explicit periods, when a heartbeat could be lost, every sender sends its heartbeats as requests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The pulses of all senders. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Pulses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notifies the waiters of [`Pulses::ended`].
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The periods in which senders send each heartbeat as a request.
    explicit: Vec<Range<Timestamp>>,
    pulses: BTreeMap<String, Pulse>,
}

#[derive(Debug)]
struct Pulse {
    from: Timestamp,
    period: Duration,
    /// The end of the pulse, exclusive; `None` while it is active.
    ended: Option<Timestamp>,
}

impl Pulse {
    /// The last implied beat at or before `now`; `None` if there was none.
    fn last(&self, now: Timestamp) -> Option<Timestamp> {
        let now = self.ended.map_or(now, |ended| ended.min(now));
        let beats = self.beats_until(now);
        (beats > 0).then(|| self.beat(beats))
    }

    /// The number of beats after the first one, up to and including `moment`.
    fn beats_until(&self, moment: Timestamp) -> i128 {
        let elapsed = moment.as_nanosecond() - self.from.as_nanosecond();
        elapsed.max(0).checked_div(self.nanoseconds()).unwrap_or_default()
    }

    fn beat(&self, number: i128) -> Timestamp {
        let after = SignedDuration::from_nanos_i128(number.saturating_mul(self.nanoseconds()));
        self.from.saturating_add(after).unwrap_or(Timestamp::MAX)
    }

    fn nanoseconds(&self) -> i128 {
        i128::try_from(self.period.as_nanos()).unwrap_or(i128::MAX)
    }
}

/// Equal if both are clones of one value.
impl PartialEq for Pulses {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Pulses {}

impl Pulses {
    /// Without pulses. No pulse covers a time in the `explicit` periods.
    pub fn new(explicit: impl IntoIterator<Item = Range<Timestamp>>) -> Self {
        let state = State {
            explicit: explicit.into_iter().collect(),
            pulses: BTreeMap::new(),
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            ended: Notify::new(),
        }))
    }

    /// Removes all explicit periods.
    pub fn clear_explicit_periods(&self) {
        self.lock().explicit.clear();
    }

    /// Starts a pulse: `name` has sent a heartbeat at `now`, and its later beats, one every `period`, are implied.
    /// Returns the time of the next heartbeat that the sender must send as a request, [`Timestamp::MAX`] for never.
    /// Returns `None` if an explicit period is too close: the sender continues to send requests.
    pub fn begin(&self, name: &str, now: Timestamp, period: Duration) -> Option<Timestamp> {
        let mut state = self.lock();
        let pulse = Pulse {
            from: now,
            period,
            ended: None,
        };
        let next_beat = pulse.beat(1);
        let next_explicit = state
            .explicit
            .iter()
            .filter(|explicit| explicit.end > now)
            .map(|explicit| explicit.start)
            .min();
        let until = next_explicit.map_or(Timestamp::MAX, |explicit| pulse.beat(pulse.beats_until(explicit)));
        if period.is_zero() || until <= next_beat {
            return None;
        }
        state.pulses.insert(name.to_owned(), pulse);
        Some(until)
    }

    /// Ends the pulse of `name`. Returns the time of its next beat; `None` if no pulse was active.
    pub fn end(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        let pulse = state.pulses.get_mut(name).filter(|pulse| pulse.ended.is_none())?;
        pulse.ended = Some(now);
        let next = pulse.beat(pulse.beats_until(now) + 1);
        drop(state);
        self.0.ended.notify_waiters();
        Some(next)
    }

    /// Ends all pulses.
    pub fn end_all(&self, now: Timestamp) {
        for pulse in self.lock().pulses.values_mut() {
            pulse.ended.get_or_insert(now);
        }
        self.0.ended.notify_waiters();
    }

    /// Returns when `name` has no active pulse.
    pub async fn ended(&self, name: &str) {
        loop {
            let ended = self.0.ended.notified();
            if !self.beats(name) {
                return;
            }
            ended.await;
        }
    }

    /// Whether the pulse of `name` is active.
    pub fn beats(&self, name: &str) -> bool {
        self.lock().pulses.get(name).is_some_and(|pulse| pulse.ended.is_none())
    }

    /// The last implied beat of `name` at or before `now`; `None` if there was none.
    pub fn last(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        self.lock().pulses.get(name)?.last(now)
    }

    /// Removes the history of `name`.
    pub fn forget(&self, name: &str) {
        self.lock().pulses.remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn a_pulse_has_exact_beats_until_it_ends() {
        let pulses = Pulses::default();
        assert_eq!(pulses.last("a", at(3)), None);
        assert_eq!(pulses.begin("a", at(3), PERIOD), Some(Timestamp::MAX));
        assert_eq!(pulses.last("a", at(12)), None, "the first heartbeat was a request");
        for (now, beat) in [(13, 13), (22, 13), (1_000_012, 1_000_003)] {
            assert_eq!(pulses.last("a", at(now)), Some(at(beat)), "at {now} s");
        }
        assert_eq!(pulses.end("a", at(47)), Some(at(53)), "the next beat would come then");
        assert_eq!(pulses.last("a", at(500)), Some(at(43)));
        assert_eq!(pulses.end("a", at(60)), None, "the pulse has already ended");
        assert_eq!(pulses.last("b", at(500)), None);
    }

    #[test]
    fn a_restarted_pulse_counts_from_its_new_start() {
        let pulses = Pulses::default();
        pulses.begin("a", at(0), PERIOD);
        pulses.end_all(at(25));
        assert_eq!(pulses.last("a", at(100)), Some(at(20)));
        pulses.begin("a", at(104), PERIOD);
        assert_eq!(pulses.last("a", at(123)), Some(at(114)));
        pulses.forget("a");
        assert_eq!(pulses.last("a", at(123)), None);
    }

    #[tokio::test]
    async fn the_end_of_a_pulse_wakes_its_waiter() {
        let pulses = Pulses::default();
        pulses.ended("a").await;
        pulses.begin("a", at(0), PERIOD);
        pulses.begin("b", at(0), PERIOD);
        let mut waiting = std::pin::pin!(pulses.ended("a"));
        let story = async {
            pulses.end("b", at(20));
            tokio::task::yield_now().await;
            assert!(pulses.beats("a"), "only the other pulse has ended");
            pulses.end_all(at(25));
        };
        tokio::select! {
            biased;
            () = &mut waiting => unreachable!("the pulse is active"),
            () = story => {}
        }
        waiting.await;
    }

    #[test]
    fn without_explicit_periods_a_pulse_has_no_end() {
        let pulses = Pulses::new([Timestamp::MIN..Timestamp::MAX]);
        assert_eq!(pulses.begin("a", at(5), PERIOD), None);
        pulses.clear_explicit_periods();
        assert_eq!(pulses.begin("a", at(15), PERIOD), Some(Timestamp::MAX));
    }

    #[test]
    fn a_pulse_ends_at_the_last_beat_before_an_explicit_period() {
        let pulses = Pulses::new([at(100)..at(200), at(250)..at(260)]);
        assert_eq!(pulses.begin("a", at(5), PERIOD), Some(at(95)));
        assert_eq!(
            pulses.begin("a", at(85), PERIOD),
            None,
            "the next beat is the last one before the period"
        );
        assert_eq!(pulses.begin("a", at(150), PERIOD), None);
        assert_eq!(pulses.begin("a", at(205), PERIOD), Some(at(245)));
        assert_eq!(pulses.begin("a", at(260), PERIOD), Some(Timestamp::MAX));
    }
}
