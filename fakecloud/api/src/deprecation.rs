//! Old spellings in a file, which are reported once per file and field.
//!
//! [`Deprecations`] inspects the file's tree separately from the parser, so that neither the parser nor the parsed
//! value stores them.

use std::fmt;

use serde_json::Value;

use crate::CloudCall;
use crate::rule::{call_values, renamed};

/// An old spelling in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// The file.
    pub file: String,
    /// The path of the field, and its value if that is what changed.
    pub old: String,
    /// What to write instead.
    pub new: String,
}

impl fmt::Display for Deprecation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, old, new } = self;
        write!(
            f,
            "{file}: {old} is now {new}; the old spelling is removed in the next release"
        )
    }
}

/// The old spellings of one run of a program, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deprecations(Vec<Deprecation>);

impl Deprecations {
    /// Records an old spelling, unless it is already recorded for that file.
    pub fn add(&mut self, file: &str, old: impl Into<String>, new: impl Into<String>) {
        let deprecation = Deprecation {
            file: file.to_owned(),
            old: old.into(),
            new: new.into(),
        };
        if !self.0.contains(&deprecation) {
            self.0.push(deprecation);
        }
    }

    /// Records the old spellings of a fault rule at `place` in the file, such as `inject`; empty: the rule is the whole
    /// document.
    pub fn add_rule(&mut self, file: &str, place: &str, rule: &Value) {
        self.add_moved_rule(file, place, place, rule);
    }

    /// The same for a rule that has moved to another place.
    pub fn add_moved_rule(&mut self, file: &str, old_place: &str, new_place: &str, rule: &Value) {
        let at = |place: &str, field: &str| match place {
            "" => field.to_owned(),
            place => format!("{place}.{field}"),
        };
        for (field, new) in renamed(rule) {
            self.add(file, at(old_place, field), at(new_place, new));
        }
        for call in call_values(rule) {
            self.add_call(file, &at(new_place, "match.call"), call);
        }
    }

    /// Records the old name of a call as the value of the field `path`.
    pub fn add_call(&mut self, file: &str, path: &str, call: &Value) {
        let old = call.as_str().unwrap_or_default();
        if let Some(new) = CloudCall::renamed(old) {
            self.add(file, format!("{path}: {old}"), format!("{path}: {new}"));
        }
    }

    /// The old spellings.
    pub fn iter(&self) -> impl Iterator<Item = &Deprecation> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_old_spelling_is_reported_once_per_file_and_field() {
        let mut found = Deprecations::default();
        let rule = json!({"name": "a", "call": "createMachine", "effect": "onlyNics", "match": {"times": 1}});
        for file in ["a.yaml", "a.yaml", "b.yaml"] {
            found.add_rule(file, "inject", &rule);
        }
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "a.yaml: inject.call is now inject.match.call; the old spelling is removed in the next release",
                "a.yaml: inject.effect is now inject.action.partial: nics; the old spelling is removed in the next \
                 release",
                "b.yaml: inject.call is now inject.match.call; the old spelling is removed in the next release",
                "b.yaml: inject.effect is now inject.action.partial: nics; the old spelling is removed in the next \
                 release",
            ]
        );
    }

    #[test]
    fn an_old_name_of_a_call_is_reported_in_every_place() {
        let mut found = Deprecations::default();
        found.add_rule("a.yaml", "", &json!({"match": {"call": "get_status"}}));
        found.add_rule("b.yaml", "", &json!({"operation": "list"}));
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        let end = "; the old spelling is removed in the next release";
        assert_eq!(
            lines,
            [
                format!("a.yaml: match.call: get_status is now match.call: getMachineStatus{end}"),
                format!("b.yaml: operation is now match.call{end}"),
                format!("b.yaml: match.call: list is now match.call: listMachines{end}"),
            ]
        );
    }

    #[test]
    fn a_rule_in_the_new_spelling_is_not_reported() {
        let mut found = Deprecations::default();
        let rule = json!({"name": "a", "match": {"call": "createMachine"}, "action": {"code": "Internal"}});
        found.add_rule("a.yaml", "inject", &rule);
        assert_eq!(found, Deprecations::default());
    }
}
