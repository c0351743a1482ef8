//! The narrative of a run: its record as text, one line for each event.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use judge::evaluate::short;

use crate::model::{Link, Micros, Point, RunRecord, Verb};

/// A line of a narrative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Time since the start of the scenario.
    pub at: Micros,
    /// What happened.
    pub text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:<11} {}", short(Duration::from_micros(self.at.0)), self.text)
    }
}

/// The events of a record in words. The result of an expectation is followed by the values that it read. Left out are requests
/// that fail again in the same way, faults that repeat the text of their step, and all hits of a rule but the first.
pub fn narrative(record: &RunRecord) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut hit = BTreeSet::new();
    for point in &record.points {
        let repeats = point.verb == Verb::Request && lines.last().is_some_and(|line| line.text == point.summary);
        let is_hit = point.verb == Verb::Fault && point.fault.is_some();
        if repeats || is_of_step(record, point) || is_hit && !hit.insert(point.actor.as_str()) {
            continue;
        }
        let line = |text: String| Line { at: point.at, text };
        lines.push(line(point.summary.clone()));
        if point.verb == Verb::Expectation {
            lines.extend(readings(record, point).map(line));
        }
    }
    lines
}

/// Whether the event is the begin or end of a fault by a step, which is an event itself.
fn is_of_step(record: &RunRecord, point: &Point) -> bool {
    let cause = point.cause.filter(|_| point.link == Some(Link::Caused));
    let cause = cause.and_then(|number| record.points.get(usize::try_from(number).ok()?.checked_sub(1)?));
    point.verb == Verb::Fault && cause.is_some_and(|cause| cause.verb == Verb::Step)
}

/// The values that the expectation read whose result is known at this event.
fn readings<'a>(record: &'a RunRecord, point: &'a Point) -> impl Iterator<Item = String> + 'a {
    let step = point.summary.split_once(": ").map_or("", |(step, _)| step);
    let checks = record.checks.iter().filter(move |check| check.name == step);
    checks.flat_map(move |check| check.readings.iter().map(move |reading| format!("{step}: {reading}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::fixture;
    use crate::model::{Check, CheckKind, CheckState};

    #[test]
    fn a_narrative_has_the_events_and_the_values_that_expectations_read() {
        let mut record = fixture::record();
        let number = u32::try_from(record.points.len()).unwrap() + 1;
        let point = |number: u32, verb: Verb, summary: &str| Point {
            number,
            at: Micros(2_500_000),
            verb,
            summary: summary.to_owned(),
            cause: None,
            link: None,
            ..record.points[0].clone()
        };
        let mut added = vec![
            point(number, Verb::Step, "step 7: partition the kubelet of m-1"),
            point(number + 1, Verb::Fault, "partition the kubelet of m-1"),
            point(number + 2, Verb::Request, "request of mcm: patch machines m-1: 409"),
            point(number + 3, Verb::Request, "request of mcm: patch machines m-1: 409"),
            point(number + 4, Verb::Expectation, "step 8: met (machine m-1 exists)"),
            point(number + 5, Verb::Fault, "mcm get nodes: fail 500 by rule slow"),
            point(number + 6, Verb::Fault, "mcm get pods: fail 500 by rule slow"),
        ];
        added[5..]
            .iter_mut()
            .for_each(|hit| hit.fault = Some("slow".to_owned()));
        (added[1].cause, added[1].link) = (Some(number), Some(Link::Caused));
        record.points.extend(added);
        record.checks.push(Check {
            kind: CheckKind::Expectation,
            name: "step 8".to_owned(),
            statement: String::new(),
            step: Some(8),
            evaluated: 1,
            first: None,
            last: None,
            state: CheckState::Held,
            observed: String::new(),
            readings: vec!["machine m-1: none → exists".to_owned()],
            unmet: Vec::new(),
            violated: None,
        });
        let lines: Vec<String> = narrative(&record).iter().map(Line::to_string).collect();
        let expected = [
            "step 7: partition the kubelet of m-1",
            "request of mcm: patch machines m-1: 409",
            "step 8: met (machine m-1 exists)",
            "step 8: machine m-1: none → exists",
            "mcm get nodes: fail 500 by rule slow",
        ];
        let expected = expected.map(|text| format!("+{:<11} {text}", "2.500s"));
        assert_eq!(lines[lines.len() - expected.len()..], expected);
    }
}
