//! What a session did, as a plan: the objects of its users, and the faults at their times.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use judge::object::text;
use judge::world::WorldState;
use scenario::plan::Plan;
use scenario::{Scenario, Step, fixtures};
use serde_json::{Value, json};

use crate::entity;
use crate::settings::Settings;

/// The name of the scenario of a session.
pub(crate) const NAME: &str = "session";
/// The most steps of a session; later ones are not part of its plan.
const MOST_STEPS: usize = 10_000;
/// The kinds of objects that users create, owners first.
const KINDS: [&str; 4] = ["MachineClass", "MachineDeployment", "MachineSet", "Machine"];
/// Fields of `metadata` that a plan keeps.
const KEPT: [&str; 3] = ["name", "labels", "annotations"];
/// Annotations that programs write.
const FOREIGN: [&str; 3] = [
    "kubectl.kubernetes.io/",
    "deployment.kubernetes.io/",
    "node.machine.sapcloud.io/",
];

/// Why a session is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Nothing happened.
    #[error("there is nothing to replay yet: create a machine, or inject a fault")]
    Empty,
    /// The steps do not form a valid plan.
    #[error("the session is no valid plan: {field}: {problem}")]
    Invalid {
        /// The field.
        field: String,
        /// The problem.
        problem: String,
    },
    /// It cannot be written as YAML.
    #[error("the session cannot be written as YAML: {0}")]
    Yaml(String),
}

/// What was done so far.
#[derive(Debug, Default)]
pub(crate) struct Session {
    steps: Vec<(Duration, Step)>,
    /// The objects of users that do not exist any more, with the times of their creation and of their deletion.
    gone: Vec<(Duration, Duration, &'static str, Value)>,
    /// The number of steps that are not part of it.
    lost: usize,
}

impl Session {
    /// Adds steps that were performed.
    pub(crate) fn add(&mut self, at: Duration, steps: impl IntoIterator<Item = Step>) {
        for step in steps {
            match self.steps.len() < MOST_STEPS {
                true => self.steps.push((at, step)),
                false => self.lost += 1,
            }
        }
    }

    /// An object of this kind is gone. Objects that a controller owns are not part of a session.
    pub(crate) fn remove(&mut self, kind: &str, object: &Value, started: Timestamp, now: Timestamp) {
        let kind = KINDS.into_iter().find(|known| *known == kind);
        let Some(kind) = kind.filter(|_| entity::owner(object).is_none()) else {
            return;
        };
        if self.gone.len() >= MOST_STEPS {
            self.lost += 1;
            return;
        }
        let created = since(started, object, "/metadata/creationTimestamp").unwrap_or_default();
        let now = Duration::try_from(now.duration_since(started)).unwrap_or_default();
        let deleted = since(started, object, "/metadata/deletionTimestamp").unwrap_or(now);
        self.gone.push((created, deleted.max(created), kind, object.clone()));
    }

    /// The number of steps.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The session as a plan. Objects are those that no controller owns, as they are now, or as they were last. `ends`: what
    /// ends the faults that last now, with its times.
    pub(crate) fn plan(
        &self,
        world: &WorldState,
        ends: Vec<(Duration, Step)>,
        started: Timestamp,
        settings: &Settings,
    ) -> Result<Plan, PlanError> {
        let mut steps = self.objects(world, started);
        if steps.is_empty() && self.steps.is_empty() {
            return Err(PlanError::Empty);
        }
        steps.extend(self.steps.iter().cloned());
        steps.extend(ends);
        // A stable sort: objects come before faults of the same time.
        steps.sort_by_key(|(at, _)| *at);
        let mut scenario = Scenario::new(NAME, "A session of the dashboard of drydock up.");
        scenario.world.cloud = settings.cloud.clone();
        let mut now = Duration::ZERO;
        for (at, step) in steps {
            let millis = at.saturating_sub(now).as_millis();
            if millis > 0 {
                scenario.steps.push(parsed(json!({ "wait": format!("{millis}ms") }))?);
                now = at;
            }
            scenario.steps.push(step);
        }
        // What the faults lead to takes as long as in production.
        scenario
            .steps
            .push(parsed(json!({ "wait": "healthTimeout + bootDelay + slack" }))?);
        let mut plan = Plan::new(scenario, settings.seed);
        plan.may_miss = true;
        plan.validate()
            .map_err(|(field, problem)| PlanError::Invalid { field, problem })?;
        Ok(plan)
    }

