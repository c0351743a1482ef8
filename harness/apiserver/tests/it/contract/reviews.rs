//! Reviews of identities and permissions, and health.

use serde_json::{Value, json};

use super::contract;

#[test]
fn self_subject_access_reviews() {
    contract!(async |site: &super::Site| {
        let spec = json!({ "resourceAttributes": { "namespace": "{ns}", "verb": "get", "resource": "pods" } });
        let review =
            json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec });
        let answer = site
            .quietly(
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                &[],
                review,
            )
            .await;
        site.note(&format!(
            "{} {} {}",
            answer.code, answer.body["status"]["allowed"], answer.body["spec"]
        ));
        site.post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json!({ "spec": {} }),
        )
        .await;
        site.get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").await;
    });
}

#[test]
fn self_subject_reviews() {
    contract!(async |site: &super::Site| {
        let answer = site
            .quietly(
                "POST",
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                &[],
                json!({}),
            )
            .await;
        let user = &answer.body["status"]["userInfo"];
        site.note(&format!(
            "{} {} named: {}",
            answer.code,
            answer.body["kind"],
            user["username"].is_string()
        ));
        let groups = user["groups"].as_array().unwrap();
        site.note(&format!(
            "authenticated: {}",
            groups.contains(&json!("system:authenticated"))
        ));
    });
}

#[test]
fn health_endpoints() {
    contract!(async |site: &super::Site| {
        for path in ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/nope"] {
            site.get(path).await;
        }
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = site
                .quietly("GET", &format!("{path}?verbose"), &[], serde_json::Value::Null)
                .await;
            let text = answer.body.as_str().unwrap_or_default();
            site.note(&format!(
                "{path}: {:?} ... {:?}",
                text.lines().next(),
                text.lines().last()
            ));
        }
    });
}

const SUBJECT: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const LOCAL: &str = "/apis/authorization.k8s.io/v1/namespaces/{ns}/localsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({ "verbs": verbs, "apiGroups": [""], "resources": resources })
}

#[test]
fn subject_access_reviews() {
    contract!(async |site: &super::Site| {
        let bob = json!({ "kind": "User", "name": "{ns}-bob" });
        let crew = json!({ "kind": "Group", "name": "{ns}-crew" });
        let robot = json!({ "kind": "ServiceAccount", "name": "robot", "namespace": "{ns}" });
        site.grant("{ns}", "reader", &bob, &[rule(&["get"], &["configmaps"])])
            .await;
        site.grant("", "{ns}", &crew, &[rule(&["list"], &["nodes"])]).await;
        site.grant("{ns}", "robots", &robot, &[rule(&["*"], &["pods/eviction"])])
            .await;
        let get = json!({ "namespace": "{ns}", "verb": "get", "resource": "configmaps", "name": "a" });
        let nodes = json!({ "verb": "list", "resource": "nodes" });
        let evict = json!({ "namespace": "{ns}", "verb": "create", "resource": "pods", "subresource": "eviction" });
        let path = |path: &str| json!({ "verb": "get", "path": path });
        for spec in [
            json!({ "user": "{ns}-bob", "resourceAttributes": get }),
            json!({ "user": "{ns}-bob", "resourceAttributes": nodes }),
            json!({ "user": "x", "groups": ["{ns}-crew"], "resourceAttributes": nodes }),
            json!({ "groups": ["{ns}-crew"], "resourceAttributes": nodes }),
            json!({ "user": "system:serviceaccount:{ns}:robot", "resourceAttributes": evict }),
            json!({ "user": "x", "groups": ["system:masters"], "resourceAttributes": nodes }),
            json!({ "user": "x", "groups": ["system:authenticated"], "nonResourceAttributes": path("/api") }),
            json!({ "user": "x", "nonResourceAttributes": path("/metrics") }),
            json!({ "user": "x", "uid": "7", "extra": { "a": ["b"] }, "resourceAttributes": {} }),
        ] {
            site.post(SUBJECT, json!({ "spec": spec })).await;
        }
    });
}

#[test]
fn a_review_needs_one_action_and_a_subject() {
    contract!(async |site: &super::Site| {
        let nodes = json!({ "verb": "list", "resource": "nodes" });
        let path = json!({ "verb": "get", "path": "/" });
        for spec in [
            json!({ "resourceAttributes": nodes }),
            json!({ "user": "x" }),
            json!({ "user": "x", "resourceAttributes": nodes, "nonResourceAttributes": path }),
        ] {
            site.post(SUBJECT, json!({ "spec": spec })).await;
        }
        site.post(SUBJECT, json!({ "kind": "Pod", "apiVersion": "v1" })).await;
        site.get(SUBJECT).await;
    });
}

#[test]
fn a_local_review_must_match_its_namespace() {
    contract!(async |site: &super::Site| {
        let asked = |namespace: &str| {
            let attributes = json!({ "namespace": namespace, "verb": "get", "resource": "pods" });
            json!({ "user": "x", "resourceAttributes": attributes })
        };
        site.post(LOCAL, json!({ "spec": asked("{ns}") })).await;
        site.post(
            LOCAL,
            json!({ "metadata": { "namespace": "{ns}" }, "spec": asked("{ns}") }),
        )
        .await;
        site.post(
            LOCAL,
            json!({ "metadata": { "namespace": "{ns}" }, "spec": asked("other") }),
        )
        .await;
        let path = json!({ "verb": "get", "path": "/" });
        site.post(
            LOCAL,
            json!({ "metadata": { "namespace": "{ns}" }, "spec": { "user": "x", "nonResourceAttributes": path } }),
        )
        .await;
        site.post("/apis/authorization.k8s.io/v1/localsubjectaccessreviews", json!({}))
            .await;
    });
}

#[test]
fn self_subject_rules_reviews() {
    contract!(async |site: &super::Site| {
        let bob = json!({ "kind": "User", "name": "{ns}-bob" });
        let mut named = rule(&["get", "list"], &["configmaps", "pods/status"]);
        named["resourceNames"] = json!(["a"]);
        site.grant("{ns}", "reader", &bob, &[named]).await;
        for namespace in ["{ns}", "default"] {
            let body = json!({ "spec": { "namespace": namespace } });
            let answer = site
                .quietly("POST", RULES, &[("impersonate-user", "{ns}-bob")], body)
                .await;
            let mut status = answer.body["status"].clone();
            // A real server visits bindings in no fixed order.
            for rules in ["resourceRules", "nonResourceRules"] {
                let rules = status[rules].as_array_mut().unwrap();
                rules.sort_by_key(Value::to_string);
            }
            site.note(&format!(
                "in {namespace}: {} {} {status:#}",
                answer.code, answer.body["spec"]
            ));
        }
        site.send_as("{ns}-bob", "POST", RULES, json!({ "spec": {} })).await;
    });
}

#[test]
fn reviews_of_other_users_need_permission() {
    contract!(async |site: &super::Site| {
        let spec = json!({ "user": "x", "resourceAttributes": { "verb": "list", "resource": "nodes" } });
        for path in [SUBJECT, LOCAL, "/apis/authentication.k8s.io/v1/tokenreviews"] {
            site.step_as("{ns}-bob", "POST", path, json!({ "spec": spec })).await;
        }
        let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let spec = json!({ "resourceAttributes": { "verb": "list", "resource": "nodes" } });
        site.send_as("{ns}-bob", "POST", own, json!({ "spec": spec })).await;
        let spec = json!({ "nonResourceAttributes": { "verb": "get", "path": "/api" } });
        site.send_as("{ns}-bob", "POST", own, json!({ "spec": spec })).await;
    });
}
