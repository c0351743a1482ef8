//! Tokens of service accounts.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::contract;

const ACCOUNTS: &str = "/api/v1/namespaces/{ns}/serviceaccounts";
const TOKEN: &str = "/api/v1/namespaces/{ns}/serviceaccounts/robot/token";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

async fn robot(site: &super::Site) {
    let created = site
        .quietly("POST", ACCOUNTS, &[], json!({ "metadata": { "name": "robot" } }))
        .await;
    assert_eq!(created.code, 201, "{}", created.body);
}

async fn pod(site: &super::Site, name: &str, account: &str) -> Value {
    let spec = json!({ "serviceAccountName": account, "containers": [{ "name": "c", "image": "i" }] });
    let pod = json!({ "metadata": { "name": name }, "spec": spec });
    let created = site.quietly("POST", "/api/v1/namespaces/{ns}/pods", &[], pod).await;
    assert_eq!(created.code, 201, "{}", created.body);
    created.body["metadata"]["uid"].clone()
}

async fn token(site: &super::Site, spec: Value) -> String {
    let answer = site.quietly("POST", TOKEN, &[], json!({ "spec": spec })).await;
    answer.body["status"]["token"].as_str().unwrap().to_owned()
}

/// The claims of a token, with times in seconds since its start.
fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
    let start = claims["iat"].as_i64().unwrap();
    for pointer in ["/exp", "/nbf", "/iat", "/kubernetes.io/warnafter"] {
        if let Some(time) = claims.pointer_mut(pointer) {
            *time = (time.as_i64().unwrap() - start).into();
        }
    }
    claims
}

#[test]
fn a_token_is_issued() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        let answer = site.post(TOKEN, json!({})).await;
        let claims = claims(answer.body["status"]["token"].as_str().unwrap());
        site.note(&format!("claims {claims:#}"));
    });
}

#[test]
fn a_token_has_the_requested_audiences_and_lifetime() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        let spec = json!({ "audiences": ["one", "two"], "expirationSeconds": 600 });
        let answer = site.post(TOKEN, json!({ "spec": spec })).await;
        let claims = claims(answer.body["status"]["token"].as_str().unwrap());
        site.note(&format!("claims {claims:#}"));
    });
}

#[test]
fn a_token_has_a_minimum_and_a_maximum_lifetime() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        for seconds in [-1_i64, 0, 599, 4_294_967_297] {
            site.post(TOKEN, json!({ "spec": { "expirationSeconds": seconds } }))
                .await;
        }
    });
}

#[test]
fn a_token_request_must_match_its_path() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        site.post(&format!("{ACCOUNTS}/none/token"), json!({})).await;
        site.post(TOKEN, json!({ "metadata": { "name": "other" } })).await;
        site.post(TOKEN, json!({ "metadata": { "namespace": "other" } })).await;
        site.post(TOKEN, json!({ "kind": "Pod", "apiVersion": "v1" })).await;
        site.get(TOKEN).await;
    });
}

#[test]
fn a_token_is_bound_to_a_pod() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        let uid = pod(site, "p", "robot").await;
        let reference = |name: &str, uid: Value| json!({ "kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid });
        let answer = site
            .post(TOKEN, json!({ "spec": { "boundObjectRef": reference("p", uid) } }))
            .await;
        let claims = claims(answer.body["status"]["token"].as_str().unwrap());
        site.note(&format!("claims {claims:#}"));
        site.post(
            TOKEN,
            json!({ "spec": { "boundObjectRef": reference("p", "other".into()) } }),
        )
        .await;
        site.post(
            TOKEN,
            json!({ "spec": { "boundObjectRef": reference("none", Value::Null) } }),
        )
        .await;
        pod(site, "q", "default").await;
        site.post(
            TOKEN,
            json!({ "spec": { "boundObjectRef": reference("q", Value::Null) } }),
        )
        .await;
    });
}

#[test]
fn a_kubelets_token_for_a_pod_has_an_extended_lifetime() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        pod(site, "p", "robot").await;
        let node = json!({ "metadata": { "name": "{ns}" } });
        site.quietly("POST", "/api/v1/nodes", &[], node).await;
        let binding = json!({ "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "{ns}" } });
        site.step("POST", "/api/v1/namespaces/{ns}/pods/p/binding", binding)
            .await;
        let reference = json!({ "kind": "Pod", "apiVersion": "v1", "name": "p" });
        let spec = json!({ "expirationSeconds": 3607, "boundObjectRef": reference });
        site.note(&format!("claims {:#}", claims(&token(site, spec).await)));
    });
}

