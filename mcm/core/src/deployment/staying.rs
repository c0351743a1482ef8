//! The machines that stay in a set, counted for every size that the set could have.

use std::sync::Arc;

use jiff::Timestamp;
use mcm_api::Machine;

use super::rollout_draft::SetDraft;

/// The active machines of one set, next candidate for deletion first. Of a set of size `n`, the last `n` stay.
///
/// The counts are made once, so that rules can compare sizes without counting machines again.
pub(super) struct Staying<'a> {
    machines: Vec<&'a Arc<Machine>>,
    /// For each position, how many machines from there on serve and are available.
    counts: Vec<Counts>,
}

/// How many of the machines that stay serve, and how many are available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub serving: i64,
    pub available: i64,
}

impl<'a> Staying<'a> {
    pub(super) fn of(set: &'a SetDraft, now: Timestamp) -> Self {
        let machines = set.staying_of(i64::MAX);
        let mut counts = vec![Counts::default(); machines.len() + 1];
        for (position, machine) in machines.iter().enumerate().rev() {
            let (is_available, serves) = (set.is_available(machine, now), set.serves(machine, now));
            counts[position] = Counts {
                serving: counts[position + 1].serving + i64::from(serves),
                available: counts[position + 1].available + i64::from(is_available),
            };
        }
        Self { machines, counts }
    }

    /// The counts if the set had that size.
    pub(super) fn counts(&self, size: i64) -> Counts {
        self.counts[self.first(size)]
    }

    /// The fewest additional places with which more machines serve or are available; `None`: no number up to `most`.
    pub(super) fn places_to_gain(&self, size: i64, most: i64) -> Option<i64> {
        let now = self.counts(size);
        (1..=most).find(|places| self.counts(size + places) != now)
    }

    /// The machine that stays at this size and is deleted at one less; `None`: there is none.
    pub(super) fn last(&self, size: i64) -> Option<&'a Arc<Machine>> {
        let (with, without) = (self.first(size), self.first(size - 1));
        (with < without).then(|| self.machines[with])
    }

    /// The position of the first machine that stays at this size.
    fn first(&self, size: i64) -> usize {
        self.machines
            .len()
            .saturating_sub(usize::try_from(size).unwrap_or_default())
    }
}
