//! Aligns two runs and finds the first event in which they differ.
//!
//! Times are not compared. Generated names differ from seed to seed, so that an actor is compared by its kind and by the
//! order of its first appearance.

use std::collections::BTreeMap;

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
}

/// The number of common events in a comparison.
const CONTEXT: usize = 3;

/// Compares two runs.
pub fn compare<'a>(one: &'a RunRecord, other: &'a RunRecord) -> Comparison<'a> {
    let (one, other) = (Story::of(one), Story::of(other));
    let mut agreed = 0;
    while let (Some((_, left)), Some((_, right))) = (one.0.get(agreed), other.0.get(agreed))
        && left == right
    {
        agreed += 1;
    }
    let common = agreed.saturating_sub(CONTEXT)..agreed;
    let next = |story: &Story<'a>| story.0.get(agreed).map(|(point, _)| *point);
    let first = (next(&one), next(&other));
    Comparison {
        common: common.map(|index| (one.0[index].0, other.0[index].0)).collect(),
        agreed,
        first: (first != (None, None)).then_some(first),
    }
}

/// The events of a run that are compared, each with a text that has the same names in both runs.
struct Story<'a>(Vec<(&'a Point, String)>);

impl<'a> Story<'a> {
    fn of(record: &'a RunRecord) -> Self {
        let names = names(&record.actors);
        // How often a state is written on the way is no difference; the end of the run is compared by its events.
        let is_compared = |point: &&Point| !matches!(point.verb, Verb::Verdict | Verb::Note);
        let events = record.points.iter().filter(is_compared);
        Self(events.map(|point| (point, text(point, &names))).collect())
    }
}

/// The names of actors that are generated, and what replaces them.
fn names(actors: &[Actor]) -> BTreeMap<&str, String> {
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

/// The text of an event with the replaced names.
fn text(point: &Point, names: &BTreeMap<&str, String>) -> String {
    let summary = point
        .summary
        .split_inclusive([' ', ':', ',', '/', '[', ']', '(', ')', ';']);
    let mut text = format!("{:?} ", point.verb);
    for part in summary {
        let word = part.trim_end_matches([' ', ':', ',', '/', '[', ']', '(', ')', ';']);
        text += names.get(word).map_or(word, String::as_str);
        text += &part[word.len()..];
    }
    text
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
    fn a_run_that_ends_earlier_differs_at_its_end() {
        let (one, other) = (record("m", &["a", "b"]), record("m", &["a"]));
        let (left, right) = compare(&one, &other).first.unwrap();
        assert_eq!((left.unwrap().number, right), (2, None));
        assert_eq!(compare(&one, &one).first, None);
    }
}
