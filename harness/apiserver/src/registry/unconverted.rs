//! Custom resources whose webhook cannot be called: a simulated server has no network.

use serde_json::json;

use super::*;
use crate::store::Store;

fn registry() -> Registry {
    let settings = Settings {
        garbage_collector: false,
        namespace_controllers: false,
        certificate_authority: String::new(),
        aggregates_roles: false,
        service_account_admission: false,
        field_managers: FieldManagers::AfterApply,
        api_services: false,
        services: BTreeMap::new(),
    };
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let random = clock::Seed::new(1).stream("ids");
    let registry = Registry::new(
        Store::new(1000, 100, None),
        crate::kinds::builtin(),
        clock,
        random,
        settings,
    );
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": { "openAPIV3Schema": { "type": "object" } },
        })
    };
    let definition = json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [version("v1"), version("v2")],
            "conversion": { "strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1/" },
            } },
        },
    });
    let path = ("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    create(&registry, path, definition);
    registry
}

fn create(registry: &Registry, (group, version, plural): (&str, &str, &str), value: Value) {
    let catalog = registry.catalog();
    let entry = catalog.find(group, version, plural).unwrap();
    registry.create(entry, "", value, &WriteOptions::default()).unwrap();
}

#[test]
fn a_watch_ends_for_good_at_an_object_that_cannot_be_converted() {
    let registry = registry();
    let catalog = registry.catalog();
    let watched = catalog.find("example.com", "v2", "widgets").unwrap();
    let mut watch = registry.watch(watched, None, &WatchOptions::default()).unwrap();
    for name in ["a", "b"] {
        let value = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name } });
        create(&registry, ("example.com", "v1", "widgets"), value);
    }
    for _ in 0..2 {
        let error = watch.next(&registry).unwrap_err().unwrap();
        assert!(
            error.message.contains("conversion webhook for example.com/v1"),
            "{error}"
        );
    }
}

#[test]
fn an_object_keeps_its_form_in_the_version_in_which_it_is_stored() {
    let registry = registry();
    let catalog = registry.catalog();
    let entry = catalog.find("example.com", "v1", "widgets").unwrap();
    let value = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } });
    create(&registry, ("example.com", "v1", "widgets"), value);
    let other = catalog.find("example.com", "v2", "widgets").unwrap();
    let key = Key::new("", "a");
    let error = registry.delete(other, &key, &DeleteOptions::default()).unwrap_err();
    assert!(error.unconverted, "{error}");
    registry.delete_dependent(other, &key).unwrap();
    assert!(registry.get(entry, &key).is_ok());
    registry.delete(entry, &key, &DeleteOptions::default()).unwrap();
    assert_eq!(registry.get(entry, &key).unwrap_err().code, 404);
}

#[test]
fn a_value_that_is_no_object_has_no_version() {
    let registry = registry();
    let catalog = registry.catalog();
    let entry = catalog.find("example.com", "v1", "widgets").unwrap();
    let versions = entry.resource.versions.as_ref().unwrap();
    assert!(versions.convert(vec![json!(5)], "example.com/v1").is_err());
}
