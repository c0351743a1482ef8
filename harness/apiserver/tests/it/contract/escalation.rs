//! Privilege escalation checks.

use serde_json::{Value, json};

use super::contract;

const BOB: &str = "{ns}-bob";
const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn bob() -> Value {
    json!({ "kind": "User", "name": BOB })
}

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({ "verbs": verbs, "apiGroups": [group], "resources": resources })
}

/// The rules of a user that manages roles.
fn role_manager() -> Value {
    rule(
        &["get", "create", "update", "patch"],
        GROUP,
        &["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
    )
}

fn role(name: &str, rules: Value) -> Value {
    json!({ "metadata": { "name": name, "labels": { "case": "{ns}" } }, "rules": rules })
}

fn binding(name: &str, kind: &str, role: &str) -> Value {
    json!({
        "metadata": { "name": name }, "subjects": [{ "kind": "User", "name": "eve" }],
        "roleRef": { "kind": kind, "name": role },
    })
}

#[test]
fn a_role_cannot_exceed_its_author() {
    contract!(async |site: &super::Site| {
        let own = [role_manager(), rule(&["get", "list"], "", &["configmaps"])];
        site.grant("{ns}", "role_manager", &bob(), &own).await;
        site.send_as(
            BOB,
            "POST",
            ROLES,
            role("a", json!([rule(&["get"], "", &["configmaps"])])),
        )
        .await;
        let more = json!([
            rule(&["get", "delete", "watch"], "", &["configmaps", "secrets"]),
            rule(&["get"], "apps", &["deployments/scale"]),
        ]);
        site.send_as(BOB, "POST", ROLES, role("b", more)).await;
        site.send_as(BOB, "POST", ROLES, role("c", json!([rule(&["*"], "*", &["*"])])))
            .await;
    });
}

#[test]
fn an_update_of_a_role_cannot_exceed_its_author() {
    contract!(async |site: &super::Site| {
        let own = [role_manager(), rule(&["get"], "", &["configmaps"])];
        site.grant("{ns}", "role_manager", &bob(), &own).await;
        site.post(ROLES, role("a", json!([rule(&["get"], "", &["configmaps"])])))
            .await;
        site.post(ROLES, role("big", json!([rule(&["get"], "", &["secrets"])])))
            .await;
        let path = format!("{ROLES}/a");
        let grown = json!({ "rules": [rule(&["get"], "", &["configmaps", "secrets"])] });
        site.step_as(BOB, "PATCH", &path, grown).await;
        site.step_as(BOB, "PATCH", &path, json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
        site.step_as(BOB, "PATCH", &path, json!({ "rules": [] })).await;
        let big = format!("{ROLES}/big");
        site.step_as(BOB, "PATCH", &big, json!({ "metadata": { "labels": { "a": "b" } } }))
            .await;
        site.step_as(BOB, "PATCH", &big, json!({ "metadata": { "finalizers": ["x.io/y"] } }))
            .await;
        site.step_as(BOB, "PATCH", &big, json!({ "metadata": { "finalizers": null } }))
            .await;
        site.step_as(BOB, "PUT", &big, role("big", json!([rule(&["get"], "", &["secrets"])])))
            .await;
    });
}

#[test]
fn escalate_allows_writing_any_role() {
    contract!(async |site: &super::Site| {
        let mut escalate = rule(&["escalate"], GROUP, &["roles"]);
        escalate["resourceNames"] = json!(["any"]);
        site.grant("{ns}", "role_manager", &bob(), &[role_manager(), escalate])
            .await;
        let rules = json!([rule(&["get"], "", &["secrets"])]);
        site.step_as(BOB, "POST", ROLES, role("any", rules.clone())).await;
        site.step_as(BOB, "POST", ROLES, role("other", rules)).await;
    });
}

#[test]
fn a_binding_cannot_exceed_its_author() {
    contract!(async |site: &super::Site| {
        let own = [role_manager(), rule(&["get"], "", &["configmaps"])];
        site.grant("{ns}", "role_manager", &bob(), &own).await;
        site.step(
            "POST",
            ROLES,
            role("small", json!([rule(&["get"], "", &["configmaps"])])),
        )
        .await;
        site.step(
            "POST",
            ROLES,
            role("big", json!([rule(&["get", "list"], "", &["secrets", "configmaps"])])),
        )
        .await;
        // When this role applies, the earlier ones do too.
        site.grant("{ns}", "marker", &json!({ "kind": "User", "name": "{ns}-marker" }), &[])
            .await;
        site.send_as(BOB, "POST", BINDINGS, binding("a", "Role", "small")).await;
        site.send_as(BOB, "POST", BINDINGS, binding("b", "Role", "big")).await;
        site.step_as(BOB, "POST", BINDINGS, binding("c", "ClusterRole", "system:discovery"))
            .await;
        site.step_as(BOB, "POST", BINDINGS, binding("d", "ClusterRole", "cluster-admin"))
            .await;
    });
}

#[test]
fn a_binding_of_a_missing_role_needs_the_bind_permission() {
    contract!(async |site: &super::Site| {
        site.grant("{ns}", "role_manager", &bob(), &[role_manager()]).await;
        site.send_as(BOB, "POST", BINDINGS, binding("a", "Role", "none")).await;
        site.send_as(BOB, "POST", BINDINGS, binding("b", "ClusterRole", "{ns}-none"))
            .await;
        site.step("POST", BINDINGS, binding("c", "Role", "none")).await;
    });
}

#[test]
fn bind_allows_binding_a_role() {
    contract!(async |site: &super::Site| {
        let mut bind = rule(&["bind"], GROUP, &["roles", "clusterroles"]);
        bind["resourceNames"] = json!(["any", "cluster-admin"]);
        site.grant("{ns}", "role_manager", &bob(), &[role_manager(), bind])
            .await;
        site.step_as(BOB, "POST", BINDINGS, binding("a", "Role", "any")).await;
        site.step_as(BOB, "POST", BINDINGS, binding("b", "ClusterRole", "cluster-admin"))
            .await;
        let cluster = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        site.step_as(BOB, "POST", cluster, binding("{ns}", "ClusterRole", "cluster-admin"))
            .await;
    });
}

#[test]
fn changes_of_subjects_have_the_same_check() {
    contract!(async |site: &super::Site| {
        site.grant("{ns}", "role_manager", &bob(), &[role_manager()]).await;
        site.step("POST", BINDINGS, binding("a", "ClusterRole", "cluster-admin"))
            .await;
        let path = format!("{BINDINGS}/a");
        site.step_as(BOB, "PATCH", &path, json!({ "subjects": [bob()] })).await;
        site.step_as(BOB, "PATCH", &path, json!({ "subjects": [] })).await;
        site.step_as(BOB, "PATCH", &path, json!({ "metadata": { "finalizers": ["x.io/y"] } }))
            .await;
        site.step_as(BOB, "PATCH", &path, json!({ "metadata": { "finalizers": null } }))
            .await;
    });
}

#[test]
fn wildcards_cover_specific_rules() {
    contract!(async |site: &super::Site| {
        let mut named = rule(&["get"], "", &["secrets"]);
        named["resourceNames"] = json!(["a", "b"]);
        let own = [
            role_manager(),
            rule(&["*"], "", &["configmaps"]),
            rule(&["get"], "apps", &["*/scale"]),
            rule(&["get"], "batch", &["*"]),
            named.clone(),
        ];
        site.grant("{ns}", "role_manager", &bob(), &own).await;
        let mut narrower = named.clone();
        narrower["resourceNames"] = json!(["b"]);
        let mut wider = named.clone();
        wider["resourceNames"] = json!(["b", "c"]);
        for (number, rules) in [
            json!([rule(&["delete", "sing"], "", &["configmaps"])]),
            json!([rule(&["*"], "", &["configmaps"])]),
            json!([rule(&["get"], "apps", &["deployments/scale"])]),
            json!([rule(&["get"], "apps", &["deployments"])]),
            json!([rule(&["get"], "batch", &["jobs", "jobs/status", "*/status"])]),
            json!([rule(&["*"], "batch", &["jobs"])]),
            json!([narrower]),
            json!([wider]),
            json!([rule(&["get"], "", &["secrets"])]),
            json!([rule(&["get"], "*", &["jobs"])]),
        ]
        .into_iter()
        .enumerate()
        {
            site.step_as(BOB, "POST", ROLES, role(&format!("r{number}"), rules))
                .await;
        }
    });
}

#[test]
fn cluster_roles_need_cluster_permissions() {
    contract!(async |site: &super::Site| {
        site.grant("", "{ns}", &bob(), &[role_manager()]).await;
        site.grant("{ns}", "reader", &bob(), &[rule(&["get"], "", &["secrets"])])
            .await;
        let rules = json!([rule(&["get"], "", &["secrets"])]);
        site.step_as(BOB, "POST", ROLES, role("a", rules.clone())).await;
        site.send_as(BOB, "POST", CLUSTER_ROLES, role("{ns}-a", rules)).await;
        let paths = json!([{ "verbs": ["get"], "nonResourceURLs": ["/metrics", "/healthz", "/api/*", "/api/v1"] }]);
        site.step_as(BOB, "POST", CLUSTER_ROLES, role("{ns}-b", paths)).await;
    });
}

#[test]
fn writing_an_aggregated_role_needs_all_permissions() {
    contract!(async |site: &super::Site| {
        site.grant("", "{ns}", &bob(), &[role_manager()]).await;
        let mut gathers = role("{ns}-a", json!([]));
        gathers["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "x": "{ns}" } }] });
        site.step_as(BOB, "POST", CLUSTER_ROLES, gathers).await;
    });
}

#[test]
fn masters_can_grant_everything() {
    contract!(async |site: &super::Site| {
        let headers = [("impersonate-user", BOB), ("impersonate-group", "system:masters")];
        let rules = json!([rule(&["get"], "", &["secrets"])]);
        site.brief("a master: ", "POST", ROLES, &headers, role("a", rules))
            .await;
        site.brief("a master: ", "POST", BINDINGS, &headers, binding("a", "Role", "a"))
            .await;
    });
}
