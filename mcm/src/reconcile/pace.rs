//! Limits how often sets and deployments with many machines are reconciled, so that a burst of machine changes becomes
//! few passes.
//!
//! A pass of an owner takes time in proportion to its machines, and each of them changes several times while it is created
//! or deleted. With one pass per change the cost would grow with the square of the number of machines. The wait between
//! two passes grows with their number instead, so that owners take a constant share of the time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

/// Owners with fewer machines are reconciled at once.
const MANY: usize = 100;
/// The wait between two passes for each machine; longer than a pass takes for it.
const WAIT_PER_MACHINE: Duration = Duration::from_micros(100);

/// When each owner with many machines may be reconciled again.
#[derive(Debug)]
pub(super) struct Pace<K>(BTreeMap<K, Timestamp>);

impl<K> Default for Pace<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Pace<K> {
    /// A pass of `key` over so many machines ended.
    pub(super) fn passed(&mut self, key: K, machines: usize, now: Timestamp) {
        if machines < MANY {
            self.0.remove(&key);
            return;
        }
        let wait = WAIT_PER_MACHINE.saturating_mul(u32::try_from(machines).unwrap_or(u32::MAX));
        self.0.insert(key, now.checked_add(wait).unwrap_or(Timestamp::MAX));
    }

    /// The next pass of `key` waits for that time.
    pub(super) fn pause(&mut self, key: K, pause: Duration, now: Timestamp) {
        self.0.insert(key, now.checked_add(pause).unwrap_or(Timestamp::MAX));
    }

    /// When `key` may be reconciled again; `None`: at once.
    pub(super) fn earliest(&self, key: &K, now: Timestamp) -> Option<Timestamp> {
        self.0.get(key).copied().filter(|earliest| *earliest > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + milliseconds).unwrap()
    }

    #[test]
    fn the_wait_grows_with_the_number_of_machines() {
        let mut pace = Pace::default();
        for (machines, milliseconds) in [(99, None), (100, Some(10)), (1_000, Some(100)), (5_000, Some(500))] {
            pace.passed("set", machines, at(0));
            assert_eq!(
                pace.earliest(&"set", at(0)),
                milliseconds.map(at),
                "{machines} machines"
            );
        }
        assert_eq!(pace.earliest(&"set", at(500)), None, "the wait is over");
        assert_eq!(pace.earliest(&"other", at(0)), None);
    }
}
