//! Surge and unavailability: how many machines a rollout may have above and below `replicas`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mcm_api::deployment::{MachineDeploymentSpec, Strategy};

/// The default strategy.
pub const ROLLING_UPDATE: &str = "RollingUpdate";
pub(super) const RECREATE: &str = "Recreate";
pub(super) const IN_PLACE_UPDATE: &str = "InPlaceUpdate";
/// A user selects the nodes of an in-place update.
pub(super) const MANUAL: &str = "Manual";
pub(super) const AUTO: &str = "Auto";

/// The default of `maxSurge` and `maxUnavailable`, as in the CRDs.
const DEFAULT: IntOrString = IntOrString::Int(1);

/// A number, or a percentage of `total`, rounded up or down; `None`: the value is neither.
pub fn resolve(value: &IntOrString, total: i32, up: bool) -> Option<i64> {
    match value {
        IntOrString::Int(number) => Some(i64::from(*number)),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            let scaled = percent.checked_mul(i64::from(total))?;
            Some(if up {
                scaled.div_euclid(100) + i64::from(scaled.rem_euclid(100) > 0)
            } else {
                scaled.div_euclid(100)
            })
        }
    }
}

/// Whether a rollout updates machines in place instead of replacing them.
pub fn is_updated_in_place(spec: &MachineDeploymentSpec) -> bool {
    spec.strategy.type_ == IN_PLACE_UPDATE
}

/// The bounds of a deployment's rollout, in machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Machines beyond `replicas`.
    pub surge: i64,
    /// Machines below `replicas`.
    pub unavailable: i64,
}

impl Bounds {
    /// Whether one machine may be unavailable only because neither surge nor unavailable machines are allowed.
    pub fn are_raised(spec: &MachineDeploymentSpec) -> bool {
        Self::specified(spec) == Self::default() && Self::of(spec).unavailable > 0
    }

    /// The bounds as they are written, in machines.
    fn specified(spec: &MachineDeploymentSpec) -> Self {
        let (surge, unavailable) = given(&spec.strategy);
        Self {
            surge: resolve(&surge, spec.replicas, true).unwrap_or_default().max(0),
            unavailable: resolve(&unavailable, spec.replicas, false).unwrap_or_default().max(0),
        }
    }

    /// The bounds in the deployment's spec. If both round to zero, one machine may be unavailable, so that the rollout
    /// can progress.
    pub fn of(spec: &MachineDeploymentSpec) -> Self {
        let specified = Self::specified(spec);
        let Self { surge, unavailable } = specified;
        Self {
            surge,
            unavailable: if spec.strategy.type_ == RECREATE || spec.replicas <= 0 {
                0
            } else if specified == Self::default() {
                1
            } else {
                unavailable.min(i64::from(spec.replicas))
            },
        }
    }
}

/// `maxSurge` and `maxUnavailable` of the deployment's strategy.
fn given(strategy: &Strategy) -> (IntOrString, IntOrString) {
    let none = || IntOrString::Int(0);
    match strategy.type_.as_str() {
        RECREATE => (none(), none()),
        IN_PLACE_UPDATE => {
            let given = strategy.in_place_update.clone().unwrap_or_default();
            let surge = if given.orchestration_type == MANUAL {
                Some(none())
            } else {
                given.max_surge
            };
            (surge.unwrap_or(DEFAULT), given.max_unavailable.unwrap_or(DEFAULT))
        }
        _ => {
            let given = strategy.rolling_update.clone().unwrap_or_default();
            (
                given.max_surge.unwrap_or(DEFAULT),
                given.max_unavailable.unwrap_or(DEFAULT),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use mcm_api::deployment::{InPlaceUpdate, RollingUpdate};
    use rstest::rstest;

    use super::*;

    fn text(text: &str) -> IntOrString {
        IntOrString::String(text.to_owned())
    }

    #[rstest]
    #[case::number(IntOrString::Int(3), true, Some(3))]
    #[case::rounded_up(text("25%"), true, Some(3))]
    #[case::rounded_down(text("25%"), false, Some(2))]
    #[case::all(text("100%"), false, Some(10))]
    #[case::no_percent_sign(text("3"), true, None)]
    #[case::nonsense(text("many"), true, None)]
    fn numbers_and_percentages_resolve(#[case] value: IntOrString, #[case] up: bool, #[case] expected: Option<i64>) {
        assert_eq!(resolve(&value, 10, up), expected);
    }

    fn rolling(surge: IntOrString, unavailable: IntOrString) -> Strategy {
        Strategy {
            type_: ROLLING_UPDATE.to_owned(),
            rolling_update: Some(RollingUpdate {
                max_surge: Some(surge),
                max_unavailable: Some(unavailable),
            }),
            ..Strategy::default()
        }
    }

    fn in_place(how: &str, unavailable: i32) -> Strategy {
        Strategy {
            type_: IN_PLACE_UPDATE.to_owned(),
            in_place_update: Some(InPlaceUpdate {
                max_surge: Some(IntOrString::Int(0)),
                max_unavailable: Some(IntOrString::Int(unavailable)),
                orchestration_type: how.to_owned(),
            }),
            ..Strategy::default()
        }
    }

    fn recreate() -> Strategy {
        Strategy {
            type_: RECREATE.to_owned(),
            ..Strategy::default()
        }
    }

    #[rstest]
    #[case::recreate(recreate(), 5, 0)]
    #[case::no_replicas(rolling(IntOrString::Int(0), IntOrString::Int(1)), 0, 0)]
    #[case::one_of_five(rolling(IntOrString::Int(0), IntOrString::Int(1)), 5, 1)]
    #[case::ten_of_five(rolling(IntOrString::Int(0), IntOrString::Int(10)), 5, 5)]
    #[case::both_round_to_zero(rolling(text("0%"), text("10%")), 5, 1)]
    #[case::both_are_zero(rolling(IntOrString::Int(0), IntOrString::Int(0)), 5, 1)]
    #[case::both_are_zero_in_place(in_place(AUTO, 0), 5, 1)]
    #[case::manual_two_of_five(in_place(MANUAL, 2), 5, 2)]
    #[case::auto_ten_of_three(in_place(AUTO, 10), 3, 3)]
    #[case::manual_no_replicas(in_place(MANUAL, 2), 0, 0)]
    fn max_unavailable(#[case] strategy: Strategy, #[case] replicas: i32, #[case] expected: i64) {
        let spec = MachineDeploymentSpec {
            replicas,
            strategy,
            ..MachineDeploymentSpec::default()
        };
        assert_eq!(Bounds::of(&spec).unavailable, expected);
    }

    #[rstest]
    #[case::both_are_zero(rolling(IntOrString::Int(0), text("0%")), 5, true)]
    #[case::both_round_to_zero(rolling(text("0%"), text("10%")), 5, true)]
    #[case::surge(rolling(IntOrString::Int(1), IntOrString::Int(0)), 5, false)]
    #[case::unavailable(rolling(IntOrString::Int(0), IntOrString::Int(1)), 5, false)]
    #[case::no_replicas(rolling(IntOrString::Int(0), IntOrString::Int(0)), 0, false)]
    #[case::recreate(recreate(), 5, false)]
    fn bounds_are_raised(#[case] strategy: Strategy, #[case] replicas: i32, #[case] expected: bool) {
        let spec = MachineDeploymentSpec {
            replicas,
            strategy,
            ..MachineDeploymentSpec::default()
        };
        assert_eq!(Bounds::are_raised(&spec), expected);
    }
}
