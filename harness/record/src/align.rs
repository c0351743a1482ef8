//! Aligns the events and the lanes of two runs, for people who look for what a difference led to.

use std::collections::BTreeMap;

use crate::compare::{ComparedEvents, names};
use crate::model::{Actor, ActorKind, Micros, Point, RunRecord, Span, SpanClass};

/// The events of each run after the first difference that are aligned one by one.
const WINDOW: usize = 400;

/// An event of one run beside the same one of another run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlignedRow<'a> {
    /// The event of the first run.
    pub one: Option<&'a Point>,
    /// The event of the other run.
    pub other: Option<&'a Point>,
    /// Whether they are equal. Two events beside each other after the first difference may be different ones.
    pub is_equal: bool,
}

/// The lanes of an actor that both runs have, or of one that only one of them has.
#[derive(Clone, Debug, PartialEq)]
pub struct AlignedLane<'a> {
    /// The actor in each run.
    pub actors: [Option<&'a Actor>; 2],
    /// Its states in each run.
    pub spans: [Vec<&'a Span>; 2],
}

/// Two runs beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Alignment<'a> {
    /// All compared events. Of each run 400 after the first difference are aligned one by one; the rest is side by side.
    pub rows: Vec<AlignedRow<'a>>,
    /// The number of events that the runs have in common before the first difference.
    pub agreed: usize,
    /// The number of rows that are aligned one by one.
    pub aligned: usize,
    /// The lanes of all actors with states.
    pub lanes: Vec<AlignedLane<'a>>,
}

/// Aligns two runs. Times are not compared, and generated names only by the order of their first appearance.
pub fn align<'a>(one: &'a RunRecord, other: &'a RunRecord) -> Alignment<'a> {
    let (left, right) = (ComparedEvents::of(one), ComparedEvents::of(other));
    let agreed = left
        .0
        .iter()
        .zip(&right.0)
        .take_while(|((_, left), (_, right))| left == right)
        .count();
    let mut rows: Vec<AlignedRow<'a>> = left.0[..agreed]
        .iter()
        .zip(&right.0)
        .map(|((left, _), (right, _))| row(Some(left), Some(right), true))
        .collect();
    let window = |events: &ComparedEvents<'a>| agreed..events.0.len().min(agreed + WINDOW);
    let (of_left, of_right) = (window(&left), window(&right));
    let (rest_left, rest_right) = (of_left.end, of_right.end);
    rows.extend(aligned(&left.0[of_left], &right.0[of_right]));
    let aligned = rows.len();
    let rest = (left.0.len() - rest_left).max(right.0.len() - rest_right);
    let at = |events: &ComparedEvents<'a>, index: usize| events.0.get(index).map(|(point, _)| *point);
    rows.extend((0..rest).map(|index| row(at(&left, rest_left + index), at(&right, rest_right + index), false)));
    Alignment {
        rows,
        agreed,
        aligned,
        lanes: lanes(one, other),
    }
}

fn row<'a>(one: Option<&'a Point>, other: Option<&'a Point>, is_equal: bool) -> AlignedRow<'a> {
    AlignedRow { one, other, is_equal }
}

