//! The parts of a missed expectation that do not hold, for tables.

use scenario::Timeouts;
use scenario::expect::{Condition, Expectation};

use crate::evaluate::{describe, holds};
use crate::signature::form;
use crate::world::WorldState;

/// The parts of an expectation's condition that are not as it wants, each with what is observed.
pub(crate) fn parts(
    expectation: &Expectation,
    that: &Condition,
    world: &WorldState,
    timeouts: &Timeouts,
) -> Vec<(String, String)> {
    let (_, wanted) = form(&expectation.holds);
    let mut parts = Vec::new();
    collect(that, wanted, world, timeouts, &mut parts);
    parts
}

fn collect(
    condition: &Condition,
    wanted: bool,
    world: &WorldState,
    timeouts: &Timeouts,
    parts: &mut Vec<(String, String)>,
) {
    if holds(condition, world, timeouts) == wanted {
        return;
    }
    match condition {
        Condition::All(list) | Condition::Any(list) => {
            for part in list {
                collect(part, wanted, world, timeouts, parts);
            }
        }
        Condition::Not(part) => collect(part, !wanted, world, timeouts, parts),
        part => {
            let not = if wanted { "" } else { "not: " };
            parts.push((format!("{not}{part}"), describe(part, world)));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use scenario::builder::{exists, seconds};
    use scenario::expect::Temporal;

    use super::*;

    #[rstest]
    #[case::a_part_that_does_not_hold(
        Condition::All(vec![exists("Machine", "m-1"), Condition::Not(Box::new(exists("Machine", "m-2")))]),
        Temporal::Eventually(seconds(1)),
        &[("Machine m-1 exists", "Machine m-1 does not exist")]
    )]
    #[case::a_part_of_an_alternative_that_holds(
        Condition::All(vec![
            Condition::Any(vec![exists("Machine", "m-1"), Condition::Not(Box::new(exists("Machine", "m-2")))]),
            exists("Machine", "m-3"),
        ]),
        Temporal::Eventually(seconds(1)),
        &[("Machine m-3 exists", "Machine m-3 does not exist")]
    )]
    #[case::nothing_may_exist(exists("Machine", "m-1"), Temporal::Never(seconds(1)), &[])]
    fn only_parts_that_are_not_as_wanted_are_listed(
        #[case] that: Condition,
        #[case] holds: Temporal,
        #[case] expected: &[(&str, &str)],
    ) {
        let expectation = Expectation {
            that: that.clone(),
            holds,
            meanwhile: false,
            may_miss: false,
        };
        let found = parts(&expectation, &that, &WorldState::default(), &Timeouts::production());
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(wanted, found)| (wanted.as_str(), found.as_str()))
            .collect();
        assert_eq!(found, expected);
    }
}
