//! Accounts, roles, reviews: their defaults, warnings and checks.

use serde_json::{Value, json};

use super::{Site, contract, part};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[test]
fn subjects_and_roles_get_their_group() {
    contract!(async |site: &Site| {
        let path = format!("{RBAC}/namespaces/{{ns}}/rolebindings");
        let binding = |role: Value, subject: Value| json!({ "metadata": { "name": "a" }, "roleRef": role, "subjects": [subject] });
        let view = json!({ "kind": "ClusterRole", "name": "view" });
        for subject in [
            json!({ "kind": "User", "name": "me" }),
            json!({ "kind": "Group", "name": "us" }),
            json!({ "kind": "ServiceAccount", "name": "a" }),
            json!({ "kind": "ServiceAccount", "name": "a", "namespace": "b" }),
            json!({ "kind": "ServiceAccount", "name": "A", "namespace": "b" }),
            json!({ "kind": "User", "name": "me", "namespace": "b" }),
            json!({ "kind": "User", "name": "me", "apiGroup": "x.io" }),
            json!({ "kind": "User", "name": "" }),
            json!({ "kind": "Other", "name": "a" }),
        ] {
            part(
                site,
                &subject.to_string(),
                &path,
                binding(view.clone(), subject.clone()),
                "/subjects",
            )
            .await;
        }
        for role in [
            json!({ "kind": "ClusterRole", "name": "view" }),
            json!({ "kind": "Other", "name": "view" }),
            json!({ "kind": "ClusterRole", "name": "" }),
            json!({ "kind": "ClusterRole", "name": "view", "apiGroup": "x.io" }),
            json!({}),
        ] {
            part(
                site,
                &role.to_string(),
                &path,
                binding(role.clone(), json!({ "kind": "User", "name": "me" })),
                "/roleRef",
            )
            .await;
        }
    });
}

#[test]
fn rules_of_roles() {
    contract!(async |site: &Site| {
        for rule in [
            json!({ "verbs": [], "apiGroups": [""], "resources": ["pods"] }),
            json!({ "verbs": ["get"], "resources": ["pods"] }),
            json!({ "verbs": ["get"], "apiGroups": [""] }),
            json!({ "verbs": ["get"], "nonResourceURLs": ["/a"] }),
            json!({ "verbs": ["get"], "nonResourceURLs": ["/a"], "apiGroups": [""], "resources": ["pods"] }),
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"] }),
            json!({}),
        ] {
            let role = json!({ "metadata": { "name": "a.{ns}" }, "rules": [rule] });
            part(
                site,
                &format!("cluster {rule}"),
                &format!("{RBAC}/clusterroles"),
                role.clone(),
                "/rules",
            )
            .await;
            part(
                site,
                &format!("role {rule}"),
                &format!("{RBAC}/namespaces/{{ns}}/roles"),
                role,
                "/rules",
            )
            .await;
        }
        let selector = json!({ "clusterRoleSelectors": [{ "matchLabels": { "a": "b c" } }] });
        let role = json!({ "metadata": { "name": "a.{ns}" }, "aggregationRule": selector });
        part(
            site,
            "selector",
            &format!("{RBAC}/clusterroles"),
            role,
            "/aggregationRule",
        )
        .await;
        let empty = json!({ "metadata": { "name": "a.{ns}" }, "aggregationRule": { "clusterRoleSelectors": [] } });
        part(
            site,
            "no selectors",
            &format!("{RBAC}/clusterroles"),
            empty,
            "/aggregationRule",
        )
        .await;
    });
}

#[test]
fn access_reviews_name_an_action() {
    contract!(async |site: &Site| {
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        for spec in [
            json!({ "user": "me", "resourceAttributes": { "verb": "get", "resource": "pods" } }),
            json!({ "user": "system:admin", "groups": ["system:masters"], "resourceAttributes": { "verb": "get", "resource": "pods", "name": "a", "subresource": "log" } }),
            json!({ "user": "me", "groups": ["system:authenticated"], "nonResourceAttributes": { "path": "/version", "verb": "get" } }),
            json!({ "user": "me", "groups": ["system:authenticated"], "resourceAttributes": { "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews", "verb": "create" } }),
            json!({ "user": "me" }),
            json!({ "resourceAttributes": { "verb": "get", "resource": "pods" } }),
            json!({ "groups": ["us"], "resourceAttributes": {} }),
        ] {
            let answer = site.quietly("POST", path, &[], json!({ "spec": spec })).await;
            site.note(&format!(
                "{spec}: {} {} {}",
                answer.code, answer.body["status"]["allowed"], answer.body["message"]
            ));
        }
    });
}

#[test]
fn tokens_of_reviews() {
    contract!(async |site: &Site| {
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        for spec in [
            json!({ "token": "nonsense" }),
            json!({ "token": "a.b.c" }),
            json!({ "token": "" }),
            json!({}),
        ] {
            let answer = site.quietly("POST", path, &[], json!({ "spec": spec })).await;
            let status = &answer.body["status"];
            site.note(&format!(
                "{spec}: {} {} {} {}",
                answer.code,
                status["authenticated"],
                status["error"].is_string(),
                answer.body["message"]
            ));
        }
        site.step("GET", path, Value::Null).await;
        site.step("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews", Value::Null)
            .await;
    });
}
