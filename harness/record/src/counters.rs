//! Numbers over time, counted from the states and events of a record.

use std::collections::BTreeMap;

use crate::model::{Actor, ActorKind, Counter, CounterStep, Micros, Point, Span, SpanClass, Verb};

/// A machine code of success.
const OK: &str = "OK";

/// All counters of a record.
pub(crate) fn of(actors: &[Actor], spans: &[Span], points: &[Point]) -> Vec<Counter> {
    let kinds: BTreeMap<&str, ActorKind> = actors.iter().map(|actor| (actor.id.as_str(), actor.kind)).collect();
    let mut changes: BTreeMap<(&str, String), Vec<(Micros, i64)>> = BTreeMap::new();
    for span in spans {
        let counted = match (span.class, kinds.get(span.actor.as_str())) {
            (SpanClass::Phase, Some(ActorKind::Machine)) => ("machines by phase", span.label.clone()),
            (SpanClass::Vm, _) => ("VMs and nodes", "live VMs".to_owned()),
            (SpanClass::Node, _) if span.label == "Ready" => ("VMs and nodes", "Ready nodes".to_owned()),
            _ => continue,
        };
        let list = changes.entry(counted).or_default();
        list.push((span.from, 1));
        list.extend(span.to.map(|to| (to, -1)));
    }
    for point in points.iter().filter(|point| point.verb == Verb::Call) {
        let outcome = if point.code.as_deref() == Some(OK) {
            "answered"
        } else {
            "failed"
        };
        let list = changes.entry(("cloud calls so far", outcome.to_owned())).or_default();
        list.push((point.at, 1));
    }
    let counter = |((chart, name), changes): ((&str, String), Vec<(Micros, i64)>)| Counter {
        name,
        chart: chart.to_owned(),
        steps: steps(changes),
    };
    changes.into_iter().map(counter).collect()
}

/// The values after each change; several changes at one time are one step.
fn steps(mut changes: Vec<(Micros, i64)>) -> Vec<CounterStep> {
    changes.sort_unstable_by_key(|(at, _)| *at);
    let mut value = 0_i64;
    let mut steps: Vec<CounterStep> = Vec::new();
    for (at, change) in changes {
        value += change;
        let now = CounterStep {
            at,
            value: u64::try_from(value).unwrap_or(0),
        };
        match steps.last_mut() {
            Some(last) if last.at == at => *last = now,
            _ => steps.push(now),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_at_one_time_are_one_step() {
        let changes = vec![(Micros(5), -1), (Micros(0), 1), (Micros(5), 1), (Micros(5), 1)];
        let values: Vec<(u64, u64)> = steps(changes).iter().map(|step| (step.at.0, step.value)).collect();
        assert_eq!(values, [(0, 1), (5, 2)]);
    }
}
