//! Questions about oneself, and health.

use serde_json::json;

use super::contract;

#[test]
fn may_i() {
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
fn who_am_i() {
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
fn health_is_told() {
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
