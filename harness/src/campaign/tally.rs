//! Counts events over all seeds of a campaign, and finds declared events that are too rare.

use std::collections::BTreeMap;

use record::RARE_ONE_OF;
use scenario::occurred::{Group, Occurred};
use serde::Serialize;

use super::suite::Suite;

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    seeds: u64,
    counts: BTreeMap<(Group, String), Count>,
}

/// Counts of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// Number of seeds in which it occurred.
    pub seeds: u64,
    /// Number of occurrences in all seeds.
    pub times: u64,
}

/// One line of a tally.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Group of the event.
    pub group: Group,
    /// Name of the event.
    pub name: String,
    /// Its counts.
    #[serde(flatten)]
    pub count: Count,
}

impl Tally {
    /// Adds one seed.
    pub fn add(&mut self, occurred: &Occurred) {
        self.seeds += 1;
        for (group, name, times) in occurred.all() {
            let count = self.counts.entry((group, name.to_owned())).or_default();
            count.seeds += 1;
            count.times += times;
        }
    }

    /// All lines, by group and name.
    pub fn lines(&self) -> Vec<Line> {
        self.counts
            .iter()
            .map(|((group, name), count)| Line {
                group: *group,
                name: name.clone(),
                count: *count,
            })
            .collect()
    }

    /// The events that a suite declares and that occurred in too few seeds, with their counts. Empty if the campaign
    /// has too few seeds to decide.
    pub fn rare(&self, suite: &Suite) -> Vec<Line> {
        if self.seeds < RARE_ONE_OF {
            return Vec::new();
        }
        let line = |(group, name): &(Group, &str)| Line {
            group: *group,
            name: (*name).to_owned(),
            count: self
                .counts
                .get(&(*group, (*name).to_owned()))
                .copied()
                .unwrap_or_default(),
        };
        let declared = suite.declares.iter().map(line);
        declared
            .filter(|line| line.count.seeds * RARE_ONE_OF < self.seeds)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITE: Suite = Suite {
        name: "test",
        about: "",
        declares: &[
            (Group::Fault, "often"),
            (Group::Fault, "rarely"),
            (Group::Fault, "never"),
        ],
    };

    fn occurred(faults: &[(&str, u64)]) -> Occurred {
        Occurred {
            faults: faults
                .iter()
                .map(|(name, times)| ((*name).to_owned(), *times))
                .collect(),
            ..Occurred::default()
        }
    }

    #[test]
    fn an_event_in_fewer_than_one_of_a_hundred_seeds_is_rare() {
        let mut tally = Tally::default();
        for seed in 0..200 {
            tally.add(&occurred(match seed {
                0 => &[("often", 3), ("rarely", 500)],
                1 => &[("often", 1)],
                _ => &[],
            }));
        }
        let rare: Vec<_> = tally
            .rare(&SUITE)
            .into_iter()
            .map(|line| (line.name, line.count.seeds))
            .collect();
        assert_eq!(rare, [("rarely".to_owned(), 1), ("never".to_owned(), 0)]);
        assert_eq!(tally.lines()[0].count, Count { seeds: 2, times: 4 });
    }

    #[test]
    fn with_too_few_seeds_no_event_is_rare() {
        let mut tally = Tally::default();
        (0..99).for_each(|_| tally.add(&occurred(&[])));
        assert!(tally.rare(&SUITE).is_empty());
    }
}
