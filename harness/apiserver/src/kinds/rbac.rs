//! Roles and their bindings. They are kept and shown; nothing is decided by them here.

use serde_json::Value;

use super::fields::{immutable, is_set, items_mut, object, text};
use super::row::Row;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn rows() -> Vec<Resource> {
    let row = |kind, plural, type_| Row::new("rbac.authorization.k8s.io/v1", kind, plural, type_);
    vec![
        row("Role", "roles", "io.k8s.api.rbac.v1.Role")
            .printer(printers::created_at())
            .build(),
        row("ClusterRole", "clusterroles", "io.k8s.api.rbac.v1.ClusterRole")
            .cluster()
            .printer(printers::created_at())
            .build(),
        row("RoleBinding", "rolebindings", "io.k8s.api.rbac.v1.RoleBinding")
            .printer(printers::role_bindings())
            .prepare(prepare_binding)
            .validate(validate_binding)
            .build(),
        row(
            "ClusterRoleBinding",
            "clusterrolebindings",
            "io.k8s.api.rbac.v1.ClusterRoleBinding",
        )
        .cluster()
        .printer(printers::role_bindings())
        .prepare(prepare_binding)
        .validate(validate_binding)
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

fn validate_binding(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = text(new, "/roleRef/kind");
    if !matches!(kind, "Role" | "ClusterRole") {
        errors.push(FieldError::not_supported(
            "roleRef.kind",
            kind,
            &["Role", "ClusterRole"],
        ));
    }
    if text(new, "/roleRef/name").is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    if let Some(old) = old {
        let before = errors.len();
        immutable(&mut errors, new, old, "/roleRef");
        for error in errors.iter_mut().skip(before) {
            error.detail = "cannot change roleRef".to_owned();
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bindings_get_the_group_of_their_role_and_users() {
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
    fn the_role_of_a_binding_never_changes() {
        let old = json!({ "roleRef": { "kind": "Role", "name": "a" } });
        let new = json!({ "roleRef": { "kind": "Role", "name": "b" } });
        let errors = validate_binding(&new, Some(&old));
        assert!(
            errors.iter().any(|error| error.detail == "cannot change roleRef"),
            "{errors:?}"
        );
    }
}
