//! Checks of `spec.conversion`.

use serde_json::{Value, json};

use super::super::contract;
use super::super::site::{Site, widgets, with};
use super::{DEFINITION, DEFINITIONS, address, host_and_port};

fn definition(conversion: Value) -> Value {
    widgets(json!({ "versions": [host_and_port(true), address(false)], "conversion": conversion }))
}

fn webhook(change: Value) -> Value {
    let client = json!({ "url": "https://example.com/convert" });
    let webhook = json!({ "conversionReviewVersions": ["v1"], "clientConfig": client });
    json!({ "strategy": "Webhook", "webhook": with(&webhook, change) })
}

fn client(client: Value) -> Value {
    webhook(json!({ "clientConfig": client }))
}

fn service(change: Value) -> Value {
    let service = json!({ "namespace": "n", "name": "s" });
    client(json!({ "service": with(&service, change) }))
}

#[test]
fn strategies() {
    contract!(async |site: &Site| {
        for conversion in [
            json!({}),
            json!({ "strategy": "" }),
            json!({ "strategy": "Other" }),
            json!({ "strategy": "none" }),
            json!({ "strategy": "Webhook" }),
            json!({ "strategy": "Webhook", "webhook": {} }),
            with(&webhook(json!({})), json!({ "strategy": "None" })),
            json!({ "strategy": "None", "webhook": { "conversionReviewVersions": ["v1"] } }),
        ] {
            let what = conversion.to_string();
            site.causes(&what, "POST", DEFINITIONS, definition(conversion)).await;
        }
    });
}

#[test]
fn the_versions_of_reviews() {
    contract!(async |site: &Site| {
        for versions in [
            json!([]),
            json!(["v2"]),
            json!(["v2", "v3"]),
            json!(["v1", "v1"]),
            json!(["v1", "V 2"]),
            json!([""]),
            json!(null),
        ] {
            let what = versions.to_string();
            let conversion = webhook(json!({ "conversionReviewVersions": versions }));
            site.causes(&what, "POST", DEFINITIONS, definition(conversion)).await;
        }
    });
}

#[test]
fn urls_of_the_webhook() {
    contract!(async |site: &Site| {
        for url in [
            "http://example.com",
            "example.com",
            "https://",
            "https://user@example.com",
            "https://example.com/?a=b",
            "https://example.com/#a",
            "https://example.com:port",
        ] {
            let conversion = client(json!({ "url": url }));
            site.causes(url, "POST", DEFINITIONS, definition(conversion)).await;
        }
    });
}

#[test]
fn services_of_the_webhook() {
    contract!(async |site: &Site| {
        for change in [
            json!({ "name": "" }),
            json!({ "namespace": "" }),
            json!({ "port": 0 }),
            json!({ "port": 65536 }),
            json!({ "path": "convert" }),
            json!({ "path": "//" }),
            json!({ "path": "/a//b" }),
            json!({ "path": "/A" }),
        ] {
            let what = change.to_string();
            site.causes(&what, "POST", DEFINITIONS, definition(service(change)))
                .await;
        }
    });
}

#[test]
fn the_client_of_the_webhook() {
    contract!(async |site: &Site| {
        for config in [
            json!({}),
            json!({ "url": "https://example.com", "service": { "namespace": "n", "name": "s" } }),
            json!({ "url": "https://example.com", "caBundle": "bm8=" }),
            json!({ "url": "https://example.com", "caBundle": "" }),
        ] {
            let what = config.to_string();
            let path = format!("{DEFINITIONS}?dryRun=All");
            site.fields_of_causes(&what, &path, definition(client(config))).await;
        }
    });
}

#[test]
fn a_definition_with_a_conversion_gets_defaults() {
    contract!(async |site: &Site| {
        let created = site
            .quietly("POST", DEFINITIONS, &[], definition(service(json!({}))))
            .await;
        site.note(&format!("{:#}", created.body["spec"]["conversion"]));
        let headers = [("content-type", "application/merge-patch+json")];
        let none = json!({ "spec": { "conversion": null } });
        let changed = site.quietly("PATCH", DEFINITION, &headers, none).await;
        site.note(&format!("{:#}", changed.body["spec"]["conversion"]));
    });
}
