//! Authorization and its error messages.

use serde_json::{Value, json};

use super::contract;

const BOB: &str = "{ns}-bob";
const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings";

fn bob() -> Value {
    json!({ "kind": "User", "name": BOB })
}

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({ "verbs": verbs, "apiGroups": [group], "resources": resources })
}

fn map(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

#[test]
fn without_a_role_all_requests_are_forbidden() {
    contract!(async |site: &super::Site| {
        let one = format!("{MAPS}/a");
        site.send_as(BOB, "GET", &one, Value::Null).await;
        site.send_as(BOB, "GET", MAPS, Value::Null).await;
        site.step_as(BOB, "GET", &format!("{MAPS}?watch=true"), Value::Null)
            .await;
        site.send_as(BOB, "POST", MAPS, map("a")).await;
        site.step_as(BOB, "PUT", &one, map("a")).await;
        site.step_as(BOB, "PATCH", &one, json!({})).await;
        site.step_as(BOB, "DELETE", &one, Value::Null).await;
        site.step_as(BOB, "DELETE", MAPS, Value::Null).await;
    });
}

#[test]
fn a_forbidden_error_names_group_subresource_and_scope() {
    contract!(async |site: &super::Site| {
        for (method, path) in [
            ("GET", "/api/v1/nodes"),
            ("GET", "/api/v1/configmaps"),
            ("GET", "/api/v1/nodes/n"),
            ("PUT", "/api/v1/nodes/n/status"),
            ("GET", "/api/v1/namespaces/{ns}"),
            ("GET", "/api/v1/namespaces"),
            ("PUT", "/api/v1/namespaces/{ns}/finalize"),
            ("GET", "/apis/apps/v1/namespaces/{ns}/deployments/d/scale"),
            ("POST", "/api/v1/namespaces/{ns}/pods/p/eviction"),
            ("GET", "/apis/{group}/v1/namespaces/{ns}/widgets/w"),
            ("GET", "/apis/{group}/v1/widgets"),
            ("GET", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l"),
        ] {
            site.send_as(BOB, method, path, Value::Null).await;
        }
    });
}

#[test]
fn paths_are_forbidden_too() {
    contract!(async |site: &super::Site| {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/metrics"),
            ("POST", "/healthz"),
            ("DELETE", "/api"),
            ("GET", "/readyz/ping"),
            ("GET", "/nothing/here"),
            ("GET", "/logs"),
        ] {
            site.send_as(BOB, method, path, Value::Null).await;
        }
    });
}

#[test]
fn authenticated_users_can_read_discovery() {
    contract!(async |site: &super::Site| {
        for path in [
            "/api",
            "/api/v1",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
            "/openapi/v3",
            "/version",
            "/healthz",
            "/livez",
            "/readyz",
        ] {
            site.step_as(BOB, "GET", path, Value::Null).await;
        }
    });
}

#[test]
fn anonymous_users_can_read_only_health_and_version() {
    contract!(async |site: &super::Site| {
        // An empty header sends the request without credentials.
        for path in [
            "/healthz",
            "/livez",
            "/readyz",
            "/version",
            "/api",
            "/apis/apps/v1",
            "/openapi/v3",
        ] {
            site.brief("nobody: ", "GET", path, &[("authorization", "Basic ")], Value::Null)
                .await;
        }
        let nobody = "system:anonymous";
        for path in [
            "/healthz",
            "/version",
            "/api",
            "/apis",
            "/readyz/ping",
            "/api/v1/namespaces",
        ] {
            site.step_as(nobody, "GET", path, Value::Null).await;
        }
        site.send_as(nobody, "GET", "/api/v1/namespaces/{ns}/pods", Value::Null)
            .await;
    });
}

#[test]
fn an_invalid_token_is_rejected() {
    contract!(async |site: &super::Site| {
        for path in ["/healthz", "/api", "/api/v1/namespaces"] {
            site.send("GET", path, &[("authorization", "Bearer nonsense")], Value::Null)
                .await;
        }
    });
}

#[test]
fn a_role_grants_its_rules() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        site.grant("{ns}", "reader", &bob(), &[rule(&["get", "list"], "", &["configmaps"])])
            .await;
        site.step_as(BOB, "GET", &format!("{MAPS}/a"), Value::Null).await;
        site.step_as(BOB, "GET", MAPS, Value::Null).await;
        site.step_as(BOB, "GET", &format!("{MAPS}/none"), Value::Null).await;
        site.step_as(BOB, "GET", &format!("{MAPS}?watch=true&timeoutSeconds=1"), Value::Null)
            .await;
        site.step_as(BOB, "POST", MAPS, map("b")).await;
        site.step_as(BOB, "GET", "/api/v1/namespaces/{ns}/secrets", Value::Null)
            .await;
    });
}

