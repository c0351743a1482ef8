//! Finding a crash point again: when a step or a machine goes, the effects of a process get other numbers, and the
//! crash has to strike the same deed, not the same number.

use scenario::plan::{Disturbance, Plan};
use scenario::step::Process;

/// How many places are tried for one deed.
const MOST_PLACES: usize = 8;

/// The effect of mcm, whose deeds are known, that a disturbance strikes at.
fn effect_of(disturbance: &mut Disturbance) -> Option<&mut u64> {
    let (process, effect) = match disturbance {
        Disturbance::Crash(crash) => (crash.process, &mut crash.effect),
        Disturbance::Pause(pause) => (pause.process, &mut pause.effect),
        Disturbance::Lag(lag) => (lag.process, &mut lag.effect),
        _ => return None,
    };
    (process == Process::Mcm).then_some(effect)
}

/// Whether anything strikes at an effect.
pub(super) fn has_effects(plan: &Plan) -> bool {
    let mut disturbances = plan.disturbances.clone();
    disturbances
        .iter_mut()
        .any(|disturbance| effect_of(disturbance).is_some())
}

/// The plan without what strikes at effects: what its processes do when they are let be.
pub(super) fn without_effects(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.disturbances
        .retain_mut(|disturbance| effect_of(disturbance).is_none());
    plan
}

/// The plan with its effects moved to where the same is done now. `before` are the deeds of the run that failed, `now`
/// those of the smaller plan.
pub(super) fn variants(plan: &Plan, before: &[String], now: &[String]) -> Vec<Plan> {
    let places = |effect: u64| -> Vec<u64> {
        let user_action = usize::try_from(effect)
            .ok()
            .and_then(|effect| before.get(effect.checked_sub(1)?));
        let Some(user_action) = user_action.map(|user_action| nameless(user_action)) else {
            return Vec::new();
        };
        let numbered = (1..).zip(now);
        let same = numbered
            .filter(|(_, what)| nameless(what) == user_action)
            .map(|(number, _)| number);
        same.take(MOST_PLACES).collect()
    };
    let struck = |plan: &Plan| -> Vec<u64> {
        let mut disturbances = plan.disturbances.clone();
        disturbances
            .iter_mut()
            .filter_map(|one| effect_of(one).copied())
            .collect()
    };
    let count = struck(plan)
        .into_iter()
        .map(|effect| places(effect).len())
        .max()
        .unwrap_or_default();
    let variant = |number: usize| {
        let mut plan = plan.clone();
        for effect in plan.disturbances.iter_mut().filter_map(effect_of) {
            let places = places(*effect);
            if let Some(place) = places.get(number).or(places.last()) {
                *effect = *place;
            }
        }
        plan
    };
    (0..count).map(variant).filter(|variant| variant != plan).collect()
}

/// Parts of a path that hold a digit are names or versions: each becomes `#`.
fn nameless(user_action: &str) -> String {
    let parts = user_action.split('/').map(|part| {
        if part.bytes().any(|byte| byte.is_ascii_digit()) {
            "#"
        } else {
            part
        }
    });
    parts.collect::<Vec<_>>().join("/")
}
