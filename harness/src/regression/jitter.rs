//! Jitters the times of a scenario, so that the detection of a bug does not depend on exact times.
//!
//! It changes the waits of the scenario and the durations of cloud faults. Timeouts and the times of expectations are
//! under test and stay the same.

use std::time::Duration;

use clock::{Seed, Stream};
use scenario::{DurationExpression, Latency, Scenario, Step, Timeouts};

/// Maximum change of a time in percent.
const MOST: u64 = 10;

/// The scenario with its times changed by up to a tenth, depending on the seed.
pub fn jittered(scenario: &Scenario, seed: u64) -> Scenario {
    let mut stream = Seed::new(seed).stream("jitter");
    let timeouts = Timeouts::production();
    let mut moved = scenario.clone();
    for step in &mut moved.steps {
        let times = match step {
            Step::Wait(time) => vec![&mut time.0],
            Step::Inject(fault) => {
                let latency = fault.rule.action.latency.iter_mut();
                latency.filter_map(Latency::fixed_mut).collect()
            }
            Step::SlowCreation(slow) => vec![&mut slow.by],
            Step::Pause(pause) => vec![&mut pause.time],
            _ => Vec::new(),
        };
        for time in times {
            *time = jitter(time.value(&timeouts), &mut stream);
        }
    }
    moved
}

fn jitter(time: Duration, stream: &mut Stream) -> DurationExpression {
    let permille = stream.below(20 * MOST + 1) + 1000 - 10 * MOST;
    let nanos = time.as_millis().saturating_mul(u128::from(permille)) / 1000;
    Duration::from_millis(u64::try_from(nanos).unwrap_or(u64::MAX)).into()
}

#[cfg(test)]
mod tests {
    use scenario::builder::{seconds, wait};

    use super::*;

    #[test]
    fn a_time_changes_by_at_most_a_tenth_and_depends_on_the_seed() {
        let scenario = Scenario::new("s", "A scenario.").steps((0..50).map(|_| wait(seconds(100))));
        let moved = jittered(&scenario, 7);
        assert_eq!(moved, jittered(&scenario, 7));
        assert_ne!(moved, jittered(&scenario, 8));
        for step in &moved.steps {
            let Step::Wait(time) = step else { panic!("{step:?}") };
            let time = time.0.value(&Timeouts::production());
            assert!(
                (Duration::from_secs(90)..=Duration::from_secs(110)).contains(&time),
                "{time:?}"
            );
        }
    }
}