#[test]
fn a_role_applies_only_in_its_namespace() {
    contract!(async |site: &super::Site| {
        site.grant("{ns}", "reader", &bob(), &[rule(&["*"], "*", &["*"])]).await;
        site.step_as(BOB, "GET", MAPS, Value::Null).await;
        site.step_as(BOB, "GET", "/api/v1/namespaces/default/configmaps", Value::Null)
            .await;
        site.step_as(BOB, "GET", "/api/v1/configmaps", Value::Null).await;
        site.step_as(BOB, "GET", "/api/v1/nodes", Value::Null).await;
        site.step_as(BOB, "GET", "/metrics", Value::Null).await;
    });
}

#[test]
fn a_role_in_a_namespace_applies_to_the_namespace_object() {
    contract!(async |site: &super::Site| {
        site.grant(
            "{ns}",
            "reader",
            &bob(),
            &[rule(&["get", "update"], "", &["namespaces"])],
        )
        .await;
        site.step_as(BOB, "GET", "/api/v1/namespaces/{ns}", Value::Null).await;
        site.step_as(BOB, "GET", "/api/v1/namespaces/default", Value::Null)
            .await;
        site.step_as(BOB, "GET", "/api/v1/namespaces", Value::Null).await;
        site.step_as(BOB, "PUT", "/api/v1/namespaces/{ns}/status", Value::Null)
            .await;
    });
}

#[test]
fn a_cluster_role_applies_where_it_is_bound() {
    contract!(async |site: &super::Site| {
        let role = json!({
            "metadata": { "name": "{ns}-maps", "labels": { "case": "{ns}" } },
            "rules": [rule(&["list"], "", &["configmaps"]), rule(&["list"], "", &["nodes"])],
        });
        site.quietly("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", &[], role)
            .await;
        let binding = json!({
            "metadata": { "name": "b" }, "subjects": [bob()], "roleRef": { "kind": "ClusterRole", "name": "{ns}-maps" },
        });
        site.post(BINDINGS, binding).await;
        let asked = json!({ "verb": "list", "resource": "configmaps", "namespace": "{ns}" });
        site.until(&bob(), asked, true).await;
        site.step_as(BOB, "GET", MAPS, Value::Null).await;
        site.step_as(BOB, "GET", "/api/v1/configmaps", Value::Null).await;
        site.step_as(BOB, "GET", "/api/v1/nodes", Value::Null).await;
    });
}

#[test]
fn a_cluster_role_binding_applies_everywhere() {
    contract!(async |site: &super::Site| {
        site.grant("", "{ns}", &bob(), &[rule(&["list"], "", &["configmaps", "nodes"])])
            .await;
        for path in [MAPS, "/api/v1/configmaps", "/api/v1/nodes", "/api/v1/pods"] {
            site.step_as(BOB, "GET", path, Value::Null).await;
        }
    });
}

#[test]
fn names_restrict_a_rule() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        let mut narrow = rule(&["*"], "", &["configmaps"]);
        narrow["resourceNames"] = json!(["a"]);
        site.grant("{ns}", "narrow", &bob(), &[narrow]).await;
        let watch = "watch=true&timeoutSeconds=1";
        for (method, path, body) in [
            ("GET", format!("{MAPS}/a"), Value::Null),
            ("GET", format!("{MAPS}/b"), Value::Null),
            ("GET", MAPS.to_owned(), Value::Null),
            ("GET", format!("{MAPS}?fieldSelector=metadata.name%3Da"), Value::Null),
            ("GET", format!("{MAPS}?fieldSelector=metadata.name%3D%3Da"), Value::Null),
            ("GET", format!("{MAPS}?fieldSelector=metadata.name%3Db"), Value::Null),
            ("GET", format!("{MAPS}?fieldSelector=metadata.name%21%3Da"), Value::Null),
            (
                "GET",
                format!("{MAPS}?fieldSelector=metadata.namespace%3D{{ns}},metadata.name%3Da"),
                Value::Null,
            ),
            (
                "GET",
                format!("{MAPS}?{watch}&fieldSelector=metadata.name%3Db"),
                Value::Null,
            ),
            ("POST", MAPS.to_owned(), map("a")),
            ("PATCH", format!("{MAPS}/a"), json!({ "data": { "k": "v" } })),
            ("DELETE", format!("{MAPS}?fieldSelector=metadata.name%3Da"), Value::Null),
            ("DELETE", format!("{MAPS}/b"), Value::Null),
            ("DELETE", format!("{MAPS}/a"), Value::Null),
        ] {
            site.step_as(BOB, method, &path, body).await;
        }
    });
}

