//! Rules of stale scenarios that the types do not express.

use apiserver::faults::Pattern;
use serde_json::Value;

use super::{DeletedObjects, ExpectedCount, StaleScenario, StaleStep, WaitFor};
use crate::Problem;
use crate::kinds::Kinds;
use crate::manifest::Manifest;
use crate::names::check_resource;

fn problem(field: impl Into<String>, message: impl Into<String>) -> Problem {
    (field.into(), message.into())
}

impl StaleScenario {
    /// The first invalid field.
    pub(super) fn check(&self) -> Result<(), Problem> {
        self.check_fields()?;
        let kinds = self.kinds();
        self.check_resources(&kinds)?;
        for (index, object) in self.objects.iter().filter_map(Manifest::object).enumerate() {
            check_object(object, &kinds).map_err(|(field, message)| (format!("objects[{index}].{field}"), message))?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            step.check(&kinds)
                .map_err(|(field, message)| (format!("steps[{index}].{field}"), message))?;
        }
        for (index, expected) in self.expect.iter().enumerate() {
            expected
                .check(&kinds)
                .map_err(|(field, message)| (format!("expect[{index}].{field}"), message))?;
        }
        Ok(())
    }

    fn check_fields(&self) -> Result<(), Problem> {
        let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if self.name.is_empty() || !self.name.chars().all(named) {
            let message = format!("{:?} is not a name: use lower-case letters, digits, - and _", self.name);
            return Err(problem("name", message));
        }
        if self.controller.user.is_empty() {
            return Err(problem(
                "controller.user",
                "is empty: name the user of the controller, or omit the field",
            ));
        }
        if self.lag.watches.is_empty() {
            return Err(problem(
                "lag.watches",
                "name at least one resource whose watches lag, such as pods",
            ));
        }
        if self.steps.is_empty() {
            return Err(problem(
                "steps",
                "a scenario needs at least one step, such as `wait: lag + 10s`",
            ));
        }
        for (index, rule) in self.faults.iter().enumerate() {
            rule.check().map_err(|error| {
                let message = format!("{}; {}", error.problem, error.fix);
                problem(format!("faults[{index}].{}", error.field), message)
            })?;
        }
        Ok(())
    }

    /// Every resource that lags or has faults exists.
    fn check_resources(&self, kinds: &Kinds) -> Result<(), Problem> {
        let of_list = |name: &'static str, list: &[Pattern]| {
            let patterns = list.iter().cloned().enumerate();
            patterns
                .map(move |(index, pattern)| (format!("lag.{name}[{index}]"), pattern))
                .collect::<Vec<_>>()
        };
        let of_faults = self.faults.iter().enumerate().filter_map(|(index, rule)| {
            Some((
                format!("faults[{index}].match.resource"),
                rule.matches.resource.clone()?,
            ))
        });
        let watches = of_list("watches", &self.lag.watches);
        let lists = of_list("lists", self.lag.lists.as_deref().unwrap_or_default());
        for (field, pattern) in watches.into_iter().chain(lists).chain(of_faults) {
            check_resource(kinds, pattern.as_str()).map_err(|error| problem(field, error.to_string()))?;
        }
        Ok(())
    }
}

impl StaleStep {
    fn check(&self, kinds: &Kinds) -> Result<(), Problem> {
        match self {
            Self::Apply(applied) => check_object(&applied.object, kinds)
                .map_err(|(field, message)| (format!("apply.object.{field}"), message)),
            Self::Patch(patch) => check_kind("patch", kinds, patch.api_version.as_deref(), &patch.kind),
            Self::Delete(deleted) => deleted.check(kinds),
            Self::WaitFor(condition) => condition.check(kinds),
            Self::Wait(_) | Self::BeginLag {} | Self::EndLag {} => Ok(()),
        }
    }
}

impl DeletedObjects {
    fn check(&self, kinds: &Kinds) -> Result<(), Problem> {
        check_kind("delete", kinds, self.api_version.as_deref(), &self.kind)?;
        if self.name.is_some() && !(self.labels.is_empty() && self.count.is_none()) {
            return Err(problem(
                "delete.name",
                "names one object: omit `labels` and `count`, or the name",
            ));
        }
        if self.count == Some(0) {
            return Err(problem(
                "delete.count",
                "is 0: write how many objects are deleted, or omit it for all",
            ));
        }
        Ok(())
    }
}

impl WaitFor {
    fn check(&self, kinds: &Kinds) -> Result<(), Problem> {
        check_kind("waitFor", kinds, self.api_version.as_deref(), &self.kind)?;
        let has_value = self.name.is_some() && self.field.is_some() && self.is.is_some();
        let mixes = self.count.is_some() || !self.labels.is_empty();
        let names_any = self.name.is_some() || self.field.is_some() || self.is.is_some();
        match (self.count, has_value) {
            (None, true) if !mixes => Ok(()),
            (Some(_), false) if !names_any => Ok(()),
            _ => Err(problem(
                "waitFor",
                "write either `count` (with `labels`), or `name`, `field` and `is`",
            )),
        }
    }
}

impl ExpectedCount {
    fn check(&self, kinds: &Kinds) -> Result<(), Problem> {
        let kind = kinds.find(self.api_version.as_deref(), &self.kind);
        kind.map_err(|error| problem(error.field(), error.to_string()))?;
        match (self.at_most, self.at_least) {
            (None, None) => Err(problem(
                "atMost",
                "write `atMost`, `atLeast` or both: nothing is expected",
            )),
            (Some(most), Some(least)) if most < least => {
                Err(problem("atLeast", format!("is {least}, more than `atMost` ({most})")))
            }
            _ => Ok(()),
        }
    }
}

fn check_kind(word: &str, kinds: &Kinds, api_version: Option<&str>, kind: &str) -> Result<(), Problem> {
    let found = kinds.find(api_version, kind);
    found
        .map(drop)
        .map_err(|error| problem(format!("{word}.{}", error.field()), error.to_string()))
}

/// An object has a name and a known kind.
fn check_object(object: &Value, kinds: &Kinds) -> Result<(), Problem> {
    for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
        if !object.pointer(pointer).is_some_and(Value::is_string) {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            return Err(problem(field, "is missing: it is required for every object"));
        }
    }
    let kind = kinds.of_object(object);
    kind.map(drop)
        .map_err(|error| problem(error.field(), error.to_string()))
}
