//! Safety: when an unavailable API server freezes the controller.

use jiff::SignedDuration;
use mcm_core::safety::api_health::{ApiHealth, Settings};
use rstest::rstest;

use crate::fixtures::start;

/// For how long an API server has been unavailable, relative to the timeout.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Timer {
    Inactive,
    Started,
    Elapsed,
}

/// Acceptance list "API freeze" of the specification, all of its 24 combinations. A frozen controller has no timer, so
/// three states of the list are one state here.
#[rstest]
fn the_controller_freezes_while_an_api_server_is_unavailable_for_too_long(
    #[values(true, false)] control_available: bool,
    #[values(true, false)] target_available: bool,
    #[values(Timer::Inactive, Timer::Started, Timer::Elapsed)] timer: Timer,
    #[values(false, true)] frozen: bool,
) {
    let settings = Settings::default();
    let since = |seconds| start().checked_sub(SignedDuration::from_secs(seconds)).unwrap();
    let before = match timer {
        _ if frozen => ApiHealth::Frozen,
        Timer::Inactive => ApiHealth::Up,
        Timer::Started => ApiHealth::Down { since: since(29) },
        Timer::Elapsed => ApiHealth::Down { since: since(30) },
    };
    let up = control_available && target_available;
    let next = before.after(up, start(), start(), &settings);
    assert_eq!(
        next.thaw,
        up && frozen,
        "machines are reconciled again before the freeze ends"
    );
    let after = if next.thaw { ApiHealth::Up } else { next.health };
    let expected = !up && (frozen || timer == Timer::Elapsed);
    assert_eq!(after.is_frozen(), expected, "{before:?} -> {next:?}");
    assert_eq!(after == ApiHealth::Up, up);
}
