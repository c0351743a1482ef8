//! Group versions that another API server serves.

use std::time::Duration;

use serde_json::{Value, json};

use super::contract_with_network;
use super::extension::Extension;
use super::site::{Site, with};

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const NAME: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.{group}";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const THING: &str = "/apis/{group}/v1/namespaces/x/things/y";
/// How often a case asks for a condition.
const ATTEMPTS: u32 = 1200;

/// A service that is at a host, and an APIService that names it.
async fn register(site: &Site, extension: &Extension, spec: Value) {
    let service = json!({
        "metadata": { "name": "{ns}", "labels": { "case": "{ns}" } },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    });
    assert_eq!(site.quietly("POST", SERVICES, &[], service).await.code, 201);
    let mut api_service = json!({
        "metadata": { "name": "v1.{group}", "labels": { "case": "{ns}" } },
        "spec": {
            "group": "{group}", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": { "namespace": "default", "name": "{ns}", "port": extension.port },
        },
    });
    api_service["spec"] = with(&api_service["spec"], spec);
    let created = site.quietly("POST", API_SERVICES, &[], api_service).await;
    assert_eq!(created.code, 201, "{:#}", created.body);
}

/// Waits until the condition Available has the reason, and records its message.
async fn available(site: &Site, extension: &Extension, reason: &str) {
    for attempt in 0.. {
        let found = site.quietly("GET", NAME, &[], Value::Null).await.body;
        let condition = &found["status"]["conditions"][0];
        if condition["reason"] == reason {
            let message = condition["message"].as_str().unwrap();
            let message = message.replace(&extension.port.to_string(), "PORT");
            site.note(&format!(
                "{}: {reason}: {message}",
                condition["status"].as_str().unwrap()
            ));
            return;
        }
        assert!(attempt < ATTEMPTS, "{found:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a path has a code: a real server notices changes of conditions later.
async fn answers(site: &Site, path: &str, code: u16) {
    for attempt in 0.. {
        let found = site.quietly("GET", path, &[], Value::Null).await;
        if found.code == code {
            return;
        }
        assert!(attempt < ATTEMPTS, "{found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn end(site: &Site) {
    site.quietly("DELETE", NAME, &[], Value::Null).await;
    site.quietly("DELETE", &format!("{SERVICES}/{{ns}}"), &[], Value::Null)
        .await;
}

/// Sends a request as a user with all permissions.
async fn send(site: &Site, method: &str, path: &str, headers: &[(&str, &str)], body: Value) {
    let user = [("impersonate-user", "alice"), ("impersonate-group", "system:masters")];
    let headers: Vec<(&str, &str)> = user.iter().chain(headers).copied().collect();
    site.send(method, path, &headers, body).await;
}

#[test]
fn requests_for_a_group_version_of_another_server_are_forwarded() {
    contract_with_network!(async |site: &Site| {
        let extension = Extension::start().await;
        register(site, &extension, json!({ "insecureSkipTLSVerify": true })).await;
        available(site, &extension, "Passed").await;
        answers(site, "/apis/{group}/v1", 200).await;
        site.send("GET", "/apis/{group}/v1", &[], Value::Null).await;
        let accept = [(
            "accept",
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        )];
        send(site, "GET", &format!("{THING}?a=b&c=%2F"), &accept, Value::Null).await;
        let impersonated = [
            ("impersonate-uid", "u"),
            ("impersonate-extra-example.com%2fscopes", "one"),
            ("x-remote-user", "mallory"),
        ];
        send(site, "GET", THING, &impersonated, Value::Null).await;
        send(
            site,
            "POST",
            "/apis/{group}/v1/namespaces/x/things",
            &[],
            json!({ "spec": { "size": 1 } }),
        )
        .await;
        let patch = [("content-type", "application/merge-patch+json")];
        send(site, "PATCH", THING, &patch, json!({ "spec": null })).await;
        send(site, "GET", &format!("{THING}/some/longer/path"), &[], Value::Null).await;
        send(site, "DELETE", &format!("{THING}/teapot"), &[], Value::Null).await;
        site.note("without permission");
        let refused = site
            .quietly("GET", THING, &[("impersonate-user", "bob")], Value::Null)
            .await;
        site.note(&format!(
            "{} {}",
            refused.code,
            refused.body["message"].as_str().unwrap()
        ));
        end(site).await;
    });
}

#[test]
fn discovery_contains_the_group_version_of_another_server() {
    contract_with_network!(async |site: &Site| {
        let extension = Extension::start().await;
        register(site, &extension, json!({ "caBundle": extension.authority })).await;
        available(site, &extension, "Passed").await;
        answers(site, "/apis/{group}", 200).await;
        site.send("GET", "/apis/{group}", &[], Value::Null).await;
        let aggregated = [(
            "accept",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        )];
        for attempt in 0.. {
            let found = site.quietly("GET", "/apis", &aggregated, Value::Null).await.body;
            let own = found["items"]
                .as_array()
                .unwrap()
                .iter()
                .find(|item| item["versions"][0]["resources"][0]["resource"] == "things");
            if let Some(own) = own {
                site.note(&serde_json::to_string_pretty(&own["versions"]).unwrap());
                break;
            }
            assert!(attempt < ATTEMPTS, "{found:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        end(site).await;
        answers(site, "/apis/{group}", 404).await;
        site.send("GET", "/apis/{group}/v1", &[], Value::Null).await;
    });
}

#[test]
fn an_unavailable_server_is_reported() {
    contract_with_network!(async |site: &Site| {
        let extension = Extension::start().await;
        register(site, &extension, json!({ "insecureSkipTLSVerify": true })).await;
        available(site, &extension, "Passed").await;
        answers(site, THING, 200).await;
        let patch = [("content-type", "application/merge-patch+json")];
        let point_to = async |service: Value| {
            let change = json!({ "spec": { "service": service } });
            assert_eq!(site.quietly("PATCH", NAME, &patch, change).await.code, 200);
        };
        point_to(json!({ "name": "{ns}-none" })).await;
        available(site, &extension, "ServiceNotFound").await;
        answers(site, THING, 503).await;
        site.send("GET", THING, &[], Value::Null).await;
        site.send("GET", "/apis/{group}", &[], Value::Null).await;
        let cluster_ip = |ports: Value| json!({ "metadata": { "name": "{ns}-ports", "labels": { "case": "{ns}" } }, "spec": { "ports": ports } });
        let service = cluster_ip(json!([{ "name": "https", "port": 443 }, { "name": "other", "port": 444 }]));
        assert_eq!(site.quietly("POST", SERVICES, &[], service).await.code, 201);
        point_to(json!({ "name": "{ns}-ports", "port": 445 })).await;
        available(site, &extension, "ServicePortError").await;
        point_to(json!({ "port": 443 })).await;
        available(site, &extension, "EndpointsNotFound").await;
        let slice = json!({
            "metadata": { "name": "{ns}-ports", "labels": { "kubernetes.io/service-name": "{ns}-ports" } },
            "addressType": "IPv4", "ports": [{ "name": "other", "port": 444 }],
            "endpoints": [{ "addresses": ["10.1.0.1"] }],
        });
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        assert_eq!(site.quietly("POST", slices, &[], slice).await.code, 201);
        available(site, &extension, "MissingEndpoints").await;
        site.note("a local API service");
        assert_eq!(
            site.quietly(
                "PATCH",
                NAME,
                &patch,
                json!({ "spec": { "service": null, "insecureSkipTLSVerify": null } })
            )
            .await
            .code,
            200
        );
        available(site, &extension, "Local").await;
        site.quietly("DELETE", &format!("{slices}/{{ns}}-ports"), &[], Value::Null)
            .await;
        site.quietly("DELETE", &format!("{SERVICES}/{{ns}}-ports"), &[], Value::Null)
            .await;
        end(site).await;
    });
}

#[test]
fn a_server_that_stops_is_not_reached() {
    contract_with_network!(async |site: &Site| {
        let extension = Extension::start().await;
        register(site, &extension, json!({ "insecureSkipTLSVerify": true })).await;
        available(site, &extension, "Passed").await;
        answers(site, THING, 200).await;
        let port = extension.port.to_string();
        drop(extension);
        // Until the next check the server counts as available.
        let found = site.quietly("GET", THING, &[], Value::Null).await;
        site.note(&format!(
            "{} {}",
            found.code,
            found.body.as_str().unwrap_or_default().replace(&port, "PORT")
        ));
        end(site).await;
    });
}
