//! Invalid requests: paths, verbs, media types, bodies.

use serde_json::{Value, json};

use super::contract;

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

#[test]
fn unknown_paths_are_not_found() {
    contract!(async |site: &super::Site| {
        for path in [
            "/nope",
            "/api/v2",
            "/api/v1/nopes",
            "/apis/nope",
            "/apis/nope/v1",
            "/apis/apps/v9/deployments",
            "/api/v1/namespaces/{ns}/nodes",
            "/api/v1/pods/p",
            "/api/v1/namespaces/{ns}/configmaps/a/status",
            "/api/v1/namespaces/{ns}/pods/p/nope",
        ] {
            site.get(path).await;
        }
    });
}

#[test]
fn unsupported_verbs_are_rejected() {
    contract!(async |site: &super::Site| {
        site.post(&format!("{MAPS}/a"), json!({})).await;
        site.put(MAPS, json!({})).await;
        site.merge(MAPS, json!({})).await;
        site.post("/api/v1/configmaps", json!({ "metadata": { "name": "a" } }))
            .await;
        site.delete("/api/v1/configmaps", Value::Null).await;
        site.delete("/api/v1/namespaces", Value::Null).await;
        site.get("/api/v1/namespaces/{ns}/pods/p/binding").await;
    });
}

#[test]
fn invalid_bodies_are_rejected() {
    contract!(async |site: &super::Site| {
        for body in [
            "{",
            "[]",
            "5",
            "{\"metadata\":5}",
            "{\"metadata\":{\"name\":5}}",
            "{\"data\":[]}",
            "{\"metadata\":{\"labels\":{\"a\":1}}}",
        ] {
            let answer = site.quietly("POST", MAPS, &[], body.into()).await;
            site.note(&format!("{body}: {} {}", answer.code, answer.body["reason"]));
        }
        site.post(MAPS, Value::Null).await;
    });
}

#[test]
fn media_types_are_negotiated() {
    contract!(async |site: &super::Site| {
        let answer = site
            .quietly("POST", MAPS, &[("content-type", "text/plain")], json!({}))
            .await;
        site.note(&format!("{} {}", answer.code, answer.body["reason"]));
        let yaml = "metadata:\n  name: y\ndata:\n  k: v\n";
        site.send("POST", MAPS, &[("content-type", "application/yaml")], yaml.into())
            .await;
        for accept in [
            "image/png",
            "*/*",
            "application/*",
            "application/json;q=0.5, text/html",
            "application/vnd.kubernetes.protobuf, application/json",
        ] {
            let answer = site.quietly("GET", MAPS, &[("accept", accept)], Value::Null).await;
            site.note(&format!("{accept}: {}", answer.code));
        }
    });
}

#[test]
fn a_body_above_the_size_limit_is_rejected() {
    contract!(async |site: &super::Site| {
        let body = json!({ "metadata": { "name": "a" }, "data": { "k": "x".repeat(3 * 1024 * 1024 + 1) } });
        let answer = site.quietly("POST", MAPS, &[], body).await;
        site.note(&format!("{} {}", answer.code, answer.body));
    });
}

#[test]
fn names_in_paths_cannot_escape() {
    contract!(async |site: &super::Site| {
        for name in ["..", "%2e%2e", "a%2Fb", "a%00b", "%ff", "a%20b", "."] {
            let answer = site.quietly("GET", &format!("{MAPS}/{name}"), &[], Value::Null).await;
            site.note(&format!(
                "{name}: {}",
                if answer.code < 400 { "an object" } else { "refused" }
            ));
        }
    });
}

#[test]
fn invalid_query_parameters_are_rejected_or_ignored() {
    contract!(async |site: &super::Site| {
        for query in [
            "a=%zz",
            "&&&=",
            "limit=99999999999999999999",
            "watch=maybe&timeoutSeconds=1",
            "limit",
            "pretty=x",
            "unknown=1",
        ] {
            let answer = site
                .quietly("GET", &format!("{MAPS}?labelSelector=x&{query}"), &[], Value::Null)
                .await;
            site.note(&format!("{query}: {}", answer.code));
        }
    });
}
