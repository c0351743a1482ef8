//! Old spellings of rules, which are read for one release: fields directly in the rule, with the names that `fakecloud`
//! and scenarios used.

use serde::Deserialize;
use serde_json::Value;

/// Each old field with the path that replaces it; `effect` is absent, because its path depends on its value.
pub(super) const FIELDS: [(&str, &str); 25] = [
    ("id", "name"),
    ("operation", "match.call"),
    ("call", "match.call"),
    ("machine", "match.machine"),
    ("class", "match.class"),
    ("zone", "match.zone"),
    ("caller", "match.client"),
    ("skip", "match.skip"),
    ("times", "match.times"),
    ("probability", "match.probability"),
    ("window", "match.window"),
    ("throttle", "match.throttle"),
    ("code", "action.code"),
    ("error", "action.error"),
    ("message", "action.message"),
    ("latency", "action.latency"),
    (EFFECT_BEFORE_ERROR, "action.at"),
    (AFTER_EFFECT, "action.at"),
    ("lostReply", "action.lostReply"),
    ("effectDelay", "action.effectDelay"),
    ("stuck", "action.stuck"),
    ("partial", "action.partial"),
    ("stale", "action.stale"),
    ("lie", "action.lie"),
    ("nameless", "action.nameless"),
];
pub(super) const EFFECT_BEFORE_ERROR: &str = "effectBeforeError";
pub(super) const AFTER_EFFECT: &str = "afterEffect";
/// The old field of scenarios with one of several effects.
pub(super) const EFFECT: &str = "effect";

/// The values of [`EFFECT`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Effect<D> {
    Lie,
    Stuck,
    OnlyNics,
    Stale(D),
    Nameless,
}

/// The path that replaces an old field; `None`: `field` is not an old field.
pub(super) fn path(field: &str) -> Option<&'static str> {
    FIELDS.into_iter().find(|(old, _)| *old == field).map(|(_, new)| new)
}

/// The old fields of a rule, each with the new spelling that a warning shows.
pub(crate) fn renamed(rule: &Value) -> Vec<(&'static str, &'static str)> {
    let mut found: Vec<_> = FIELDS.into_iter().filter(|(old, _)| rule.get(old).is_some()).collect();
    for (old, new) in &mut found {
        if [EFFECT_BEFORE_ERROR, AFTER_EFFECT].contains(old) {
            *new = "action.at: afterCommit";
        }
    }
    if let Some(effect) = rule.get(EFFECT) {
        let new = match effect.as_str() {
            Some("lie") => "action.lie",
            Some("stuck") => "action.stuck",
            Some("onlyNics") => "action.partial: nics",
            Some("nameless") => "action.nameless",
            _ => "action.stale",
        };
        found.push((EFFECT, new));
    }
    found
}

/// The values of the fields with the name of a call, in their old and new places.
pub(crate) fn call_values(rule: &Value) -> impl Iterator<Item = &Value> {
    let places = [rule.get("operation"), rule.get("call"), rule.pointer("/match/call")];
    places.into_iter().flatten()
}
