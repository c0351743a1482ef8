//! Defaults and checks of roles and bindings. The module `authorization` evaluates them.

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{is_set, items, items_mut, members, object, text};
use super::syntax::{dns_subdomain, label_value, qualified_name};
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn resources() -> Vec<Resource> {
    let resource = |kind, plural, type_| ResourceBuilder::new("rbac.authorization.k8s.io/v1", kind, plural, type_);
    vec![
        resource("Role", "roles", "io.k8s.api.rbac.v1.Role")
            .printer(printers::created_at())
            .validate(validate_role)
            .build(),
        resource("ClusterRole", "clusterroles", "io.k8s.api.rbac.v1.ClusterRole")
            .cluster()
            .printer(printers::created_at())
            .validate(validate_cluster_role)
            .build(),
        resource("RoleBinding", "rolebindings", "io.k8s.api.rbac.v1.RoleBinding")
            .printer(printers::role_bindings())
            .prepare(prepare_binding)
            .validate(|new, old| validate_binding(new, old, &["Role", "ClusterRole"]))
            .build(),
        resource(
            "ClusterRoleBinding",
            "clusterrolebindings",
            "io.k8s.api.rbac.v1.ClusterRoleBinding",
        )
        .cluster()
        .printer(printers::role_bindings())
        .prepare(prepare_binding)
        .validate(|new, old| validate_binding(new, old, &["ClusterRole"]))
        .build(),
    ]
}

fn prepare_binding(new: &mut Value, _old: Option<&Value>) {
    super::fields::default_within(new, "/roleRef", "apiGroup", GROUP);
    for subject in items_mut(new, "/subjects") {
        let user = matches!(text(subject, "/kind"), "User" | "Group");
        if let Some(subject) = object(subject, "").filter(|subject| user && !is_set(subject.get("apiGroup"))) {
            subject.insert("apiGroup".to_owned(), GROUP.into());
        }
    }
}

fn validate_role(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_rules(&mut errors, new, true);
    errors
}

fn validate_cluster_role(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_rules(&mut errors, new, false);
    let Some(aggregation) = new.get("aggregationRule").filter(|rule| !rule.is_null()) else {
        return errors;
    };
    const FIELD: &str = "aggregationRule.clusterRoleSelectors";
    let selectors = items(aggregation, "/clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(FIELD, detail));
    }
    for (index, selector) in selectors.iter().enumerate() {
        validate_selector(&mut errors, selector, &format!("{FIELD}[{index}]"));
    }
    errors
}

fn validate_selector(errors: &mut Vec<FieldError>, selector: &Value, field: &str) {
    let before = errors.len();
    let labels = format!("{field}.matchLabels");
    for (key, value) in members(selector, "/matchLabels") {
        qualified_name(errors, &labels, key);
        label_value(errors, &labels, value.as_str().unwrap_or_default());
    }
    for (index, expression) in items(selector, "/matchExpressions").iter().enumerate() {
        let path = |name: &str| format!("{field}.matchExpressions[{index}].{name}");
        qualified_name(errors, &path("key"), text(expression, "/key"));
        let values = items(expression, "/values");
        match text(expression, "/operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(path("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(path("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                path("operator"),
                other,
                "not a valid selector operator",
            )),
        }
    }
    if errors.len() > before {
        errors.push(FieldError::invalid(field, Value::Null, "invalid label selector."));
    }
}

fn validate_rules(errors: &mut Vec<FieldError>, role: &Value, namespaced: bool) {
    for (index, rule) in items(role, "/rules").iter().enumerate() {
        let path = |name: &str| format!("rules[{index}].{name}");
        let is_empty = |name: &str| items(rule, &format!("/{name}")).is_empty();
        let mut require = |name: &str, detail: &str| {
            if is_empty(name) {
                errors.push(FieldError::required(path(name), detail));
            }
        };
        require("verbs", "verbs must contain at least one value");
        if is_empty("nonResourceURLs") {
            require("apiGroups", "resource rules must supply at least one api group");
            require("resources", "resource rules must supply at least one resource");
            continue;
        }
        let mut refuse = |detail: &str| {
            errors.push(FieldError::invalid(
                path("nonResourceURLs"),
                rule["nonResourceURLs"].clone(),
                detail,
            ));
        };
        if namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if !["apiGroups", "resources", "resourceNames"].into_iter().all(is_empty) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
    }
}

fn validate_binding(new: &Value, old: Option<&Value>, kinds: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let group = text(new, "/roleRef/apiGroup");
    if group != GROUP {
        errors.push(FieldError::not_supported("roleRef.apiGroup", group, &[GROUP]));
    }
    let kind = text(new, "/roleRef/kind");
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    let name = text(new, "/roleRef/name");
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    for forbidden in ['/', '%'] {
        if name.contains(forbidden) {
            let detail = format!("may not contain '{forbidden}'");
            errors.push(FieldError::invalid("roleRef.name", name, detail));
        }
    }
    for (index, subject) in items(new, "/subjects").iter().enumerate() {
        validate_subject(&mut errors, subject, index, kinds.len() > 1);
    }
    if old.is_some_and(|old| old.get("roleRef") != new.get("roleRef")) {
        let shown = serde_json::json!({ "APIGroup": group, "Kind": kind, "Name": name });
        errors.push(FieldError::invalid("roleRef", shown, "cannot change roleRef"));
    }
    errors
}

fn validate_subject(errors: &mut Vec<FieldError>, subject: &Value, index: usize, namespaced: bool) {
    let path = |name: &str| format!("subjects[{index}].{name}");
    let (kind, name, group) = (
        text(subject, "/kind"),
        text(subject, "/name"),
        text(subject, "/apiGroup"),
    );
    if name.is_empty() {
        errors.push(FieldError::required(path("name"), ""));
    }
    let supported = match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                dns_subdomain(errors, &path("name"), name);
            }
            if !namespaced && text(subject, "/namespace").is_empty() {
                errors.push(FieldError::required(path("namespace"), ""));
            }
            ""
        }
        "User" | "Group" => GROUP,
        other => {
            errors.push(FieldError::not_supported(
                path("kind"),
                other,
                &["ServiceAccount", "User", "Group"],
            ));
            return;
        }
    };
    if group != supported {
        errors.push(FieldError::not_supported(path("apiGroup"), group, &[supported]));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bindings_get_the_api_group_of_their_role_and_users() {
        let mut binding = json!({
            "roleRef": { "kind": "Role", "name": "a" },
            "subjects": [{ "kind": "User", "name": "u" }, { "kind": "ServiceAccount", "name": "s" }],
        });
        prepare_binding(&mut binding, None);
        assert_eq!(binding["roleRef"]["apiGroup"], GROUP);
        assert_eq!(binding["subjects"][0]["apiGroup"], GROUP);
        assert_eq!(binding["subjects"][1].get("apiGroup"), None);
    }

    #[test]
    fn the_role_of_a_binding_is_immutable() {
        let old = json!({ "roleRef": { "kind": "Role", "name": "a" } });
        let new = json!({ "roleRef": { "kind": "Role", "name": "b" } });
        let errors = validate_binding(&new, Some(&old), &["Role"]);
        assert!(
            errors.iter().any(|error| error.detail == "cannot change roleRef"),
            "{errors:?}"
        );
    }
}
