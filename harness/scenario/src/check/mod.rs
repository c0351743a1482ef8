//! The checks of a scenario that need more than one step: every name belongs to something that the scenario creates,
//! every object has only known fields, every duration is above zero, and no condition is always true.

mod conditions;
mod durations;
mod fields;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::durations::StageTimeouts;
use self::fields::Schemas;
use crate::expect::Temporal;
use crate::names::{Names, Reference};
use crate::step::{Apply, Patch, Request, Step};
use crate::{Problem, Scenario, kinds};

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
        let references = step.references()?;
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
        let wrong = |field: &str, message: String| Err((format!("apply.object.{field}"), message));
        let kind = match kinds::find(object["kind"].as_str().unwrap_or_default()) {
            Ok(kind) => kind,
            Err(unknown) => return wrong("kind", unknown.to_string()),
        };
        if object["apiVersion"] != kind.api_version {
            let (found, kind, expected) = (&object["apiVersion"], kind.kind, kind.api_version);
            return wrong("apiVersion", format!("{found} has no kind {kind}; write {expected:?}"));
        }
        self.schemas.check_object("apply.object", kind, object)
    }

    fn check_patch(&self, patch: &Patch) -> Result<(), Problem> {
        match kinds::find(&patch.kind) {
            Ok(kind) => self.schemas.check_object("patch.merge", kind, &patch.merge),
            Err(unknown) => Err(("patch.kind".to_owned(), unknown.to_string())),
        }
    }
}
