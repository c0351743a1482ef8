//! Records invariants and expectations.

use std::collections::BTreeMap;

use jiff::Timestamp;
use judge::invariants::Evaluations;
use scenario::Expectation;

use super::{Recorder, SCENARIO};
use crate::draft::Interest;
use crate::model::{Check, CheckKind, CheckState, Link, Unmet, Verb};

/// All checks so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    pub(super) invariants: Vec<Check>,
    /// By the number of the step.
    pub(super) expectations: BTreeMap<usize, Check>,
    /// The violated check, and the id of the point that shows it, if an observation does.
    pub(super) violated: Option<(CheckKind, String, Option<u64>)>,
    /// The parts of the violated expectation that did not hold.
    pub(super) unmet: Vec<Unmet>,
}

impl Recorder {
    /// Records that an expectation is evaluated from now on.
    pub fn expect(&mut self, at: Timestamp, step: usize, expectation: &Expectation) {
        let check = Check {
            kind: CheckKind::Expectation,
            name: format!("step {step}"),
            statement: expectation.to_string(),
            step: Some(step),
            evaluated: 0,
            first: Some(self.micros(at)),
            last: None,
            state: CheckState::Undecided,
            observed: String::new(),
            readings: Vec::new(),
            unmet: Vec::new(),
            violated: None,
        };
        self.checks.expectations.insert(step, check);
    }

    /// Records how the values changed that an expectation read.
    pub fn readings(&mut self, step: usize, readings: Vec<String>) {
        if let Some(check) = self.checks.expectations.get_mut(&step) {
            check.readings = readings;
        }
    }

    /// Records how often an expectation was evaluated whose result is not known yet, and what is observed now.
    pub fn undecided(&mut self, at: Timestamp, step: usize, evaluated: u64, observed: &str) {
        let time = self.micros(at);
        let check = self.checks.expectations.get_mut(&step);
        if let Some(check) = check.filter(|check| check.state == CheckState::Undecided) {
            check.evaluated = evaluated;
            check.last = Some(time);
            observed.clone_into(&mut check.observed);
        }
    }

    /// Called when checks are evaluated because time has passed: the latest observation is not the cause of their results.
    pub fn forget_observation(&mut self) {
        self.latest = None;
    }

    /// Records that an expectation is missed: how often it was evaluated, what was observed, and the parts that do not hold.
    pub fn missed(&mut self, at: Timestamp, step: usize, evaluated: u64, observed: &str, unmet: Vec<Unmet>) {
        let id = self.result(at, step, evaluated, CheckState::Violated, observed);
        let about: Vec<&str> = unmet.iter().map(|part| part.wanted.as_str()).collect();
        self.name_events(id, &about.join(" "));
        // Of several that are missed at the same time, the first one ends the run.
        if self.checks.violated.is_none() {
            self.checks.violated = Some((CheckKind::Expectation, format!("step {step}"), Some(id)));
            self.checks.unmet.clone_from(&unmet);
        }
        if let Some(check) = self.checks.expectations.get_mut(&step) {
            check.unmet = unmet;
        }
    }

    /// Records that an expectation is met: how often it was evaluated, and what was observed.
    pub fn met(&mut self, at: Timestamp, step: usize, evaluated: u64, observed: &str) {
        self.result(at, step, evaluated, CheckState::Held, observed);
    }

    /// Records the result of an expectation. Returns the id of its event.
    fn result(&mut self, at: Timestamp, step: usize, evaluated: u64, state: CheckState, observed: &str) -> u64 {
        self.undecided(at, step, evaluated, observed);
        let time = self.micros(at);
        if let Some(check) = self.checks.expectations.get_mut(&step) {
            check.state = state;
        }
        let result = if state == CheckState::Held { "met" } else { "missed" };
        let text = format!("step {step}: {result} ({observed})");
        let id = self.push(time, SCENARIO, Verb::Expectation, text, Interest::State);
        let cause = self.latest;
        if let Some(draft) = self.points.last_mut() {
            draft.cause = cause.map(|id| (Link::Caused, id));
        }
        id
    }

    /// Records how often each invariant was evaluated so far.
    pub fn invariants(&mut self, evaluations: &[Evaluations]) {
        self.checks.invariants.clear();
        for evaluated in evaluations {
            let check = Check {
                kind: CheckKind::Invariant,
                name: evaluated.invariant.name.to_owned(),
                statement: evaluated.invariant.statement.to_owned(),
                step: None,
                evaluated: evaluated.count,
                first: evaluated.first.map(|at| self.micros(at)),
                last: evaluated.last.map(|at| self.micros(at)),
                state: CheckState::Held,
                observed: String::new(),
                readings: Vec::new(),
                unmet: Vec::new(),
                violated: None,
            };
            self.checks.invariants.push(check);
        }
    }

    /// How often each invariant was evaluated, of those that were.
    pub fn evaluated(&self) -> impl Iterator<Item = (&str, u64)> {
        let evaluated = self.checks.invariants.iter().filter(|check| check.evaluated > 0);
        evaluated.map(|check| (check.name.as_str(), check.evaluated))
    }

    /// Records that an invariant is violated. `observed`: the latest observation shows it; otherwise a deadline passed.
    pub fn violated(&mut self, invariant: &str, observed: bool) {
        // The end of a period shows nothing by itself.
        let is_note = |id: &u64| {
            let draft = self.points.iter().rev().find(|draft| draft.id == *id);
            draft.is_some_and(|draft| draft.point.verb == Verb::Note)
        };
        let point = self.latest.filter(|id| observed && !is_note(id));
        self.checks.violated = Some((CheckKind::Invariant, invariant.to_owned(), point));
    }
}