#[test]
fn a_token_is_bound_to_a_secret_or_a_node() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        site.step(
            "POST",
            "/api/v1/namespaces/{ns}/secrets",
            json!({ "metadata": { "name": "s" } }),
        )
        .await;
        let node = json!({ "metadata": { "name": "{ns}" } });
        site.quietly("POST", "/api/v1/nodes", &[], node).await;
        for (kind, name) in [("Secret", "s"), ("Node", "{ns}"), ("Node", "none"), ("ConfigMap", "s")] {
            let reference = json!({ "kind": kind, "apiVersion": "v1", "name": name });
            let answer = site
                .post(TOKEN, json!({ "spec": { "boundObjectRef": reference } }))
                .await;
            if let Some(token) = answer.body["status"]["token"].as_str() {
                site.note(&format!("claims {:#}", claims(token)));
            }
        }
    });
}

#[test]
fn issuing_tokens_needs_permission() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        let bob = json!({ "kind": "User", "name": "{ns}-bob" });
        site.send_as("{ns}-bob", "POST", TOKEN, json!({})).await;
        let rule = json!({ "verbs": ["create"], "apiGroups": [""], "resources": ["serviceaccounts/token"] });
        site.grant("{ns}", "issuer", &bob, &[rule]).await;
        site.step_as("{ns}-bob", "POST", TOKEN, json!({})).await;
        site.step_as("{ns}-bob", "POST", ACCOUNTS, json!({ "metadata": { "name": "a" } }))
            .await;
    });
}

#[test]
fn a_request_with_a_token_has_the_identity_of_the_account() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        let bearer = format!("Bearer {}", token(site, json!({})).await);
        let headers = [("authorization", bearer.as_str())];
        let myself = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        site.send("POST", myself, &headers, json!({})).await;
        site.send("GET", "/api/v1/namespaces/{ns}/configmaps", &headers, Value::Null)
            .await;
        let account = json!({ "kind": "ServiceAccount", "name": "robot", "namespace": "{ns}" });
        let rule = json!({ "verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"] });
        site.grant("{ns}", "reader", &account, &[rule]).await;
        site.brief(
            "robot: ",
            "GET",
            "/api/v1/namespaces/{ns}/configmaps",
            &headers,
            Value::Null,
        )
        .await;
    });
}

#[test]
fn a_token_for_other_audiences_is_rejected() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        let bearer = format!("Bearer {}", token(site, json!({ "audiences": ["other"] })).await);
        let headers = [("authorization", bearer.as_str())];
        site.send("GET", "/healthz", &headers, Value::Null).await;
        let cut = &bearer[..bearer.len() - 10];
        site.send("GET", "/healthz", &[("authorization", cut)], Value::Null)
            .await;
    });
}

#[test]
fn a_token_review_returns_the_identity() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        pod(site, "p", "robot").await;
        let reference = json!({ "kind": "Pod", "apiVersion": "v1", "name": "p" });
        let token = token(site, json!({ "boundObjectRef": reference })).await;
        site.post(REVIEWS, json!({ "spec": { "token": token } })).await;
        site.post(REVIEWS, json!({ "spec": { "token": token, "audiences": ["other"] } }))
            .await;
        let both = json!(["other", "https://kubernetes.default.svc"]);
        site.post(REVIEWS, json!({ "spec": { "token": token, "audiences": both } }))
            .await;
        site.post(REVIEWS, json!({ "spec": { "token": "nonsense" } })).await;
        site.post(REVIEWS, json!({ "spec": {} })).await;
    });
}

#[test]
fn a_service_account_token_secret_is_stored() {
    contract!(async |site: &super::Site| {
        robot(site).await;
        let secrets = "/api/v1/namespaces/{ns}/secrets";
        let secret = |account: &str| {
            json!({
                "metadata": { "name": "s", "annotations": { "kubernetes.io/service-account.name": account } },
                "type": "kubernetes.io/service-account-token",
            })
        };
        site.post(secrets, secret("robot")).await;
        let mut unnamed = secret("robot");
        unnamed["metadata"] = json!({ "name": "t" });
        site.post(secrets, unnamed).await;
    });
}
