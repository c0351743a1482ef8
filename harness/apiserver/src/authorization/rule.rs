//! One rule of a role: matching, formatting, and coverage of other rules.
//!
//! The semantics are those of Kubernetes' RBAC: verbs, API groups, resources, names and paths must all match, `*`
//! matches everything, and rules never deny.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Action;

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// For instance `get`.
    pub verbs: Vec<String>,
    /// An empty string is the core group.
    pub groups: Vec<String>,
    /// For instance `pods`, `pods/eviction`, `*/scale`.
    pub resources: Vec<String>,
    /// Empty: all names.
    pub names: Vec<String>,
    /// For instance `/healthz`, `/api/*`.
    pub paths: Vec<String>,
}

impl Rule {
    /// The rules of a role, or of any object with `rules`.
    pub fn of_role(role: &Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::from_value).collect()
    }

    /// Parses a `PolicyRule`.
    pub fn from_value(value: &Value) -> Self {
        let texts = |field: &str| {
            let items = value.get(field).and_then(Value::as_array);
            let texts = items.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    /// The `PolicyRule`, without empty lists.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (field, texts) in [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !texts.is_empty() {
                map.insert(field.to_owned(), texts.as_slice().into());
            }
        }
        map.into()
    }

    /// All permissions, which writing an aggregated role requires.
    pub fn everything() -> [Self; 2] {
        let star = || vec!["*".to_owned()];
        let resources = Self {
            verbs: star(),
            groups: star(),
            resources: star(),
            ..Self::default()
        };
        let paths = Self {
            verbs: star(),
            paths: star(),
            ..Self::default()
        };
        [resources, paths]
    }

    /// Whether the rule allows the action.
    pub fn allows(&self, action: &Action) -> bool {
        match action {
            Action::Resource(action) => {
                has(&self.verbs, &action.verb)
                    && has(&self.groups, &action.group)
                    && self.has_resource(&action.resource, &action.subresource)
                    && (self.names.is_empty() || self.names.contains(&action.name))
            }
            Action::Path { verb, path } => has(&self.verbs, verb) && self.has_path(path),
        }
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|own| {
            if own == "*" {
                return true;
            }
            if subresource.is_empty() {
                return own == resource;
            }
            own.split_once('/')
                .is_some_and(|(parent, child)| child == subresource && (parent == "*" || parent == resource))
        })
    }

    fn has_path(&self, path: &str) -> bool {
        self.paths.iter().any(|own| {
            let prefix = own.strip_suffix('*').map(|prefix| prefix.trim_end_matches('*'));
            own == path || prefix.is_some_and(|prefix| path.starts_with(prefix))
        })
    }

    /// One rule per verb, group, resource and name, and per verb and path.
    fn atoms(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut atoms = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let atom = |names| Self {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        names,
                        paths: Vec::new(),
                    };
                    if self.names.is_empty() {
                        atoms.push(atom(Vec::new()));
                    }
                    atoms.extend(self.names.iter().map(|name| atom(one(name))));
                }
            }
        }
        for path in &self.paths {
            for verb in &self.verbs {
                atoms.push(Self {
                    verbs: one(verb),
                    paths: one(path),
                    ..Self::default()
                });
            }
        }
        atoms
    }

    /// Whether this rule includes the atom.
    fn covers(&self, atom: &Self) -> bool {
        let covers_resource = |resource: &String| match resource.split_once('/') {
            _ if self.resources.contains(resource) || self.resources.iter().any(|own| own == "*") => true,
            Some((_, child)) => self.resources.iter().any(|own| own.strip_prefix("*/") == Some(child)),
            None => false,
        };
        let names = if atom.names.is_empty() {
            self.names.is_empty()
        } else {
            self.names.is_empty() || atom.names.iter().all(|name| self.names.contains(name))
        };
        atom.verbs.iter().all(|verb| has(&self.verbs, verb))
            && atom.groups.iter().all(|group| has(&self.groups, group))
            && atom.resources.iter().all(covers_resource)
            && atom.paths.iter().all(|path| self.has_path(path))
            && names
    }

    /// Formats the rule like Go in messages: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
    fn compact_text(&self) -> String {
        let parts: Vec<String> = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ]
        .into_iter()
        .filter(|(_, texts)| !texts.is_empty())
        .map(|(name, texts)| format!("{name}:{}", quoted(texts)))
        .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

fn has(texts: &[String], wanted: &str) -> bool {
    texts.iter().any(|text| text == "*" || text == wanted)
}

/// A list of strings as Go formats it: `["a" "b"]`.
pub(super) fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

/// The part of `wanted` that `owned` does not cover, one rule per verb, resource and name.
pub(super) fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let atoms = wanted.iter().flat_map(Rule::atoms);
    atoms.filter(|atom| !owned.iter().any(|own| own.covers(atom))).collect()
}

/// Sorted lines that describe the rules, with the verbs of one resource together.
pub(super) fn description(rules: &[Rule]) -> String {
    let mut merged: Vec<Rule> = Vec::new();
    for rule in rules {
        let same = |other: &&mut Rule| {
            rule.paths.is_empty()
                && rule.groups == other.groups
                && rule.resources == other.resources
                && rule.names == other.names
        };
        match merged.iter_mut().find(same) {
            Some(other) => other.verbs.extend(rule.verbs.iter().cloned()),
            None => merged.push(rule.clone()),
        }
    }
    let lines: BTreeSet<String> = merged.iter().map(Rule::compact_text).collect();
    Vec::from_iter(lines).join("\n")
}
