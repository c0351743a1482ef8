//! Aligns two runs and finds the first event in which they differ.
//!
//! Times and durations are not compared. Generated names differ from seed to seed, so that an actor is compared by its
//! kind and by the order of its first appearance.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::model::{Actor, ActorKind, Point, RunRecord, Verb};

/// The comparison of two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison<'a> {
    /// The last events that the runs have in common, of each run, the oldest first.
    pub common: Vec<(&'a Point, &'a Point)>,
    /// The number of events that the runs have in common before the first difference.
    pub agreed: usize,
    /// The events with the first difference; `None` in one of them: that run has no more events. `None`: no difference.
    pub first: Option<(Option<&'a Point>, Option<&'a Point>)>,
    /// Whether both runs passed, or both failed.
    pub same_verdict: bool,
}

/// The number of common events in a comparison.
const CONTEXT: usize = 3;

/// Compares two runs.
pub fn compare<'a>(one: &'a RunRecord, other: &'a RunRecord) -> Comparison<'a> {
    let same_verdict = one.meta.verdict.passed == other.meta.verdict.passed;
    let (one, other) = (ComparedEvents::of(one), ComparedEvents::of(other));
    let mut agreed = 0;
    while let (Some((_, left)), Some((_, right))) = (one.0.get(agreed), other.0.get(agreed))
        && left == right
    {
        agreed += 1;
    }
    let common = agreed.saturating_sub(CONTEXT)..agreed;
    let next = |events: &ComparedEvents<'a>| events.0.get(agreed).map(|(point, _)| *point);
    let first = (next(&one), next(&other));
    Comparison {
        common: common.map(|index| (one.0[index].0, other.0[index].0)).collect(),
        agreed,
        first: (first != (None, None)).then_some(first),
        same_verdict,
    }
}

/// The events of a run that are compared, each with a text that has the same names in both runs.
pub(crate) struct ComparedEvents<'a>(pub(crate) Vec<(&'a Point, String)>);

impl<'a> ComparedEvents<'a> {
    pub(crate) fn of(record: &'a RunRecord) -> Self {
        let names = names(&record.actors);
        // The verdict is compared on its own, and notes are texts for people.
        let is_compared = |point: &&Point| !matches!(point.verb, Verb::Verdict | Verb::Note);
        let events = record.points.iter().filter(is_compared);
        Self(events.map(|point| (point, text(point, &names))).collect())
    }
}

/// The names of actors that are generated, and what replaces them.
pub(crate) fn names(actors: &[Actor]) -> BTreeMap<&str, String> {
    let mut counts: BTreeMap<ActorKind, usize> = BTreeMap::new();
    let mut names = BTreeMap::new();
    let is_generated = |actor: &&Actor| {
        let kinds = [
            ActorKind::Machine,
            ActorKind::Set,
            ActorKind::Vm,
            ActorKind::Node,
            ActorKind::Pod,
        ];
        kinds.contains(&actor.kind)
    };
    for actor in actors.iter().filter(is_generated) {
        let count = counts.entry(actor.kind).or_default();
        *count += 1;
        // A node has the name of its machine.
        names
            .entry(actor.name.as_str())
            .or_insert_with(|| format!("{:?}#{count}", actor.kind));
    }
    names
}

/// The text of an event with the replaced names: what happened, its error and its fault, and what changed.
fn text(point: &Point, names: &BTreeMap<&str, String>) -> String {
    let mut text = format!("{:?} {:?} {:?} ", point.verb, point.code, point.fault);
    replace(&point.summary, names, &mut text);
    if let Some(change) = &point.diff {
        replace_in(change, names, &mut text);
    }
    text
}

/// Adds the texts of a change.
fn replace_in(change: &Value, names: &BTreeMap<&str, String>, text: &mut String) {
    match change {
        Value::String(own) => replace(own, names, text),
        Value::Array(items) => items.iter().for_each(|item| replace_in(item, names, text)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            replace(name, names, text);
            replace_in(value, names, text);
        }),
        other => text.push_str(&other.to_string()),
    }
    text.push(' ');
}