    /// The objects of users, with the times of their creation and deletion.
    fn objects(&self, world: &WorldState, started: Timestamp) -> Vec<(Duration, Step)> {
        let used = self.used_classes(world);
        let is_used = |kind: &str, object: &Value| kind != "MachineClass" || used.contains(name(object));
        let mut steps = Vec::new();
        for kind in KINDS {
            let gone = self.gone.iter().filter(|(_, _, of, _)| *of == kind);
            for (created, deleted, _, object) in gone.filter(|(.., object)| is_used(kind, object)) {
                steps.extend(apply(kind, object, *created));
                // Another world has its own machines of a class until its end.
                if kind != "MachineClass" {
                    let step = parsed(json!({ "delete": { "kind": kind, "name": name(object) } }));
                    steps.extend(step.ok().map(|step| (*deleted, step)));
                }
            }
            let existing = world.of_kind(kind).filter(|object| entity::owner(object).is_none());
            for object in existing.filter(|object| is_used(kind, object)) {
                let created = since(started, object, "/metadata/creationTimestamp").unwrap_or_default();
                steps.extend(apply(kind, object, created));
            }
        }
        steps
    }

    /// The names of the classes of all machines and templates.
    fn used_classes<'a>(&'a self, world: &'a WorldState) -> BTreeSet<&'a str> {
        const PATHS: [&str; 2] = ["/spec/class/name", "/spec/template/spec/class/name"];
        let existing = KINDS.into_iter().flat_map(|kind| world.of_kind(kind));
        let gone = self.gone.iter().map(|(.., object)| object);
        let names = existing
            .chain(gone)
            .flat_map(|object| PATHS.map(|path| text(object, path)));
        names.filter(|name| !name.is_empty()).collect()
    }

    /// The plan as YAML.
    pub(crate) fn yaml(
        &self,
        world: &WorldState,
        ends: Vec<(Duration, Step)>,
        started: Timestamp,
        settings: &Settings,
    ) -> Result<String, PlanError> {
        let plan = self.plan(world, ends, started, settings)?;
        let yaml = plan.to_yaml().map_err(|error| PlanError::Yaml(error.to_string()))?;
        let mut text = "# A session of the dashboard of `drydock up`. Times are those of the session; in `sim` all timeouts are those of\n\
             # production. Objects are as they were when the plan was saved, or when they were deleted.\n\
             # Replay: drydock run --plan FILE --stage sim\n"
            .to_owned();
        if self.lost > 0 {
            text += &format!(
                "# The last {} steps are not part of it: a session has at most {MOST_STEPS}.\n",
                self.lost
            );
        }
        Ok(text + &yaml)
    }
}

fn parsed(form: Value) -> Result<Step, PlanError> {
    serde_json::from_value(form).map_err(|error| PlanError::Invalid {
        field: "steps".to_owned(),
        problem: error.to_string(),
    })
}

/// The creation of an object; classes are needed from the start.
fn apply(kind: &str, object: &Value, created: Duration) -> Option<(Duration, Step)> {
    let step = parsed(json!({ "apply": { "object": portable(kind, object) } })).ok()?;
    Some((
        if kind == "MachineClass" {
            Duration::ZERO
        } else {
            created
        },
        step,
    ))
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// A time of an object since the session started.
fn since(started: Timestamp, object: &Value, path: &str) -> Option<Duration> {
    let at: Timestamp = text(object, path).parse().ok()?;
    Duration::try_from(at.duration_since(started)).ok()
}

/// An object as another world can create it: without what programs wrote, in the namespace of that world, and of a class with
/// that world's credentials.
fn portable(kind: &str, object: &Value) -> Value {
    let mut portable = object.clone();
    if let Some(fields) = portable.as_object_mut() {
        fields.remove("status");
        let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            metadata.retain(|name, _| KEPT.contains(&name.as_str()));
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.retain(|name, _| !FOREIGN.iter().any(|begin| name.starts_with(begin)));
            }
        }
        if kind == "Machine" {
            // The cloud gives it another one, and the label is written with it.
            if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
                spec.remove("providerID");
            }
            if let Some(labels) = fields
                .get_mut("metadata")
                .and_then(|metadata| metadata.get_mut("labels"))
                .and_then(Value::as_object_mut)
            {
                labels.remove("node");
            }
        }
        if kind == "MachineClass" {
            let fixture = fixtures::class(NAME);
            let mut secret = fixture["secretRef"].clone();
            if let Some(secret) = secret.as_object_mut() {
                secret.remove("namespace");
            }
            fields.remove("credentialsSecretRef");
            fields.insert("secretRef".to_owned(), secret);
            if let Some(spec) = fields.get_mut("providerSpec").and_then(Value::as_object_mut) {
                spec.insert("tags".to_owned(), fixture["providerSpec"]["tags"].clone());
            }
        }
    }
    portable
}
