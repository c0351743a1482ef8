//! Impersonation.

use serde_json::{Value, json};

use super::contract;

const MYSELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

fn account() -> Value {
    json!({ "kind": "ServiceAccount", "name": "proxy", "namespace": "{ns}" })
}

/// A header with the token of a new service account.
async fn proxy(site: &super::Site) -> String {
    let accounts = "/api/v1/namespaces/{ns}/serviceaccounts";
    let created = site
        .quietly("POST", accounts, &[], json!({ "metadata": { "name": "proxy" } }))
        .await;
    assert_eq!(created.code, 201, "{}", created.body);
    let token = site
        .quietly("POST", &format!("{accounts}/proxy/token"), &[], json!({}))
        .await;
    format!("Bearer {}", token.body["status"]["token"].as_str().unwrap())
}

/// Tries several identities, first those that are expected to be forbidden: a real server remembers which permission
/// last allowed the caller and names it in errors.
async fn try_all(site: &super::Site, token: &str, allowed: &[usize]) {
    let all = [
        vec![("impersonate-user", "{ns}-bob")],
        vec![("impersonate-user", "{ns}-eve")],
        vec![("impersonate-user", "{ns}-bob"), ("impersonate-group", "{ns}-crew")],
        vec![("impersonate-user", "{ns}-bob"), ("impersonate-group", "{ns}-others")],
        vec![("impersonate-user", "{ns}-bob"), ("impersonate-uid", "7")],
        vec![
            ("impersonate-user", "{ns}-bob"),
            ("impersonate-extra-some%2fthing", "v"),
        ],
        vec![("impersonate-user", "system:serviceaccount:{ns}:robot")],
        vec![("impersonate-user", "system:serviceaccount:default:robot")],
        vec![("impersonate-user", "system:node:n")],
    ];
    let mut all: Vec<_> = all.into_iter().enumerate().collect();
    all.sort_by_key(|(number, _)| allowed.contains(number));
    for (_, mut headers) in all {
        let who = format!("{headers:?}: ");
        headers.push(("authorization", token));
        site.brief(&who, "GET", MAPS, &headers, Value::Null).await;
    }
}

#[test]
fn an_impersonated_request_has_the_other_identity() {
    contract!(async |site: &super::Site| {
        for headers in [
            vec![("impersonate-user", "bob")],
            vec![
                ("impersonate-user", "bob"),
                ("impersonate-group", "one"),
                ("impersonate-group", "two"),
                ("impersonate-uid", "7"),
                ("impersonate-extra-some%2fThing", "a"),
                ("impersonate-extra-some%2fthing", "b"),
                ("impersonate-extra-other", "c"),
            ],
            vec![("impersonate-user", "system:serviceaccount:a:b")],
            vec![
                ("impersonate-user", "system:serviceaccount:a:b"),
                ("impersonate-group", "one"),
            ],
            vec![("impersonate-user", "system:serviceaccount:a")],
            vec![("impersonate-user", "system:anonymous")],
            vec![
                ("impersonate-user", "bob"),
                ("impersonate-group", "system:authenticated"),
            ],
        ] {
            site.note(&format!("{headers:?}"));
            site.send("POST", MYSELF, &headers, json!({})).await;
        }
    });
}

#[test]
fn impersonation_needs_a_user() {
    contract!(async |site: &super::Site| {
        for headers in [
            vec![("impersonate-group", "one"), ("impersonate-group", "two")],
            vec![("impersonate-uid", "7")],
            vec![("impersonate-extra-a", "b")],
            vec![("impersonate-user", "")],
        ] {
            let who = format!("{headers:?}: ");
            site.brief(&who, "GET", MAPS, &headers, Value::Null).await;
        }
    });
}

#[test]
fn impersonation_needs_permission() {
    contract!(async |site: &super::Site| {
        let token = proxy(site).await;
        try_all(site, &token, &[]).await;
        let headers = [("authorization", token.as_str()), ("impersonate-user", "bob")];
        site.brief("bob, ", "GET", "/metrics", &headers, Value::Null).await;
        site.send("DELETE", MAPS, &headers, Value::Null).await;
    });
}

#[test]
fn each_part_of_an_identity_needs_permission() {
    contract!(async |site: &super::Site| {
        let token = proxy(site).await;
        let part = |group: &str, resource: &str, name: &str| json!({ "verbs": ["impersonate"], "apiGroups": [group], "resources": [resource], "resourceNames": [name] });
        let rules = [
            part("", "users", "{ns}-bob"),
            part("", "groups", "{ns}-crew"),
            part("", "serviceaccounts", "robot"),
            part("authentication.k8s.io", "uids", "8"),
            part("authentication.k8s.io", "userextras/some/thing", "v"),
        ];
        site.grant("", "{ns}", &account(), &rules).await;
        try_all(site, &token, &[0, 2, 5, 6, 7]).await;
    });
}

#[test]
fn impersonating_a_service_account_needs_permission_in_its_namespace() {
    contract!(async |site: &super::Site| {
        let token = proxy(site).await;
        let rule = json!({ "verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"] });
        site.grant("{ns}", "speaker", &account(), &[rule]).await;
        try_all(site, &token, &[6]).await;
    });
}

#[test]
fn constrained_impersonation_needs_permission_for_the_action() {
    contract!(async |site: &super::Site| {
        let token = proxy(site).await;
        let who = json!({
            "verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"],
            "resources": ["users", "groups"], "resourceNames": ["{ns}-bob", "{ns}-crew"],
        });
        let robot = json!({
            "verbs": ["impersonate:serviceaccount"], "apiGroups": ["authentication.k8s.io"],
            "resources": ["serviceaccounts"], "resourceNames": ["robot"],
        });
        let what = json!({
            "verbs": ["impersonate-on:user-info:list", "impersonate-on:serviceaccount:list"], "apiGroups": [""],
            "resources": ["configmaps"],
        });
        site.grant("", "{ns}", &account(), &[who, robot, what]).await;
        let headers = [("authorization", token.as_str()), ("impersonate-user", "{ns}-bob")];
        site.brief("{ns}-bob, ", "DELETE", MAPS, &headers, Value::Null).await;
        try_all(site, &token, &[0, 2, 6]).await;
    });
}