#[test]
fn subresources_need_separate_rules() {
    contract!(async |site: &super::Site| {
        let deployments = "/apis/apps/v1/namespaces/{ns}/deployments/d";
        let rules = [
            rule(&["get"], "apps", &["deployments", "statefulsets/*"]),
            rule(&["get"], "apps", &["*/scale"]),
            rule(&["create"], "", &["pods/eviction"]),
        ];
        site.grant("{ns}", "parts", &bob(), &rules).await;
        for (method, path) in [
            ("GET", deployments),
            ("GET", "/apis/apps/v1/namespaces/{ns}/deployments/d/status"),
            ("GET", "/apis/apps/v1/namespaces/{ns}/deployments/d/scale"),
            ("GET", "/apis/apps/v1/namespaces/{ns}/replicasets/d/scale"),
            ("GET", "/apis/apps/v1/namespaces/{ns}/replicasets/d"),
            ("GET", "/apis/apps/v1/namespaces/{ns}/statefulsets/d/status"),
            ("POST", "/api/v1/namespaces/{ns}/pods/p/binding"),
            ("POST", "/api/v1/namespaces/{ns}/pods"),
        ] {
            site.step_as(BOB, method, path, Value::Null).await;
        }
    });
}

#[test]
fn a_wildcard_matches_everything() {
    contract!(async |site: &super::Site| {
        let rules = [rule(&["*"], "apps", &["deployments"]), rule(&["get"], "*", &["*"])];
        site.grant("{ns}", "stars", &bob(), &rules).await;
        for (method, path) in [
            ("GET", "/api/v1/namespaces/{ns}/secrets/s"),
            ("GET", "/apis/apps/v1/namespaces/{ns}/deployments/d/scale"),
            ("GET", "/apis/{group}/v1/namespaces/{ns}/widgets/w"),
            ("GET", "/api/v1/namespaces/{ns}/secrets"),
            ("DELETE", "/apis/apps/v1/namespaces/{ns}/deployments/d"),
            ("DELETE", "/apis/apps/v1/namespaces/{ns}/replicasets/d"),
        ] {
            site.step_as(BOB, method, path, Value::Null).await;
        }
    });
}

#[test]
fn groups_and_service_accounts_are_subjects() {
    contract!(async |site: &super::Site| {
        let rules = [rule(&["list"], "", &["configmaps"])];
        site.grant("{ns}", "crew", &json!({ "kind": "Group", "name": "{ns}-crew" }), &rules)
            .await;
        let account = json!({ "kind": "ServiceAccount", "name": "robot", "namespace": "{ns}" });
        site.grant("{ns}", "robots", &account, &rules).await;
        for headers in [
            vec![("impersonate-user", "x"), ("impersonate-group", "{ns}-crew")],
            vec![("impersonate-user", "x"), ("impersonate-group", "{ns}-others")],
            vec![("impersonate-user", "system:serviceaccount:{ns}:robot")],
            vec![("impersonate-user", "system:serviceaccount:{ns}:other")],
            vec![("impersonate-user", "system:serviceaccount:default:robot")],
        ] {
            let who = format!("{headers:?}: ");
            site.brief(&who, "GET", MAPS, &headers, Value::Null).await;
        }
    });
}

#[test]
fn paths_are_allowed_by_prefix() {
    contract!(async |site: &super::Site| {
        let rules = [json!({ "verbs": ["get"], "nonResourceURLs": ["/metrics", "/readyz/*"] })];
        site.grant("", "{ns}", &bob(), &rules).await;
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        for (verb, asked) in [
            ("get", "/metrics"),
            ("get", "/metrics/slis"),
            ("post", "/metrics"),
            ("get", "/readyz/ping"),
            ("get", "/readyz/a/b"),
        ] {
            let spec = json!({ "user": BOB, "nonResourceAttributes": { "verb": verb, "path": asked } });
            let answer = site.quietly("POST", path, &[], json!({ "spec": spec })).await;
            site.note(&format!("{verb} {asked}: {}", answer.body["status"]));
        }
        site.step_as(BOB, "GET", "/readyz/ping", Value::Null).await;
    });
}

#[test]
fn a_missing_role_is_named() {
    contract!(async |site: &super::Site| {
        let binding = json!({
            "metadata": { "name": "b" }, "subjects": [bob()], "roleRef": { "kind": "Role", "name": "none" },
        });
        site.grant("{ns}", "marker", &bob(), &[]).await;
        site.post(BINDINGS, binding).await;
        // A real server processes bindings in order.
        let marker = json!({ "kind": "User", "name": "{ns}-marker" });
        site.grant("{ns}", "other", &marker, &[]).await;
        site.send_as(BOB, "GET", MAPS, Value::Null).await;
    });
}

