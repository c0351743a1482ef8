//! Properties of the conditions: skip, times, probability, window.

use std::time::Duration;

use clock::Seed;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::faults::{Action, At, Match, Verb, Window};

fn live(matches: Match) -> Live {
    let rule = Rule {
        matches,
        ..Rule::new("rule", Action::Drop { at: At::BeforeCommit })
    };
    Live::new(1, rule, Seed::new(3).stream("rule"))
}

/// Whether the rule hits each of the requests at these seconds.
fn outcomes(live: &mut Live, seconds: &[u64]) -> Vec<bool> {
    let at = |second: &u64| live_at(live, Duration::from_secs(*second));
    seconds.iter().map(at).collect()
}

fn live_at(live: &mut Live, elapsed: Duration) -> bool {
    live.is_open(elapsed) && live.count_match()
}

fn window() -> impl Strategy<Value = Option<Window>> {
    proptest::option::of(
        (0..20u64, proptest::option::of(1..20u64)).prop_map(|(from, length)| Window {
            from: Duration::from_secs(from),
            until: length.map(|length| Duration::from_secs(from + length)),
        }),
    )
}

proptest! {
    #[test]
    fn a_rule_hits_requests_in_its_window_after_skip_up_to_times(
        skip in 0..5u32,
        times in proptest::option::of(1..5u32),
        window in window(),
        mut seconds in proptest::collection::vec(0..40u64, 0..40),
    ) {
        seconds.sort_unstable();
        let mut live = live(Match { skip, times, window, ..Match::default() });
        let results = outcomes(&mut live, &seconds);
        let inside: Vec<usize> = (0..seconds.len())
            .filter(|&index| window.is_none_or(|Window { from, until }| {
                let at = Duration::from_secs(seconds[index]);
                at >= from && until.is_none_or(|until| at < until)
            }))
            .collect();
        let most = times.map_or(usize::MAX, |times| times as usize);
        let expected: Vec<usize> = inside.iter().copied().skip(skip as usize).take(most).collect();
        let found: Vec<usize> = (0..results.len()).filter(|&index| results[index]).collect();
        prop_assert_eq!(&found, &expected);
        let status = live.status();
        prop_assert_eq!((status.matched, status.hits), (inside.len() as u64, expected.len() as u64));
    }

    #[test]
    fn hits_with_a_probability_respect_skip_and_times_and_repeat_with_the_seed(
        probability in 0.0..=1.0f64,
        skip in 0..5u32,
        times in proptest::option::of(1..5u32),
    ) {
        let matches = Match { skip, times, probability: Some(probability), ..Match::default() };
        let seconds: Vec<u64> = (0..50).collect();
        let results = outcomes(&mut live(matches.clone()), &seconds);
        prop_assert_eq!(&results, &outcomes(&mut live(matches), &seconds));
        let hits = results.iter().filter(|hit| **hit).count();
        prop_assert!(times.is_none_or(|times| hits <= times as usize));
        prop_assert!(results[..skip as usize].iter().all(|hit| !hit));
        if probability == 0.0 {
            prop_assert_eq!(hits, 0);
        }
    }

    #[test]
    fn the_next_change_of_a_window_is_where_it_opens_or_closes(window in window(), at in 0..60u64) {
        let live = live(Match { window, ..Match::default() });
        let at = Duration::from_secs(at);
        let step = Duration::from_millis(500);
        match live.next_change(at) {
            Some(edge) => {
                prop_assert!(edge > at);
                prop_assert_ne!(live.is_open(edge - step), live.is_open(edge));
                prop_assert_eq!(live.is_open(edge - step), live.is_open(at));
            }
            None => prop_assert_eq!(live.is_open(at), live.is_open(at + Duration::from_secs(1000))),
        }
    }
}

#[test]
fn the_hit_rate_is_close_to_the_probability() {
    let mut live = live(Match {
        probability: Some(0.3),
        ..Match::default()
    });
    let hits = (0..10_000).filter(|_| live.count_match()).count();
    assert!((2800..3200).contains(&hits), "{hits}");
}

#[rstest]
#[case("machines", "", true)]
#[case("machines.machine.sapcloud.io", "", true)]
#[case("machines", "status", false)]
#[case("machines/status", "status", true)]
#[case("machines.machine.sapcloud.io/*", "status", true)]
#[case("machines/*", "", false)]
#[case("machines*", "status", true)]
#[case("machine", "", false)]
fn a_resource_is_named_with_or_without_its_group(
    #[case] pattern: &str,
    #[case] subresource: &str,
    #[case] expected: bool,
) {
    let facts = Facts {
        verb: Some(Verb::Patch),
        group: "machine.sapcloud.io".to_owned(),
        resource: "machines".to_owned(),
        subresource: subresource.to_owned(),
        ..Facts::default()
    };
    let live = live(Match {
        resource: Some(pattern.into()),
        ..Match::default()
    });
    assert_eq!(live.matches(&facts), expected);
}

#[test]
fn conditions_on_absent_properties_do_not_hold() {
    let facts = Facts {
        client: "mcm".to_owned(),
        verb: Some(Verb::List),
        resource: "machines".to_owned(),
        ..Facts::default()
    };
    let about = |matches: Match| live(matches).matches(&facts);
    assert!(about(Match::default()));
    assert!(!about(Match {
        namespace: Some("*".into()),
        ..Match::default()
    }));
    assert!(!about(Match {
        object: Some("*".into()),
        ..Match::default()
    }));
    assert!(!about(Match {
        verbs: vec![Verb::Get, Verb::Watch],
        ..Match::default()
    }));
    assert!(about(Match {
        verbs: vec![Verb::Get, Verb::List],
        ..Match::default()
    }));
}
