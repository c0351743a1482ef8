//! Discovery and OpenAPI.

use serde_json::{Value, json};

use super::contract;
use super::site::{TestResponse, WIDGETS};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[test]
fn the_entries_of_machines_resources() {
    contract!(async |site: &super::Site| {
        for (path, names) in [
            (
                "/api/v1",
                &[
                    "nodes",
                    "nodes/status",
                    "pods",
                    "pods/status",
                    "pods/eviction",
                    "pods/binding",
                    "secrets",
                    "namespaces/finalize",
                    "events",
                ][..],
            ),
            (
                "/apis/apps/v1",
                &["deployments", "deployments/scale", "deployments/status"][..],
            ),
            (
                "/apis/policy/v1",
                &["poddisruptionbudgets", "poddisruptionbudgets/status"][..],
            ),
            ("/apis/coordination.k8s.io/v1", &["leases"][..]),
            (
                "/apis/apiextensions.k8s.io/v1",
                &["customresourcedefinitions", "customresourcedefinitions/status"][..],
            ),
        ] {
            let answer = site.quietly("GET", path, &[], Value::Null).await;
            site.note(&format!(
                "{path}: {} {}",
                answer.body["kind"], answer.body["groupVersion"]
            ));
            for entry in answer.body["resources"].as_array().unwrap() {
                if names.iter().any(|name| entry["name"] == *name) {
                    site.note(&entry.to_string());
                }
            }
        }
    });
}

#[test]
fn a_group_names_its_versions() {
    contract!(async |site: &super::Site| {
        site.get("/apis/apps").await;
        site.get("/apis/policy").await;
        let answer = site.quietly("GET", "/api", &[], Value::Null).await;
        site.note(&format!("{} {}", answer.body["kind"], answer.body["versions"]));
    });
}

/// Repeats a request with the tag of the previous response until the document is unchanged: other cases define
/// resources.
async fn request_until_unchanged(site: &super::Site, path: &str, mut tag: String) -> TestResponse {
    for _ in 0..600 {
        let headers = [("accept", AGGREGATED), ("if-none-match", tag.as_str())];
        let again = site.quietly("GET", path, &headers, Value::Null).await;
        if again.code != 200 {
            return again;
        }
        again.headers["etag"].to_str().unwrap().clone_into(&mut tag);
    }
    panic!("{path} changes on every request");
}

#[test]
fn aggregated_discovery_has_a_tag() {
    contract!(async |site: &super::Site| {
        for path in ["/api", "/apis"] {
            let answer = site.quietly("GET", path, &[("accept", AGGREGATED)], Value::Null).await;
            let header = |name: &str| answer.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            site.note(&format!(
                "{} {:?} {:?}",
                answer.code,
                header("content-type"),
                header("vary")
            ));
            let again = request_until_unchanged(site, path, header("etag").unwrap()).await;
            site.note(&format!("{} {:?}", again.code, again.body));
            let pods = answer.body["items"][0]["versions"][0]["resources"].as_array().unwrap();
            for entry in pods.iter().filter(|entry| entry["resource"] == "configmaps") {
                site.note(&entry.to_string());
            }
        }
    });
}

#[test]
fn a_definition_is_discovered() {
    contract!(async |site: &super::Site| {
        site.define(super::definitions::version(json!({ "type": "object" })))
            .await;
        site.get("/apis/{group}").await;
        site.get("/apis/{group}/v1").await;
        site.delete(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}",
            Value::Null,
        )
        .await;
        site.note(WIDGETS);
    });
}

#[test]
fn openapi_names_the_described_kinds() {
    contract!(async |site: &super::Site| {
        let index = site.quietly("GET", "/openapi/v3", &[], Value::Null).await;
        for path in ["api/v1", "apis/apps/v1", "apis/policy/v1"] {
            let url = index.body["paths"][path]["serverRelativeURL"].as_str().unwrap();
            site.note(url.split("hash=").next().unwrap());
            let document = site.quietly("GET", url, &[], Value::Null).await;
            site.note(&format!("{} {:?}", document.code, document.body["openapi"]));
        }
        let index = site.quietly("GET", "/openapi/v3/api/v1", &[], Value::Null).await;
        let schema = &index.body["components"]["schemas"]["io.k8s.api.core.v1.ConfigMap"];
        site.note(&schema["x-kubernetes-group-version-kind"].to_string());
        site.note(&schema["properties"]["data"]["additionalProperties"]["type"].to_string());
        let patch = &index.body["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
        site.note(&patch["x-kubernetes-group-version-kind"].to_string());
    });
}
