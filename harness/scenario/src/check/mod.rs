//! The checks of a scenario that need more than one step: every name belongs to something that the scenario creates,
//! every object has only known fields, every duration is above zero, and no condition is always true.

mod conditions;
mod durations;
mod fields;
mod node;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::durations::StageTimeouts;
use self::fields::Schemas;
use crate::expect::Temporal;
use crate::names::{Names, Reference, find_kind};
use crate::step::{Apply, Patch, Request, Step};
use crate::{Problem, Scenario};

/// Checks a scenario with everything that it creates.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    scenario: &'a Scenario,
    /// The names that the scenario creates. A plan adds those of its disturbances.
    pub(crate) names: Names,
    schemas: Schemas,
    stages: StageTimeouts,
}

impl<'a> Checker<'a> {
    /// Collects what the scenario creates.
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let mut names = Names::of_world(&scenario.world);
        let mut schemas = Schemas::default();
        scenario
            .world
            .objects()
            .for_each(|object| schemas.add_definition(object));
        for step in &scenario.steps {
            step.add_names(&mut names);
            if let Request::Apply(Apply::Object(object)) = step.request() {
                schemas.add_definition(object);
            }
        }
        Self {
            scenario,
            names,
            schemas,
            stages: StageTimeouts::of(|stage| scenario.runs_on(stage)),
        }
    }

    /// Checks all steps.
    ///
    /// # Errors
    /// The first invalid field.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let world = &self.scenario.world;
        for (list, manifests) in [("crds", &world.crds), ("manifests", &world.manifests)] {
            for (index, manifest) in manifests.iter().enumerate() {
                let Some(object) = manifest.object() else { continue };
                let at = |(field, message): Problem| match field.as_str() {
                    "" => (format!("world.{list}[{index}]"), message),
                    field => (format!("world.{list}[{index}].{field}"), message),
                };
                self.check_manifest(list, object).map_err(at)?;
            }
        }
        for (index, object) in world.creates.iter().enumerate() {
            let path = format!("world.creates[{index}]");
            find_kind(&self.names.kinds, &path, object.api_version.as_deref(), &object.kind)?;
        }
        let steps = &self.scenario.steps;
        for (index, step) in steps.iter().enumerate() {
            let at = |(field, message): Problem| (format!("steps[{index}].{field}"), message);
            self.check_step(step).map_err(at)?;
        }
        match steps.last() {
            Some(Step::Expect(last)) if last.holds == Temporal::Throughout => Err((
                format!("steps[{}].expect.holds", steps.len().saturating_sub(1)),
                "no step follows, so the expectation covers nothing: put it before the steps that it covers".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Checks that all references can match something.
    ///
    /// # Errors
    /// The first one that cannot.
    pub(crate) fn check_references(&self, references: &[Reference]) -> Result<(), Problem> {
        references.iter().try_for_each(|reference| self.names.check(reference))
    }

    fn check_step(&self, step: &Step) -> Result<(), Problem> {
        let references = step.references(&self.names.kinds)?;
        self.check_references(&references)?;
        self.check_values(step)
    }

    /// Checks everything but the names.
    fn check_values(&self, step: &Step) -> Result<(), Problem> {
        for (field, time) in step.durations() {
            self.stages.check_positive(&field, time)?;
        }
        match step {
            Step::Expect(expectation) => {
                conditions::check("expect.that", &expectation.that, &self.names, &self.schemas)?;
                self.stages.check_expectation("expect", expectation)
            }
            Step::As(step) => {
                let inside = |(field, message): Problem| (format!("as.step.{field}"), message);
                // A request that is refused fails for an object that does not exist, too.
                let checked = match step.refused {
                    true => self.check_values(&step.step),
                    false => self.check_step(&step.step),
                };
                checked.map_err(inside)
            }
            Step::Apply(Apply::Object(object)) => self.check_object(object),
            Step::Patch(patch) => self.check_patch(patch),
            _ => Ok(()),
        }
    }

    fn check_object(&self, object: &Value) -> Result<(), Problem> {
        let below = |(field, message): Problem| (format!("apply.object.{field}"), message);
        self.check_fields(object).map_err(below)
    }

    /// Checks the kind of an object, and that it has only known fields.
    fn check_fields(&self, object: &Value) -> Result<(), Problem> {
        let kind = self.names.kinds.of_object(object);
        let kind = kind.map_err(|unknown| (unknown.field().to_owned(), unknown.to_string()))?;
        self.schemas.check_object("", kind, object)
    }

    /// Checks an object of the world's list of that name. The field of the error is one of the object.
    pub(crate) fn check_manifest(&self, list: &str, object: &Value) -> Result<(), Problem> {
        let wrong = |field: &str, message: String| Err((field.to_owned(), message));
        for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
            if !object.pointer(pointer).is_some_and(Value::is_string) {
                let field = pointer.trim_start_matches('/').replace('/', ".");
                return wrong(&field, "is missing: it is required for every object".to_owned());
            }
        }
        let is_definition = object["kind"] == "CustomResourceDefinition";
        match list {
            "crds" if !is_definition => wrong(
                "kind",
                format!(
                    "{} is no CustomResourceDefinition: move the file to `world.manifests`",
                    object["kind"]
                ),
            ),
            "manifests" if is_definition => wrong(
                "kind",
                "the definition of a kind must be known before its objects: move the file to `world.crds`".to_owned(),
            ),
            _ => {
                self.check_fields(object)?;
                Schemas::check_definition(object)
            }
        }
    }

    fn check_patch(&self, patch: &Patch) -> Result<(), Problem> {
        let kind = find_kind(&self.names.kinds, "patch", patch.api_version.as_deref(), &patch.kind)?;
        self.schemas.check_object("patch.merge", kind, &patch.merge)
    }
}
