//! Signs of life that come so regularly that nobody has to give them.
//!
//! Who gives one every few seconds, as a kubelet does, and who only asks whether it still comes, share a [`Pulses`]. A
//! giver in good health says once that it beats from now on; a pulse then costs nothing, however long it lasts, and every
//! beat is known to the nanosecond. In periods in which beats may go astray, everybody gives them one by one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Who beats. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Pulses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Tells that pulses have ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// When beats have to be given one by one.
    loud: Vec<Range<Timestamp>>,
    pulses: BTreeMap<String, Pulse>,
}

#[derive(Debug)]
struct Pulse {
    from: Timestamp,
    period: Duration,
    /// The first moment at which it did not beat; `None`: it beats.
    ended: Option<Timestamp>,
}

impl Pulse {
    /// The last beat at or before `now`; `None`: none has come.
    fn last(&self, now: Timestamp) -> Option<Timestamp> {
        let now = self.ended.map_or(now, |ended| ended.min(now));
        let beats = self.beats_until(now);
        (beats > 0).then(|| self.beat(beats))
    }

    /// How many beats come after the first one and not after `moment`.
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

/// Two are equal when they are one.
impl PartialEq for Pulses {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Pulses {}

impl Pulses {
    /// Nobody beats yet, and nobody beats unheard in these periods.
    pub fn new(loud: impl IntoIterator<Item = Range<Timestamp>>) -> Self {
        let state = State {
            loud: loud.into_iter().collect(),
            pulses: BTreeMap::new(),
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            ended: Notify::new(),
        }))
    }

    /// From now on every beat comes through unheard.
    pub fn quieten(&self) {
        self.lock().loud.clear();
    }

    /// `name` has given a sign of life until `now` and beats every `period` after it, unheard. Answers until when: the
    /// beat that comes then is to be given again, [`Timestamp::MAX`] for never. `None`: it may not, as now or before
    /// long everything has to be heard.
    pub fn begin(&self, name: &str, now: Timestamp, period: Duration) -> Option<Timestamp> {
        let mut state = self.lock();
        let pulse = Pulse {
            from: now,
            period,
            ended: None,
        };
        let next_beat = pulse.beat(1);
        let next_loud = state
            .loud
            .iter()
            .filter(|loud| loud.end > now)
            .map(|loud| loud.start)
            .min();
        let until = next_loud.map_or(Timestamp::MAX, |loud| pulse.beat(pulse.beats_until(loud)));
        if period.is_zero() || until <= next_beat {
            return None;
        }
        state.pulses.insert(name.to_owned(), pulse);
        Some(until)
    }

    /// `name` beats no more, or gives its beats itself. Answers when its next beat would have come; `None`: it did not beat.
    pub fn end(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        let pulse = state.pulses.get_mut(name).filter(|pulse| pulse.ended.is_none())?;
        pulse.ended = Some(now);
        let next = pulse.beat(pulse.beats_until(now) + 1);
        drop(state);
        self.0.ended.notify_waiters();
        Some(next)
    }

    /// All of them end.
    pub fn end_all(&self, now: Timestamp) {
        for pulse in self.lock().pulses.values_mut() {
            pulse.ended.get_or_insert(now);
        }
        self.0.ended.notify_waiters();
    }

    /// Returns once `name` does not beat: somebody has ended its pulse.
    pub async fn ended(&self, name: &str) {
        loop {
            let ended = self.0.ended.notified();
            if !self.beats(name) {
                return;
            }
            ended.await;
        }
    }

    /// Whether `name` beats.
    pub fn beats(&self, name: &str) -> bool {
        self.lock().pulses.get(name).is_some_and(|pulse| pulse.ended.is_none())
    }

    /// The last unheard beat of `name` at or before `now`; `None`: there was none.
    pub fn last(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        self.lock().pulses.get(name)?.last(now)
    }

    /// Forgets that there ever was a `name`.
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
    fn a_pulse_is_known_to_the_beat_until_it_ends() {
        let pulses = Pulses::default();
        assert_eq!(pulses.last("a", at(3)), None);
        assert_eq!(pulses.begin("a", at(3), PERIOD), Some(Timestamp::MAX));
        assert_eq!(pulses.last("a", at(12)), None, "the first sign of life was heard");
        for (now, beat) in [(13, 13), (22, 13), (1_000_012, 1_000_003)] {
            assert_eq!(pulses.last("a", at(now)), Some(at(beat)), "at {now} s");
        }
        assert_eq!(pulses.end("a", at(47)), Some(at(53)), "the next one would have come");
        assert_eq!(pulses.last("a", at(500)), Some(at(43)));
        assert_eq!(pulses.end("a", at(60)), None, "it has ended");
        assert_eq!(pulses.last("b", at(500)), None);
    }

    #[test]
    fn whoever_begins_anew_counts_from_then() {
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
    async fn who_waits_for_the_end_of_a_pulse_is_told() {
        let pulses = Pulses::default();
        pulses.ended("a").await;
        pulses.begin("a", at(0), PERIOD);
        pulses.begin("b", at(0), PERIOD);
        let mut waiting = std::pin::pin!(pulses.ended("a"));
        let story = async {
            pulses.end("b", at(20));
            tokio::task::yield_now().await;
            assert!(pulses.beats("a"), "only the other one has ended");
            pulses.end_all(at(25));
        };
        tokio::select! {
            biased;
            () = &mut waiting => unreachable!("it beats"),
            () = story => {}
        }
        waiting.await;
    }

    #[test]
    fn once_quiet_nobody_has_to_be_heard() {
        let pulses = Pulses::new([Timestamp::MIN..Timestamp::MAX]);
        assert_eq!(pulses.begin("a", at(5), PERIOD), None);
        pulses.quieten();
        assert_eq!(pulses.begin("a", at(15), PERIOD), Some(Timestamp::MAX));
    }

    #[test]
    fn what_must_be_heard_is_given_from_the_beat_before_on() {
        let pulses = Pulses::new([at(100)..at(200), at(250)..at(260)]);
        assert_eq!(pulses.begin("a", at(5), PERIOD), Some(at(95)));
        assert_eq!(
            pulses.begin("a", at(85), PERIOD),
            None,
            "the next beat is the last before it"
        );
        assert_eq!(pulses.begin("a", at(150), PERIOD), None);
        assert_eq!(pulses.begin("a", at(205), PERIOD), Some(at(245)));
        assert_eq!(pulses.begin("a", at(260), PERIOD), Some(Timestamp::MAX));
    }
}
