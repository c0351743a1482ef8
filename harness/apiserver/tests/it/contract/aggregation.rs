//! Aggregated ClusterRoles.

use serde_json::{Value, json};

use super::contract;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn role(name: &str, labels: &[&str], resources: &[&str]) -> Value {
    let mut metadata = json!({ "name": name, "labels": { "case": "{ns}" } });
    for label in labels {
        metadata["labels"][format!("{label}.example.com/{{ns}}")] = "true".into();
    }
    json!({ "metadata": metadata, "rules": [{ "verbs": ["get"], "apiGroups": [""], "resources": resources }] })
}

fn aggregated(name: &str, labels: &[&str], selected: &[&str]) -> Value {
    let mut role = role(name, labels, &["ignored"]);
    let selector = |label: &&str| json!({ "matchLabels": { format!("{label}.example.com/{{ns}}"): "true" } });
    let selectors: Vec<Value> = selected.iter().map(selector).collect();
    role["aggregationRule"] = json!({ "clusterRoleSelectors": selectors });
    role
}

#[test]
fn a_role_with_an_aggregation_rule_is_stored_unchanged() {
    contract!(async |site: &super::Site| {
        let mut empty = aggregated("{ns}-empty", &[], &[]);
        empty["aggregationRule"] = json!({ "clusterRoleSelectors": [] });
        site.post(ROLES, empty).await;
        let mut bad = aggregated("{ns}-bad", &[], &[]);
        bad["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "a b": "c d" } }] });
        site.post(ROLES, bad).await;
    });
}

#[test]
fn the_default_user_roles_have_aggregation_labels() {
    contract!(async |site: &super::Site| {
        for name in ["admin", "edit", "view"] {
            let answer = site.quietly("GET", &format!("{ROLES}/{name}"), &[], Value::Null).await;
            let (labels, rule) = (&answer.body["metadata"]["labels"], &answer.body["aggregationRule"]);
            site.note(&format!("{name}: {labels} {rule}"));
        }
    });
}