/// The longest common subsequence of two short lists of events.
fn aligned<'a>(left: &[(&'a Point, String)], right: &[(&'a Point, String)]) -> Vec<AlignedRow<'a>> {
    // The length of the longest common subsequence of the events from a position on.
    let mut common = vec![vec![0_u16; right.len() + 1]; left.len() + 1];
    for (one, (_, text)) in left.iter().enumerate().rev() {
        for (other, (_, other_text)) in right.iter().enumerate().rev() {
            common[one][other] = match text == other_text {
                true => common[one + 1][other + 1] + 1,
                false => common[one + 1][other].max(common[one][other + 1]),
            };
        }
    }
    let (mut rows, mut gap) = (Vec::new(), Gap::default());
    let (mut one, mut other) = (0, 0);
    while one < left.len() || other < right.len() {
        match (left.get(one), right.get(other)) {
            (Some((point, text)), Some((other_point, other_text))) if text == other_text => {
                gap.close(&mut rows);
                rows.push(row(Some(point), Some(other_point), true));
                (one, other) = (one + 1, other + 1);
            }
            (Some((point, _)), next) if next.is_none() || common[one + 1][other] >= common[one][other + 1] => {
                gap.one.push(point);
                one += 1;
            }
            (_, Some((point, _))) => {
                gap.other.push(point);
                other += 1;
            }
            (_, None) => break,
        }
    }
    gap.close(&mut rows);
    rows
}

/// Events between two common ones.
#[derive(Default)]
struct Gap<'a> {
    one: Vec<&'a Point>,
    other: Vec<&'a Point>,
}

impl<'a> Gap<'a> {
    /// Adds them side by side.
    fn close(&mut self, rows: &mut Vec<AlignedRow<'a>>) {
        let (one, other) = (std::mem::take(&mut self.one), std::mem::take(&mut self.other));
        let length = one.len().max(other.len());
        rows.extend((0..length).map(|index| row(one.get(index).copied(), other.get(index).copied(), false)));
    }
}

/// The lanes of both runs, in the order of the first one.
fn lanes<'a>(one: &'a RunRecord, other: &'a RunRecord) -> Vec<AlignedLane<'a>> {
    let mut lanes: Vec<AlignedLane<'a>> = Vec::new();
    let mut by_key: BTreeMap<(ActorKind, String), usize> = BTreeMap::new();
    for (side, record) in [one, other].into_iter().enumerate() {
        let generated = names(&record.actors);
        let mut spans: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
        // A lane shows the phase of a machine, of which its drain is a part.
        for span in record.spans.iter().filter(|span| span.class != SpanClass::Drain) {
            spans.entry(&span.actor).or_default().push(span);
        }
        for actor in &record.actors {
            let Some(spans) = spans.remove(actor.id.as_str()) else {
                continue;
            };
            let name = generated.get(actor.name.as_str()).unwrap_or(&actor.name).clone();
            let index = *by_key.entry((actor.kind, name)).or_insert_with(|| {
                lanes.push(AlignedLane {
                    actors: [None, None],
                    spans: [Vec::new(), Vec::new()],
                });
                lanes.len() - 1
            });
            lanes[index].actors[side] = Some(actor);
            lanes[index].spans[side] = spans;
        }
    }
    lanes
}

impl<'a> Alignment<'a> {
    /// The places of the events of a run on the common axis. `side`: 0 for the first run, 1 for the other one.
    pub fn places(&self, side: usize) -> Places<'a> {
        let points = self.rows.iter().enumerate().filter_map(|(index, row)| {
            let point = if side == 0 { row.one } else { row.other };
            Some((index, point?))
        });
        let mut places = Places {
            times: Vec::new(),
            events: BTreeMap::new(),
            last: BTreeMap::new(),
            end: self.rows.len(),
        };
        for (index, point) in points {
            places.times.push((point.at, index));
            places.events.insert(point.number, (point.at, index));
            places.last.insert((point.actor.as_str(), point.at), index);
        }
        places
    }
}

/// The places of one run on the common axis.
#[derive(Clone, Debug)]
pub struct Places<'a> {
    /// The times of the events, and their rows.
    times: Vec<(Micros, usize)>,
    /// The times and rows of the events, by their numbers.
    events: BTreeMap<u32, (Micros, usize)>,
    /// The row of the last event of an actor at a time.
    last: BTreeMap<(&'a str, Micros), usize>,
    end: usize,
}

impl Places<'_> {
    /// The begin and the end of a state, in rows: those of the events that began and ended it, if these are known. Many events
    /// can have the same time. `next`: the next state of the same actor and class.
    pub fn of_span(&self, span: &Span, next: Option<&Span>) -> (f64, f64) {
        let row_of = |cause: Option<u32>, at: Micros| {
            let (time, row) = *self.events.get(&cause?)?;
            (time == at).then_some(row)
        };
        let place = |row: Option<usize>, at: Micros| row.map_or_else(|| self.of(at), |row| real(row as u64));
        let from = place(row_of(span.cause, span.from), span.from);
        let to = match span.to {
            None => real(self.end as u64),
            Some(to) => {
                let ended = row_of(next.and_then(|next| next.cause), to);
                let ended = ended.or_else(|| self.last.get(&(span.actor.as_str(), to)).copied());
                place(ended, to)
            }
        };
        (from, from.max(to))
    }

    /// The place of a time, in rows: between the rows of the events around it.
    fn of(&self, at: Micros) -> f64 {
        let after = self.times.partition_point(|(time, _)| *time < at);
        let (from, begin) = match after.checked_sub(1).and_then(|before| self.times.get(before)) {
            Some((time, row)) => (*time, *row),
            None => (Micros(0), 0),
        };
        let (to, end) = self.times.get(after).copied().unwrap_or((at, self.end));
        let (begin, end) = (real(begin as u64), real(end as u64));
        let length = real(to.0.saturating_sub(from.0));
        match length > 0.0 {
            true => begin + (end - begin) * real(at.0.saturating_sub(from.0)) / length,
            false => begin,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "places of a picture")]
fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::read;

    fn record(machine: &str, events: &[&str]) -> RunRecord {
        let points: Vec<Value> = events
            .iter()
            .zip(1_u64..)
            .map(|(summary, number)| json!({ "number": number, "at": 10 * number, "actor": "machine/x", "verb": "write", "summary": summary }))
            .collect();
        let text = json!({
            "version": 1,
            "meta": {
                "drydock": "0", "scenario": "story", "stage": "sim", "seed": 1, "plan": "",
                "started": "2030-01-01T00:00:00Z", "lasted": 0, "wallSeconds": 0.0,
                "verdict": { "passed": true, "sentence": "" }, "replay": "", "causes": "unknown",
            },
            "actors": [{ "id": "machine/x", "kind": "machine", "name": machine }, { "id": "zone/z", "kind": "zone", "name": "z" }],
            "spans": [{ "actor": "machine/x", "from": 10, "label": "Pending", "class": "phase" }],
            "points": points, "counters": [], "checks": [],
        });
        read(text.to_string().as_bytes()).unwrap()
    }

    fn shown(alignment: &Alignment) -> Vec<String> {
        let text = |point: Option<&Point>| point.map_or("-", |point| point.summary.as_str()).to_owned();
        let rows = alignment.rows.iter();
        rows.map(|row| format!("{}|{}|{}", text(row.one), text(row.other), row.is_equal))
            .collect()
    }

    #[test]
    fn events_after_the_first_difference_are_aligned_again() {
        let one = record("m-a", &["begin", "m-a Pending", "crash", "m-a Running", "end"]);
        let other = record("m-b", &["begin", "m-b Pending", "m-b Running", "slow", "end"]);
        let alignment = align(&one, &other);
        assert_eq!(
            shown(&alignment),
            [
                "begin|begin|true",
                "m-a Pending|m-b Pending|true",
                "crash|-|false",
                "m-a Running|m-b Running|true",
                "-|slow|false",
                "end|end|true",
            ]
        );
        assert_eq!((alignment.agreed, alignment.aligned), (2, 6));
    }

    #[test]
    fn runs_without_a_common_event_are_aligned_up_to_a_limit() {
        let texts = |word: &str| (0..1000).map(|number| format!("{word} {number}")).collect::<Vec<_>>();
        let (left, right) = (texts("left"), texts("right"));
        let list = |texts: &[String]| record("m", &texts.iter().map(String::as_str).collect::<Vec<_>>());
        let (one, other) = (list(&left), list(&right));
        let alignment = align(&one, &other);
        assert_eq!(
            (alignment.agreed, alignment.aligned, alignment.rows.len()),
            (0, 400, 1000)
        );
    }

    #[test]
    fn lanes_of_the_same_actor_are_side_by_side_in_spite_of_its_name() {
        let (one, other) = (record("m-a", &["begin"]), record("m-b", &["begin"]));
        let alignment = align(&one, &other);
        let [lane] = alignment.lanes.as_slice() else {
            panic!("{:?}", alignment.lanes)
        };
        let names = lane.actors.map(|actor| actor.map(|actor| actor.name.as_str()));
        assert_eq!(names, [Some("m-a"), Some("m-b")]);
        assert!(lane.spans.iter().all(|spans| spans.len() == 1));
    }

    /// In a simulated run many events have one time.
    #[test]
    fn a_state_begins_and_ends_at_its_events_also_if_others_have_the_same_time() {
        let mut run = record("m", &["begin", "Pending", "crash", "Running", "end"]);
        for point in &mut run.points {
            point.at = Micros(0);
        }
        let state = |cause: u32, to: Option<u64>| Span {
            cause: Some(cause),
            from: Micros(0),
            to: to.map(Micros),
            ..run.spans[0].clone()
        };
        let (pending, running) = (state(2, Some(0)), state(4, None));
        let alignment = align(&run, &run);
        let places = alignment.places(0);
        assert_eq!(places.of_span(&pending, Some(&running)), (1.0, 3.0));
        assert_eq!(places.of_span(&running, None), (3.0, 5.0));
        let unknown = Span { cause: None, ..pending };
        assert_eq!(
            places.of_span(&unknown, None),
            (0.0, 4.0),
            "its actor's last event ends it"
        );
    }

    #[test]
    fn the_times_of_common_events_have_the_same_place_in_both_runs() {
        let one = record("m", &["a", "b", "c"]);
        let mut other = record("m", &["a", "b", "c"]);
        for point in &mut other.points {
            point.at.0 *= 7;
        }
        let alignment = align(&one, &other);
        let (left, right) = (alignment.places(0), alignment.places(1));
        for (index, (point, other)) in one.points.iter().zip(&other.points).enumerate() {
            assert!((left.of(point.at) - right.of(other.at)).abs() < 1e-9);
            assert!((left.of(point.at) - index as f64).abs() < 1e-9);
        }
        assert!((left.of(Micros(25)) - 1.5).abs() < 1e-9, "between two events");
    }
}
