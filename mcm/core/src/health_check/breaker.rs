//! The circuit breaker: whether machines are remediated, given how many are not healthy.
//!
//! The Cluster API proposal stops remediation at `maxUnhealthy`, its implementation only above it; the name of the field
//! in v1beta2, `unhealthyLessThanOrEqualTo`, says the latter, which is the default here.

use super::policy::Limit;

/// The answer of the circuit breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Whether unhealthy machines are remediated.
    pub allowed: bool,
    /// How many more machines may become unhealthy before remediation stops; zero while it is stopped.
    pub remaining: usize,
    /// The numbers and the rule, for the condition.
    pub message: String,
}

/// Whether machines are remediated if `unhealthy` of `expected` machines are not healthy. `exclusive`: they are not at the
/// limit itself.
pub fn allowance(limit: Limit, expected: usize, unhealthy: usize, exclusive: bool) -> Allowance {
    let (lowest, highest, rule) = match limit {
        Limit::None => (0, expected, "there is no limit".to_owned()),
        Limit::AtMost(amount) => {
            let most = amount.rounded_down(expected);
            let word = if exclusive { "below" } else { "up to" };
            (
                0,
                most,
                format!("machines are remediated {word} {most} (maxUnhealthy {amount})"),
            )
        }
        Limit::Range { minimum, maximum } => {
            let end = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
            let rule = format!("machines are remediated from {minimum} to {maximum}");
            (end(minimum), end(maximum), rule)
        }
    };
    let exclusive = exclusive && matches!(limit, Limit::AtMost(_));
    let below = if exclusive {
        unhealthy < highest
    } else {
        unhealthy <= highest
    };
    let allowed = unhealthy >= lowest && below;
    let bound = highest.saturating_sub(usize::from(exclusive));
    Allowance {
        allowed,
        remaining: if allowed { bound.saturating_sub(unhealthy) } else { 0 },
        message: format!("{unhealthy} of {expected} machines are not healthy; {rule}"),
    }
}

/// Whether fewer machines are unhealthy than the limit remediates, which is no storm.
pub fn is_below(limit: Limit, unhealthy: usize) -> bool {
    match limit {
        Limit::Range { minimum, .. } => usize::try_from(minimum).is_ok_and(|minimum| unhealthy < minimum),
        Limit::None | Limit::AtMost(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::health_check::Amount;

    fn at_most(count: u32) -> Limit {
        Limit::AtMost(Amount::Count(count))
    }

    fn percent(percent: u32) -> Limit {
        Limit::AtMost(Amount::Percent(percent))
    }

    fn range(minimum: u32, maximum: u32) -> Limit {
        Limit::Range { minimum, maximum }
    }

    #[rstest]
    #[case::no_limit(Limit::None, 5, 5, true, 0)]
    #[case::count_below(at_most(3), 5, 2, true, 1)]
    #[case::count_equal(at_most(3), 5, 3, true, 0)]
    #[case::count_above(at_most(3), 5, 4, false, 0)]
    #[case::percent_below(percent(60), 5, 2, true, 1)]
    #[case::percent_equal(percent(60), 5, 3, true, 0)]
    #[case::percent_above(percent(60), 5, 4, false, 0)]
    #[case::rounded_down(percent(40), 6, 2, true, 0)]
    #[case::rounded_down_above(percent(40), 6, 3, false, 0)]
    #[case::rounded_down_of_seven(percent(60), 7, 4, true, 0)]
    #[case::nothing_allowed(at_most(0), 5, 1, false, 0)]
    #[case::below_the_range(range(2, 3), 5, 1, false, 0)]
    #[case::start_of_the_range(range(2, 3), 5, 2, true, 1)]
    #[case::end_of_the_range(range(2, 3), 5, 3, true, 0)]
    #[case::above_the_range(range(2, 3), 5, 4, false, 0)]
    #[case::no_machines(percent(40), 0, 0, true, 0)]
    fn machines_are_remediated_up_to_the_limit(
        #[case] limit: Limit,
        #[case] expected: usize,
        #[case] unhealthy: usize,
        #[case] allowed: bool,
        #[case] remaining: usize,
    ) {
        let answer = allowance(limit, expected, unhealthy, false);
        assert_eq!(
            (answer.allowed, answer.remaining),
            (allowed, remaining),
            "{}",
            answer.message
        );
    }

    /// The proposal: "If the current number is at or above this threshold no further remediation will take place."
    #[rstest]
    #[case::below(percent(40), 1, true)]
    #[case::equal(percent(40), 2, false)]
    #[case::above(percent(40), 3, false)]
    #[case::no_limit(Limit::None, 5, true)]
    #[case::a_range_is_always_inclusive(range(2, 3), 3, true)]
    fn an_exclusive_limit_stops_at_the_limit(#[case] limit: Limit, #[case] unhealthy: usize, #[case] allowed: bool) {
        assert_eq!(allowance(limit, 5, unhealthy, true).allowed, allowed);
    }
}
