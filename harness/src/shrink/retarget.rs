//! Moves crash points to the corresponding effects: when a step or a machine is removed, the effects of a process get
//! other numbers, and a crash has to occur at the same effect instead of the same number.

use scenario::plan::{Disturbance, Plan};
use scenario::step::Process;

/// Maximum number of positions that are tried for one effect.
const MOST_PLACES: usize = 8;

/// The number of the effect of mcm at which a disturbance occurs.
fn effect_of(disturbance: &mut Disturbance) -> Option<&mut u64> {
    let (process, effect) = match disturbance {
        Disturbance::Crash(crash) => (crash.process, &mut crash.effect),
        Disturbance::Pause(pause) => (pause.process, &mut pause.effect),
        Disturbance::Lag(lag) => (lag.process, &mut lag.effect),
        _ => return None,
    };
    (process == Process::Mcm).then_some(effect)
}

/// Whether a disturbance occurs at an effect.
pub(super) fn has_effects(plan: &Plan) -> bool {
    let mut disturbances = plan.disturbances.clone();
    disturbances
        .iter_mut()
        .any(|disturbance| effect_of(disturbance).is_some())
}

/// The plan without disturbances at effects.
pub(super) fn without_effects(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.disturbances
        .retain_mut(|disturbance| effect_of(disturbance).is_none());
    plan
}

/// Variants of the plan whose disturbances are moved to the corresponding effects. `before` are the effects of the
/// failed run, `now` those of the smaller plan.
pub(super) fn variants(plan: &Plan, before: &[String], now: &[String]) -> Vec<Plan> {
    let places = |effect: u64| -> Vec<u64> {
        let description = usize::try_from(effect)
            .ok()
            .and_then(|effect| before.get(effect.checked_sub(1)?));
        let Some(description) = description.map(|description| nameless(description)) else {
            return Vec::new();
        };
        let numbered = (1..).zip(now);
        let same = numbered
            .filter(|(_, what)| nameless(what) == description)
            .map(|(number, _)| number);
        same.take(MOST_PLACES).collect()
    };
    let effects = |plan: &Plan| -> Vec<u64> {
        let mut disturbances = plan.disturbances.clone();
        disturbances
            .iter_mut()
            .filter_map(|one| effect_of(one).copied())
            .collect()
    };
    let count = effects(plan)
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

/// Replaces parts of a path with a digit, which are names or versions, by `#`.
fn nameless(description: &str) -> String {
    let parts = description.split('/').map(|part| {
        if part.bytes().any(|byte| byte.is_ascii_digit()) {
            "#"
        } else {
            part
        }
    });
    parts.collect::<Vec<_>>().join("/")
}
