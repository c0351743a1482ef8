//! Random fault rules of the API server, all of kinds that Kubernetes clients must tolerate.

use std::time::Duration;

use apiserver::faults::{Action, At, Cut, Match, Pattern, Rule, Verb, Window};
use scenario::plan::Disturbance;
use stage::deploy::{FAKECLOUD_ACCOUNT, MCM_ACCOUNT};

use super::Drawing;

/// Maximum duration of a partition in seconds: less than the node grace period.
const LONGEST_PARTITION: u64 = 30;

/// A rule that affects requests of mcm or of the kubelets for some time.
pub(super) fn draw(draw: &mut Drawing) -> Vec<Disturbance> {
    let account = if draw.stream.chance(0.8) {
        MCM_ACCOUNT
    } else {
        FAKECLOUD_ACCOUNT
    };
    let action = action(draw);
    let from = draw.stream.below(draw.span);
    let left = match action {
        Action::Partition { .. } => (draw.span - from).min(LONGEST_PARTITION),
        _ => draw.span - from,
    };
    let until = from + 1 + draw.stream.below(left);
    let times = 1 + draw.stream.below(4);
    let skip = draw.stream.below(6);
    let probability = draw.stream.chance(0.3).then_some(0.5);
    let cut = matches!(action, Action::Partition { .. });
    let matches = Match {
        client: Some(Pattern::new(format!("*:{account}"))),
        verbs: verbs(&action, draw.stream.chance(0.5)),
        skip: if cut {
            0
        } else {
            u32::try_from(skip).unwrap_or_default()
        },
        times: u32::try_from(times).ok().filter(|_| !cut),
        probability: probability.filter(|_| !cut),
        window: Some(Window {
            from: Duration::from_secs(from),
            until: Some(Duration::from_secs(until)),
        }),
        ..Match::default()
    };
    vec![Disturbance::Api(Box::new(Rule {
        name: format!("api-{}", draw.number),
        matches,
        action,
    }))]
}

fn action(draw: &mut Drawing) -> Action {
    let at = if draw.stream.chance(0.5) {
        At::BeforeCommit
    } else {
        At::AfterCommit
    };
    let time = Duration::from_secs(1 + draw.stream.below(10));
    let fail = |code, at| Action::Fail {
        code,
        at,
        retry_after: None,
        message: None,
    };
    match draw.stream.below(16) {
        0 | 1 => Action::Delay { at, by: time },
        2..=4 => Action::Drop { at },
        5 => fail(409, At::BeforeCommit),
        6 => fail(429, At::BeforeCommit),
        7 => fail(500, at),
        8 => fail(503, at),
        9 => fail(504, at),
        10 => Action::TruncateWatch {
            after_events: u32::try_from(draw.stream.below(4)).unwrap_or_default(),
            midway: draw.stream.chance(0.5),
        },
        11 => Action::LagWatch { by: time },
        12 => Action::Partition {
            how: if draw.stream.chance(0.5) {
                Cut::Refuse
            } else {
                Cut::Hang
            },
        },
        13 => Action::Compact {
            behind_only: draw.stream.chance(0.5),
        },
        14 => Action::FreezeWatch {},
        // Without downtime, because user actions are not retried.
        _ => Action::Restart {
            at,
            keep_history: draw.stream.chance(0.5),
            down: Duration::ZERO,
        },
    }
}

/// The verbs that the action can affect, or only those of them that write.
fn verbs(action: &Action, writes: bool) -> Vec<Verb> {
    let supported: &[Verb] = action.verbs();
    let writing: Vec<Verb> = Verb::WRITES
        .into_iter()
        .filter(|verb| supported.contains(verb))
        .collect();
    match action {
        Action::Partition { .. } | Action::Compact { .. } => Vec::new(),
        _ if writes && !writing.is_empty() => writing,
        Action::Delay { .. } | Action::Drop { .. } | Action::Fail { .. } | Action::Restart { .. } => supported.to_vec(),
        _ => Vec::new(),
    }
}