/// Adds a text, word by word, without what differs between equal runs.
fn replace(own: &str, names: &BTreeMap<&str, String>, text: &mut String) {
    const ENDS: [char; 9] = [' ', ',', '/', '[', ']', '(', ')', ';', '\n'];
    for part in own.split_inclusive(ENDS) {
        let word = part.trim_end_matches(ENDS).trim_end_matches([':', '.']);
        match names.get(word) {
            Some(name) => text.push_str(name),
            None if is_time(word) => text.push_str("TIME"),
            None if is_uid(word) => text.push_str("UID"),
            None => text.push_str(word),
        }
        text.push_str(part.get(word.len()..).unwrap_or_default());
    }
}

/// Whether a word is a time or a duration, such as `1m30s`.
fn is_time(word: &str) -> bool {
    let word = word.trim_start_matches('+');
    let is_duration = word.starts_with(|letter: char| letter.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h'])
        && word
            .chars()
            .all(|letter| letter.is_ascii_digit() || ".smhµun".contains(letter));
    is_duration || word.parse::<Timestamp>().is_ok()
}

/// Whether a word ends with a generated identity, as uids and the holders of Leases do.
fn is_uid(word: &str) -> bool {
    const LENGTH: usize = 36;
    let start = word.len().saturating_sub(LENGTH);
    word.get(start..).is_some_and(|end| {
        end.len() == LENGTH
            && end.matches('-').count() == 4
            && end.chars().all(|letter| letter == '-' || letter.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn record(machine: &str, events: &[&str]) -> RunRecord {
        let points: Vec<_> = events
            .iter()
            .zip(1_u64..)
            .map(|(summary, number)| {
                serde_json::json!({ "number": number, "at": number, "actor": "machine/x", "verb": "write", "summary": summary })
            })
            .collect();
        let text = serde_json::json!({
            "version": 1,
            "meta": {
                "drydock": "0", "scenario": "story", "stage": "sim", "seed": 1, "plan": "",
                "started": "2030-01-01T00:00:00Z", "lasted": 0, "wallSeconds": 0.0,
                "verdict": { "passed": true, "sentence": "" }, "replay": "", "causes": "unknown",
            },
            "actors": [{ "id": "machine/x", "kind": "machine", "name": machine }],
            "spans": [], "points": points, "counters": [], "checks": [],
        });
        read(text.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_first_different_event_is_found_in_spite_of_generated_names() {
        let one = record(
            "pool-abcde",
            &["machine pool-abcde exists", "machine pool-abcde: Running", "deleted"],
        );
        let other = record(
            "pool-vwxyz",
            &["machine pool-vwxyz exists", "machine pool-vwxyz: Failed"],
        );
        let comparison = compare(&one, &other);
        assert_eq!((comparison.agreed, comparison.common.len()), (1, 1));
        let (left, right) = comparison.first.unwrap();
        assert_eq!(
            (left.unwrap().number, right.unwrap().summary.as_str()),
            (2, "machine pool-vwxyz: Failed")
        );
    }

    #[test]
    fn times_and_identities_are_no_difference_but_changes_errors_and_verdicts_are() {
        let one = record(
            "m",
            &[
                "joined in 1m59s",
                "mcm_0b54ad2c-3bc1-4cc1-9d5f-3a3f0e6fb0a7 holds the Lease",
            ],
        );
        let mut other = record(
            "m",
            &[
                "joined in 1m44s",
                "mcm_7f54ad2c-3bc1-4cc1-9d5f-3a3f0e6fb0a7 holds the Lease",
            ],
        );
        assert_eq!(compare(&one, &other).first, None);
        let change = |effect: &str| serde_json::json!({ "spec": { "taints": [{ "key": "a", "effect": effect }] } });
        let (mut left, mut right) = (one.clone(), other.clone());
        left.points[1].diff = Some(change("NoSchedule"));
        right.points[1].diff = Some(change("NoExecute"));
        assert_eq!(compare(&left, &right).agreed, 1);
        right = left.clone();
        right.points[1].code = Some(serde_json::from_value(serde_json::json!("Unavailable")).unwrap());
        assert_eq!(compare(&left, &right).agreed, 1);
        other.meta.verdict.passed = false;
        assert!(!compare(&one, &other).same_verdict && compare(&one, &one).same_verdict);
    }

    #[test]
    fn a_run_that_ends_earlier_differs_at_its_end() {
        let (one, other) = (record("m", &["a", "b"]), record("m", &["a"]));
        let (left, right) = compare(&one, &other).first.unwrap();
        assert_eq!((left.unwrap().number, right), (2, None));
        assert_eq!(compare(&one, &one).first, None);
    }
}
