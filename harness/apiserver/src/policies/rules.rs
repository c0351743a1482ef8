//! Which requests a policy or webhook receives: rules and selectors.

use serde_json::Value;

use crate::reviewer::Operation;
use crate::selector::{LabelSelector, text_of};

/// A resource in a version of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    /// The plural.
    pub(crate) resource: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
}

/// One rule. A rule without names is for all names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

/// The requests that something decides about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constraints {
    pub(crate) rules: Vec<Rule>,
    pub(crate) excluded: Vec<Rule>,
    pub(crate) namespaces: LabelSelector,
    pub(crate) objects: LabelSelector,
    /// Whether only the group and version of the request count, not those that are equivalent.
    pub(crate) exact: bool,
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let list = |field: &str| texts(rule.get(field));
        Self {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            names: list("resourceNames"),
            scope: rule.get("scope").and_then(Value::as_str).unwrap_or("*").to_owned(),
        }
    }

    /// Whether the rule is for an operation on the object of that name. `is_namespaced`: whether the objects of the
    /// resource belong to namespaces.
    pub(crate) fn matches(&self, target: &Target, is_namespaced: bool, operation: Operation, name: &str) -> bool {
        let has = |list: &[String], value: &str| list.iter().any(|own| own == "*" || own == value);
        let resource = |own: &String| {
            let (resource, subresource) = own.split_once('/').unwrap_or((own, ""));
            (resource == "*" || resource == target.resource)
                && (subresource == "*" || subresource == target.subresource)
        };
        let scope = match self.scope.as_str() {
            "Cluster" => !is_namespaced,
            "Namespaced" => is_namespaced,
            _ => true,
        };
        scope
            && has(&self.operations, operation.name())
            && has(&self.groups, &target.group)
            && has(&self.versions, &target.version)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.iter().any(|own| own == name))
    }
}

impl Constraints {
    /// Those of a policy or binding.
    pub(crate) fn of_policy(constraints: &Value) -> Self {
        Self::read(constraints, "resourceRules")
    }

    /// Those of a webhook.
    pub(crate) fn of_webhook(hook: &Value) -> Self {
        Self::read(hook, "rules")
    }

    /// Reads selectors and the rules in the field `rules`.
    fn read(constraints: &Value, rules: &str) -> Self {
        let list = |field: &str| {
            let rules = constraints.get(field).and_then(Value::as_array).into_iter().flatten();
            rules.map(Rule::read).collect()
        };
        let selector = |field: &str| {
            let text = text_of(constraints.get(field).unwrap_or(&Value::Null));
            // Stored selectors are valid.
            LabelSelector::parse(&text).unwrap_or_default()
        };
        Self {
            rules: list(rules),
            excluded: list("excludeResourceRules"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            exact: constraints.get("matchPolicy").and_then(Value::as_str) == Some("Exact"),
        }
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({}), true)]
    #[case(json!({ "operations": ["CREATE", "DELETE"] }), false)]
    #[case(json!({ "operations": ["*"] }), true)]
    #[case(json!({ "apiGroups": [""] }), false)]
    #[case(json!({ "apiGroups": ["*"], "apiVersions": ["*"] }), true)]
    #[case(json!({ "apiVersions": ["v2"] }), false)]
    #[case(json!({ "resources": ["deployments"] }), false)]
    #[case(json!({ "resources": ["*"] }), false)]
    #[case(json!({ "resources": ["*/*"] }), true)]
    #[case(json!({ "resources": ["*/scale"] }), true)]
    #[case(json!({ "resources": ["deployments/*"] }), true)]
    #[case(json!({ "resources": ["statefulsets/scale"] }), false)]
    #[case(json!({ "scope": "Cluster" }), false)]
    #[case(json!({ "scope": "Namespaced" }), true)]
    #[case(json!({ "resourceNames": ["a", "b"] }), true)]
    #[case(json!({ "resourceNames": ["b"] }), false)]
    fn a_rule_is_for_a_resource_and_an_operation(#[case] change: Value, #[case] expected: bool) {
        let mut rule = json!({
            "operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"],
        });
        rule.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let target = Target {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            resource: "deployments".to_owned(),
            subresource: "scale".to_owned(),
        };
        assert_eq!(
            Rule::read(&rule).matches(&target, true, Operation::Update, "a"),
            expected
        );
    }
}
