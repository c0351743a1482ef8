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

    /// The number of steps.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The session as a plan. Objects are those that exist and that no controller owns, as they are now.
    pub(crate) fn plan(&self, world: &WorldState, started: Timestamp, settings: &Settings) -> Result<Plan, PlanError> {
        let mut steps = objects(world, started);
        if steps.is_empty() && self.steps.is_empty() {
            return Err(PlanError::Empty);
        }
        steps.extend(self.steps.iter().cloned());
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

    /// The plan as YAML.
    pub(crate) fn yaml(
        &self,
        world: &WorldState,
        started: Timestamp,
        settings: &Settings,
    ) -> Result<String, PlanError> {
        let plan = self.plan(world, started, settings)?;
        let yaml = plan.to_yaml().map_err(|error| PlanError::Yaml(error.to_string()))?;
        let mut text = "# A session of the dashboard of `drydock up`. Times are those of the session; in `sim` all timeouts are those of\n\
             # production. Objects are as they were when the plan was saved. Replay: drydock run --plan FILE --stage sim\n"
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

/// The objects of users, with the times of their creation.
fn objects(world: &WorldState, started: Timestamp) -> Vec<(Duration, Step)> {
    let used = used_classes(world);
    let mut steps = Vec::new();
    for kind in KINDS {
        for object in world.of_kind(kind).filter(|object| entity::owner(object).is_none()) {
            if kind == "MachineClass" && !used.contains(text(object, "/metadata/name")) {
                continue;
            }
            let created: Option<Timestamp> = text(object, "/metadata/creationTimestamp").parse().ok();
            let at = created
                .and_then(|created| Duration::try_from(created.duration_since(started)).ok())
                .unwrap_or_default();
            if let Ok(step) = parsed(json!({ "apply": { "object": portable(kind, object) } })) {
                // Classes are needed from the start.
                steps.push((if kind == "MachineClass" { Duration::ZERO } else { at }, step));
            }
        }
    }
    steps
}

/// The names of the classes of all machines and templates.
fn used_classes(world: &WorldState) -> BTreeSet<String> {
    let paths = ["/spec/class/name", "/spec/template/spec/class/name"];
    let objects = KINDS.iter().flat_map(|kind| world.of_kind(kind));
    objects
        .flat_map(|object| paths.map(|path| text(object, path).to_owned()))
        .filter(|name| !name.is_empty())
        .collect()
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
