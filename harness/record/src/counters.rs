//! Numbers over time, counted from the states and events of a record.

use std::collections::BTreeMap;

use crate::model::{Actor, ActorKind, Counter, CounterStep, Micros, Point, Span, SpanClass, Verb};

/// A machine code of success.
const OK: &str = "OK";

/// The call that asks whether a VM exists, and the code that says that it does not: before a creation this is no failure.
const ABSENT: (&str, &str) = ("GetMachineStatus", "NotFound");

/// A change of a number: the time, the event with the change, and the difference.
type Change = (Micros, Option<u32>, i64);

/// All counters of a record; `watches`: the number of mcm's open watches, empty if it is not known.
pub(crate) fn of(actors: &[Actor], spans: &[Span], points: &[Point], watches: Vec<CounterStep>) -> Vec<Counter> {
    let kinds: BTreeMap<&str, ActorKind> = actors.iter().map(|actor| (actor.id.as_str(), actor.kind)).collect();
    let ends = ends(spans, points);
    let mut changes: BTreeMap<(&str, String), Vec<Change>> = BTreeMap::new();
    for (span, end) in spans.iter().zip(ends) {
        let counted = match (span.class, kinds.get(span.actor.as_str())) {
            (SpanClass::Phase, Some(ActorKind::Machine)) => ("machines by phase", span.label.clone()),
            (SpanClass::Drain, _) => ("VMs and nodes", "draining nodes".to_owned()),
            (SpanClass::Vm, _) => ("VMs and nodes", "VMs, also stopped ones".to_owned()),
            (SpanClass::Node, _) if span.label == "Ready" => ("VMs and nodes", "Ready nodes".to_owned()),
            _ => continue,
        };
        let list = changes.entry(counted).or_default();
        list.push((span.from, span.cause, 1));
        list.extend(span.to.map(|to| (to, end, -1)));
    }
    let last = points.iter().map(|point| point.at).max().unwrap_or_default();
    for point in points.iter().filter(|point| point.verb == Verb::Call) {
        let code = point.code.as_deref().unwrap_or_default();
        let is_answer = code == OK || (point.call.as_deref().unwrap_or_default(), code) == ABSENT;
        let outcome = if is_answer { "answered" } else { "failed" };
        let list = changes.entry(("cloud calls so far", outcome.to_owned())).or_default();
        list.push((point.at, Some(point.number), 1));
        if let Some(delay) = point.delay {
            let list = changes
                .entry(("cloud calls in flight", "calls".to_owned()))
                .or_default();
            list.push((point.at, Some(point.number), 1));
            let answered = Micros(point.at.0.saturating_add(delay.0));
            list.extend((answered <= last).then_some((answered, None, -1)));
        }
    }
    let counter = |((chart, name), changes): ((&str, String), Vec<Change>)| Counter {
        name,
        chart: chart.to_owned(),
        steps: steps(changes),
    };
    let open = Counter {
        name: "mcm".to_owned(),
        chart: "open watches".to_owned(),
        steps: watches,
    };
    let known = (!open.steps.is_empty()).then_some(open);
    changes.into_iter().map(counter).chain(known).collect()
}

/// The event that ended each state: the one that began the next state of the actor, or its last event of that time.
fn ends(spans: &[Span], points: &[Point]) -> Vec<Option<u32>> {
    let mut last: BTreeMap<(&str, Micros), u32> = BTreeMap::new();
    for point in points {
        last.insert((point.actor.as_str(), point.at), point.number);
    }
    let mut next: BTreeMap<(&str, SpanClass), &Span> = BTreeMap::new();
    let mut ends = Vec::with_capacity(spans.len());
    for span in spans.iter().rev() {
        let following = next.insert((span.actor.as_str(), span.class), span);
        let begun = following.filter(|following| Some(following.from) == span.to);
        let begun = begun.and_then(|following| following.cause);
        ends.push(begun.or_else(|| last.get(&(span.actor.as_str(), span.to?)).copied()));
    }
    ends.reverse();
    ends
}

/// The values after each change; the changes of one event are one step.
fn steps(mut changes: Vec<Change>) -> Vec<CounterStep> {
    // A change of an unknown event stands behind the known ones of its time.
    changes.sort_unstable_by_key(|(at, point, change)| (*at, point.is_none(), *point, *change));
    let mut value = 0_i64;
    let mut steps: Vec<CounterStep> = Vec::new();
    for (at, point, change) in changes {
        value += change;
        let now = CounterStep {
            at,
            value: u64::try_from(value).unwrap_or(0),
            point,
        };
        match steps.last_mut() {
            Some(last) if (last.at, last.point) == (at, point) => *last = now,
            _ => steps.push(now),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::fixture;

    #[test]
    fn a_call_is_in_flight_until_its_answer_or_the_end_of_the_run() {
        let mut record = fixture::record();
        for (point, (at, delay)) in record.points.iter_mut().zip([(0, 5), (0, 2), (9, 1)]) {
            (point.verb, point.at, point.delay) = (Verb::Call, Micros(at), Some(Micros(delay)));
        }
        let counters = of(&record.actors, &record.spans, &record.points, Vec::new());
        let in_flight = counters.iter().find(|counter| counter.chart == "cloud calls in flight");
        let steps = in_flight.unwrap().steps.iter();
        let steps: Vec<(u64, u64)> = steps.map(|step| (step.at.0, step.value)).collect();
        assert_eq!(steps, [(0, 1), (0, 2), (2, 1), (5, 0), (9, 1)]);
    }

    #[test]
    fn changes_of_one_event_are_one_step() {
        let at = Micros(5);
        let changes = vec![
            (at, Some(2), -1),
            (Micros(0), Some(1), 1),
            (at, Some(3), 1),
            (at, None, -1),
            (at, Some(3), 1),
        ];
        let steps = steps(changes);
        let values: Vec<(Option<u32>, u64)> = steps.iter().map(|step| (step.point, step.value)).collect();
        assert_eq!(values, [(Some(1), 1), (Some(2), 0), (Some(3), 2), (None, 1)]);
    }
}
