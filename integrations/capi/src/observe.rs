//! What happens to machines: differences between two looks at them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::plan::Outcome;

/// A machine at one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The reason of its `HealthCheckSucceeded`, if that is False.
    pub failed: Option<String>,
    /// Whether its owner has to remediate it.
    pub of_owner: bool,
    /// Whether a request to another controller exists.
    pub has_request: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// An event of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It fails its check, for this reason.
    Marked(String),
    /// It passes its check again.
    Passed,
    /// Its owner has to remediate it.
    OwnerRequested,
    /// A request to another controller is created.
    RequestCreated,
    /// That request is gone.
    RequestGone,
    /// It is being deleted.
    Deleted,
}

/// Events of all machines, each with the number of its machine and the time since the first moment.
#[derive(Clone, Debug, Default)]
pub struct History {
    numbers: BTreeMap<String, usize>,
    states: BTreeMap<String, State>,
    /// Numbers of machines and their events in order of time.
    pub events: Vec<(usize, Duration, Event)>,
}

impl State {
    /// The state of a machine of either API. `has_request`: whether a request for it exists.
    pub fn of(machine: &Value, has_request: bool) -> Self {
        let conditions = machine.pointer("/status/conditions").and_then(Value::as_array);
        let is_false = |type_: &str| {
            let mut conditions = conditions.into_iter().flatten();
            conditions.find(|one| one["type"] == type_ && one["status"] == "False")
        };
        Self {
            failed: is_false("HealthCheckSucceeded")
                .map(|condition| condition["reason"].as_str().unwrap_or_default().to_owned()),
            of_owner: is_false("OwnerRemediated").is_some(),
            has_request,
            deleting: machine.pointer("/metadata/deletionTimestamp").is_some(),
        }
    }

    fn changes(&self, after: &Self) -> Vec<Event> {
        let mut events = Vec::new();
        match (&self.failed, &after.failed) {
            (before, Some(reason)) if before.as_ref() != Some(reason) => events.push(Event::Marked(reason.clone())),
            (Some(_), None) => events.push(Event::Passed),
            _ => {}
        }
        let mut add = |before: bool, now: bool, event: Event| {
            if !before && now {
                events.push(event);
            }
        };
        add(self.of_owner, after.of_owner, Event::OwnerRequested);
        add(self.has_request, after.has_request, Event::RequestCreated);
        add(after.has_request, self.has_request, Event::RequestGone);
        add(self.deleting, after.deleting, Event::Deleted);
        events
    }
}

impl History {
    /// A history of these machines, whose numbers are their positions from 1.
    pub fn new(machines: &[String]) -> Self {
        let numbered = machines.iter().enumerate();
        Self {
            numbers: numbered.map(|(index, name)| (name.clone(), index + 1)).collect(),
            ..Self::default()
        }
    }

    /// Adds a look at all machines, by name. Machines without a number are ignored: they replace others.
    pub fn add(&mut self, at: Duration, states: BTreeMap<String, State>) {
        for (name, number) in &self.numbers {
            let Some(after) = states.get(name) else {
                // A machine can be gone without a look at its deletion.
                if let Some(before) = self.states.remove(name).filter(|before| !before.deleting) {
                    let gone = State {
                        deleting: true,
                        ..before.clone()
                    };
                    let events = before.changes(&gone);
                    self.events.extend(events.into_iter().map(|event| (*number, at, event)));
                }
                continue;
            };
            let before = self.states.insert(name.clone(), after.clone()).unwrap_or_default();
            let events = before.changes(after);
            self.events.extend(events.into_iter().map(|event| (*number, at, event)));
        }
    }

    /// The outcome so far.
    pub fn outcome(&self) -> Outcome {
        let of = |is: fn(&Event) -> bool| {
            let events = self.events.iter().filter(|(_, _, event)| is(event));
            events.map(|(number, _, _)| *number).collect()
        };
        let at_end = self
            .states
            .iter()
            .filter(|(_, state)| state.failed.is_some() && !state.deleting);
        Outcome {
            marked: of(|event| matches!(event, Event::Marked(_))),
            requested: of(|event| matches!(event, Event::OwnerRequested | Event::RequestCreated)),
            deleted: of(|event| *event == Event::Deleted),
            marked_at_end: at_end.filter_map(|(name, _)| self.numbers.get(name).copied()).collect(),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Marked(reason) => write!(f, "marked ({reason})"),
            Self::Passed => f.write_str("passes"),
            Self::OwnerRequested => f.write_str("owner requested"),
            Self::RequestCreated => f.write_str("request created"),
            Self::RequestGone => f.write_str("request gone"),
            Self::Deleted => f.write_str("deleted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn look(conditions: &Value, has_request: bool) -> BTreeMap<String, State> {
        let machine = json!({ "status": { "conditions": conditions } });
        BTreeMap::from([("m-1".to_owned(), State::of(&machine, has_request))])
    }

    #[test]
    fn events_are_the_differences_between_looks() {
        let mut history = History::new(&["m-1".to_owned(), "m-2".to_owned()]);
        let failed = json!([{ "type": "HealthCheckSucceeded", "status": "False", "reason": "UnhealthyNode" }]);
        let passed = json!([{ "type": "HealthCheckSucceeded", "status": "True", "reason": "HealthCheckSucceeded" }]);
        history.add(Duration::from_secs(1), look(&failed, false));
        history.add(Duration::from_secs(2), look(&failed, true));
        assert_eq!(history.outcome().marked_at_end, [1].into());
        history.add(Duration::from_secs(3), look(&passed, false));
        history.add(Duration::from_secs(4), BTreeMap::new());
        let events: Vec<String> = history.events.iter().map(|(_, _, event)| event.to_string()).collect();
        let expected = [
            "marked (UnhealthyNode)",
            "request created",
            "passes",
            "request gone",
            "deleted",
        ];
        assert_eq!(events, expected);
        let outcome = history.outcome();
        assert_eq!((outcome.marked, outcome.requested), ([1].into(), [1].into()));
        assert_eq!((outcome.deleted, outcome.marked_at_end), ([1].into(), [].into()));
    }
}
