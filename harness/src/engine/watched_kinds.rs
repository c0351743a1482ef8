//! The kinds that the engine watches in a run: those of every run, those of the scenario's definitions, those that the
//! controller under test creates, and those that conditions name.

use std::collections::BTreeMap;

use futures::channel::oneshot;
use futures::stream::BoxStream;
use judge::Failure;
use scenario::expect::Condition;
use scenario::kinds::{self, Kind, Kinds};
use scenario::step::{Apply, Request};
use scenario::{HealthChecks, Scenario, Step};
use stage::Stage;

use super::Engine;
use super::observe::{Raw, watch_when_served};

/// What starts the watches of kinds that steps define, by key.
pub(super) type Starts = BTreeMap<&'static str, oneshot::Sender<()>>;

/// The watched kinds.
#[derive(Debug)]
pub(crate) struct WatchedKinds {
    /// Those that are served from the start.
    pub(super) at_start: Vec<&'static Kind>,
    /// Those that steps define.
    later: Vec<&'static Kind>,
}

impl WatchedKinds {
    /// The kinds that a run of the scenario watches.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let all = scenario.kinds();
        let mut of_world = Kinds::default();
        scenario
            .world
            .objects()
            .for_each(|object| of_world.add_definition(object));
        let mut watched = Self {
            at_start: kinds::watched().collect(),
            later: Vec::new(),
        };
        for kind in all.custom() {
            match of_world.custom().any(|known| known.key == kind.key) {
                true => watched.at_start.push(kind),
                false => watched.later.push(kind),
            }
        }
        if scenario.world.health_checks != HealthChecks::Off {
            watched.add(None, "MachineHealthCheck", &all);
        }
        for created in &scenario.world.creates {
            watched.add(created.api_version.as_deref(), &created.kind, &all);
        }
        for step in &scenario.steps {
            if let Step::Expect(expectation) = step {
                watched.add_condition(&expectation.that, &all);
            }
        }
        watched
    }

    /// Whether a kind is watched.
    pub(crate) fn contains(&self, kind: &Kind) -> bool {
        self.at_start
            .iter()
            .chain(&self.later)
            .any(|known| known.key == kind.key)
    }

    /// Adds the kind that a condition is about, and those of its parts.
    fn add_condition(&mut self, condition: &Condition, all: &Kinds) {
        let (api_version, kind) = match condition {
            Condition::Exists(of) | Condition::Observed(of) => (&of.api_version, &of.kind),
            Condition::Field(of) => (&of.api_version, &of.kind),
            Condition::Unchanged(of) => (&of.api_version, &of.kind),
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().for_each(|part| self.add_condition(part, all));
                return;
            }
            Condition::Not(part) => {
                self.add_condition(part, all);
                return;
            }
            _ => return,
        };
        self.add(api_version.as_deref(), kind, all);
    }

    /// Adds the kind of that name.
    fn add(&mut self, api_version: Option<&str>, kind: &str, all: &Kinds) {
        let Ok(kind) = all.find(api_version, kind) else {
            return;
        };
        if !self.contains(kind) {
            self.at_start.push(kind);
        }
    }

    /// The watches of kinds that steps define, which wait, and what starts each of them.
    pub(super) fn wait_for_definitions<S: Stage>(&self, stage: &S) -> (Starts, Vec<BoxStream<'static, Raw>>) {
        let mut served = BTreeMap::new();
        let mut watches = Vec::new();
        for kind in &self.later {
            let (start, starts) = oneshot::channel();
            served.insert(kind.key, start);
            watches.push(watch_when_served(&stage.clusters(), kind, stage.clock(), starts));
        }
        (served, watches)
    }
}

impl<S: Stage> Engine<'_, S> {
    /// Starts the watch of the kind that a step has just defined, and waits for its first list.
    pub(super) async fn watch_new_kinds(&mut self, action: &Step) -> Result<(), Failure> {
        let mut defined = Kinds::default();
        match action.request() {
            Request::Apply(Apply::Object(object)) => defined.add_definition(object),
            Request::As(step) if !step.refused => return Box::pin(self.watch_new_kinds(&step.step)).await,
            _ => {}
        }
        let mut started = Vec::new();
        for kind in defined.custom() {
            if let Some(start) = self.served.remove(kind.key) {
                // The watch, which receives it, lives as long as the engine.
                let _ = start.send(());
                started.push(kind.key);
            }
        }
        match started.is_empty() {
            true => Ok(()),
            false => self.listed(started).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use scenario::builder::{apply, exists, not};
    use scenario::{Expectation, Manifest, Temporal};
    use serde_json::{Value, json};

    use super::*;

    fn definition(kind: &str) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{kind}s.example.com") },
            "spec": {
                "group": "example.com",
                "names": { "kind": kind, "plural": format!("{kind}s") },
                "versions": [{ "name": "v1", "served": true, "storage": true }],
            },
        })
    }

    #[test]
    fn kinds_of_definitions_and_conditions_are_watched() {
        let mut scenario = Scenario::new("story", "A story.").step(apply(definition("Later")));
        scenario.world.crds.push(Manifest::Object(definition("Early")));
        scenario = scenario.step(Step::Expect(Expectation {
            that: Condition::All(vec![exists("Machine", "m-1"), not(exists("ConfigMap", "c"))]),
            holds: Temporal::Throughout,
            meanwhile: true,
            may_miss: false,
        }));
        let watched = WatchedKinds::of(&scenario);
        let further: Vec<&str> = watched
            .at_start
            .iter()
            .skip(kinds::watched().count())
            .map(|kind| kind.key)
            .collect();
        assert_eq!(further, ["Early.example.com", "ConfigMap"]);
        let later: Vec<&str> = watched.later.iter().map(|kind| kind.key).collect();
        assert_eq!(later, ["Later.example.com"]);
    }
}