#[test]
fn a_removed_binding_grants_nothing() {
    contract!(async |site: &super::Site| {
        site.grant("{ns}", "reader", &bob(), &[rule(&["list"], "", &["configmaps"])])
            .await;
        site.step_as(BOB, "GET", MAPS, Value::Null).await;
        site.quietly("DELETE", &format!("{BINDINGS}/reader"), &[], Value::Null)
            .await;
        let asked = json!({ "verb": "list", "resource": "configmaps", "namespace": "{ns}" });
        site.until(&bob(), asked, false).await;
        site.step_as(BOB, "GET", MAPS, Value::Null).await;
    });
}

#[test]
fn masters_need_no_role() {
    contract!(async |site: &super::Site| {
        let headers = [("impersonate-user", BOB), ("impersonate-group", "system:masters")];
        site.brief("a master: ", "GET", MAPS, &headers, Value::Null).await;
        site.brief("a master: ", "POST", MAPS, &headers, map("a")).await;
        site.brief("a master: ", "GET", "/readyz/ping", &headers, Value::Null)
            .await;
    });
}

#[test]
fn authorization_comes_before_any_other_error() {
    contract!(async |site: &super::Site| {
        for (method, path, body) in [
            ("POST", MAPS, json!("{ not json")),
            ("POST", "/api/v1/namespaces/none/configmaps", map("a")),
            ("GET", "/apis/none.example.com/v1/things", Value::Null),
            ("GET", "/api/v1/namespaces/{ns}/things/a/b/c", Value::Null),
            ("GET", "/api/v1/namespaces/{ns}/configmaps?limit=many", Value::Null),
            ("POST", "/api/v1/namespaces/{ns}/configmaps?dryRun=All", map("a")),
            ("OPTIONS", MAPS, Value::Null),
        ] {
            site.step_as(BOB, method, path, body).await;
        }
    });
}

#[test]
fn roles_are_checked() {
    contract!(async |site: &super::Site| {
        let named = |rules: Value| json!({ "metadata": { "name": "r" }, "rules": rules });
        for rules in [
            json!([{ "apiGroups": [""], "resources": ["pods"] }]),
            json!([{ "verbs": ["get"] }]),
            json!([{ "verbs": ["get"], "apiGroups": [""] }]),
            json!([{ "verbs": ["get"], "resources": ["pods"] }]),
            json!([{ "verbs": ["get"], "nonResourceURLs": ["/healthz"] }]),
        ] {
            site.post(ROLES, named(rules)).await;
        }
        let both = json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/a"] }]);
        let mut role = named(both);
        role["metadata"]["name"] = "{ns}".into();
        site.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
        site.post(ROLES, json!({ "metadata": { "name": "empty" } })).await;
    });
}

#[test]
fn bindings_are_checked() {
    contract!(async |site: &super::Site| {
        let reference = json!({ "kind": "Role", "name": "r" });
        let with = |subjects: Value, role: &Value| json!({ "metadata": { "name": "b" }, "subjects": subjects, "roleRef": role });
        for subjects in [
            json!([{ "kind": "ServiceAccount", "name": "" }]),
            json!([{ "kind": "ServiceAccount", "name": "a b", "namespace": "x" }]),
            json!([{ "kind": "ServiceAccount", "name": "a" }]),
            json!([{ "kind": "ServiceAccount", "name": "a", "namespace": "x", "apiGroup": "y" }]),
            json!([{ "kind": "User", "name": "" }]),
            json!([{ "kind": "User", "name": "u", "apiGroup": "y" }]),
            json!([{ "kind": "Robot", "name": "r" }]),
        ] {
            site.post(BINDINGS, with(subjects, &reference)).await;
        }
        for reference in [
            json!({ "kind": "Role", "name": "" }),
            json!({ "kind": "Thing", "name": "r" }),
            json!({ "kind": "Role", "name": "r", "apiGroup": "other" }),
            json!({ "kind": "Role", "name": "a/b" }),
        ] {
            site.post(BINDINGS, with(json!([bob()]), &reference)).await;
        }
        site.post(BINDINGS, with(json!([bob()]), &reference)).await;
        let path = format!("{BINDINGS}/b");
        site.put(&path, with(json!([bob()]), &json!({ "kind": "Role", "name": "other" })))
            .await;
        site.put(&path, with(json!([]), &reference)).await;
        let cluster = json!({ "metadata": { "name": "{ns}" }, "roleRef": { "kind": "Role", "name": "r" } });
        site.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", cluster)
            .await;
    });
}
