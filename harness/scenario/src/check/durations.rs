//! Checks that durations are above zero, and bounds in order, on every stage where the scenario runs.

use std::time::Duration;

use crate::expect::{Condition, Expectation, History, Temporal};
use crate::{DurationExpression, Problem, StageKind, Timeouts};

/// The node grace period of a real cluster.
const CLUSTER_GRACE: Duration = Duration::from_secs(50);

/// The stages of a scenario with the values of their named durations.
#[derive(Debug)]
pub(crate) struct StageTimeouts(Vec<(StageKind, Timeouts)>);

impl StageTimeouts {
    /// The stages for which `runs` is true.
    pub(crate) fn of(runs: impl Fn(StageKind) -> bool) -> Self {
        let timeouts = |stage| match stage {
            StageKind::Sim => Timeouts::production(),
            StageKind::Embedded => Timeouts::short(),
            StageKind::Envtest => Timeouts::on_etcd(),
            StageKind::Kubeconfig | StageKind::Kind => Timeouts::on_cluster(CLUSTER_GRACE),
        };
        let stages = StageKind::ALL.into_iter().filter(|stage| runs(*stage));
        Self(stages.map(|stage| (stage, timeouts(stage))).collect())
    }

    /// Checks that a duration is above zero.
    ///
    /// # Errors
    /// The stage on which it is not.
    pub(crate) fn check_positive(&self, field: &str, time: &DurationExpression) -> Result<(), Problem> {
        let zero = |(_, timeouts): &&(StageKind, Timeouts)| time.value(timeouts).is_zero();
        match self.0.iter().find(zero) {
            Some((stage, _)) => Err((
                field.to_owned(),
                format!(
                    "{:?} is zero on stage {stage}; write a duration above zero, such as 90s",
                    time.to_string()
                ),
            )),
            None => Ok(()),
        }
    }

    /// Checks that `shorter` is at most `longer`.
    fn check_order(
        &self,
        field: &str,
        shorter: &DurationExpression,
        longer: &DurationExpression,
    ) -> Result<(), Problem> {
        let reversed = |(_, timeouts): &&(StageKind, Timeouts)| shorter.value(timeouts) > longer.value(timeouts);
        match self.0.iter().find(reversed) {
            Some((stage, _)) => Err((
                field.to_owned(),
                format!(
                    "{:?} is longer than {:?} on stage {stage}, so it can never be met",
                    shorter.to_string(),
                    longer.to_string()
                ),
            )),
            None => Ok(()),
        }
    }

    /// Checks the durations of an expectation.
    ///
    /// # Errors
    /// The first invalid one.
    pub(crate) fn check_expectation(&self, path: &str, expectation: &Expectation) -> Result<(), Problem> {
        match &expectation.holds {
            Temporal::Eventually(time) => self.check_positive(&format!("{path}.holds.eventually"), time)?,
            Temporal::Always(time) => self.check_positive(&format!("{path}.holds.always"), time)?,
            Temporal::Never(time) => self.check_positive(&format!("{path}.holds.never"), time)?,
            Temporal::ForAtLeast(form) => {
                self.check_positive(&format!("{path}.holds.forAtLeast.time"), &form.time)?;
                self.check_order(&format!("{path}.holds.forAtLeast.time"), &form.time, &form.within)?;
            }
            Temporal::AtMost(form) => self.check_positive(&format!("{path}.holds.atMost.within"), &form.within)?,
            Temporal::Throughout => {}
        }
        self.check_condition(&format!("{path}.that"), &expectation.that)
    }

    fn check_condition(&self, path: &str, condition: &Condition) -> Result<(), Problem> {
        match condition {
            Condition::History(history) => self.check_history(path, history),
            Condition::All(parts) => self.check_parts(&format!("{path}.all"), parts),
            Condition::Any(parts) => self.check_parts(&format!("{path}.any"), parts),
            Condition::Not(part) => self.check_condition(&format!("{path}.not"), part),
            _ => Ok(()),
        }
    }

    fn check_parts(&self, path: &str, parts: &[Condition]) -> Result<(), Problem> {
        let mut parts = parts.iter().enumerate();
        parts.try_for_each(|(index, part)| self.check_condition(&format!("{path}[{index}]"), part))
    }

    fn check_history(&self, path: &str, history: &History) -> Result<(), Problem> {
        let mut phases = history.phases.iter().enumerate();
        phases.try_for_each(|(index, change)| match (&change.not_before, &change.not_after) {
            (Some(earliest), Some(latest)) => {
                self.check_order(&format!("{path}.history.phases[{index}].notBefore"), earliest, latest)
            }
            _ => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::negative("5s - 10s", true, Some("\"5s - 10s\" is zero on stage sim"))]
    #[case::zero("0s", true, Some("\"0s\" is zero on stage sim"))]
    #[case::zero_with_short_timeouts("healthTimeout - 1m", false, Some("is zero on stage embedded"))]
    #[case::positive_in_virtual_time("healthTimeout - 1m", true, None)]
    #[case::positive("slack", false, None)]
    fn a_duration_is_above_zero_where_the_scenario_runs(
        #[case] text: &str,
        #[case] only_sim: bool,
        #[case] expected: Option<&str>,
    ) {
        let stages = StageTimeouts::of(|stage| !only_sim || stage == StageKind::Sim);
        let checked = stages.check_positive("wait", &text.parse().unwrap());
        match (checked, expected) {
            (Err((_, message)), Some(expected)) => assert!(message.contains(expected), "{message}"),
            (checked, expected) => assert_eq!(checked.is_ok(), expected.is_none(), "{checked:?}"),
        }
    }
}
