//! Configurations of webhooks and admission policies as stored objects.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, with};
use super::tables::table;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn rule() -> Value {
    json!({
        "operations": ["CREATE"], "apiGroups": ["{group}"], "apiVersions": ["v1"], "resources": ["widgets"],
    })
}

fn hook() -> Value {
    json!({
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule()],
        "clientConfig": { "url": "https://127.0.0.1:1/a" }, "failurePolicy": "Ignore",
    })
}

async fn lifecycle(site: &Site, plural: &str, object: Value, change: Value) {
    let (objects, path) = (format!("{GROUP}/{plural}"), format!("{GROUP}/{plural}/{{ns}}"));
    site.post(&objects, object).await;
    table(site, &path).await;
    site.merge(&path, change).await;
    site.step("DELETE", &path, Value::Null).await;
}

fn configuration(hook: Value) -> Value {
    json!({ "metadata": { "name": "{ns}" }, "webhooks": [hook] })
}

#[test]
fn a_configuration_of_mutating_webhooks() {
    contract!(async |site: &Site| {
        let service = json!({ "service": { "namespace": "{ns}", "name": "s", "path": "/p" } });
        let hook = with(&hook(), json!({ "clientConfig": service }));
        let change = json!({ "metadata": { "labels": { "a": "b" } } });
        lifecycle(site, "mutatingwebhookconfigurations", configuration(hook), change).await;
    });
}

#[test]
fn a_configuration_of_validating_webhooks() {
    contract!(async |site: &Site| {
        let change = json!({ "webhooks": null });
        lifecycle(site, "validatingwebhookconfigurations", configuration(hook()), change).await;
    });
}

#[test]
fn a_webhook_is_checked() {
    contract!(async |site: &Site| {
        let objects = format!("{GROUP}/validatingwebhookconfigurations");
        for change in [
            json!({ "name": "" }),
            json!({ "name": "short" }),
            json!({ "name": "Not.A.Name" }),
            json!({ "sideEffects": null }),
            json!({ "sideEffects": "Some" }),
            json!({ "admissionReviewVersions": [] }),
            json!({ "admissionReviewVersions": ["v2"] }),
            json!({ "admissionReviewVersions": ["v1", "v1"] }),
            json!({ "failurePolicy": "Odd" }),
            json!({ "matchPolicy": "Odd" }),
            json!({ "timeoutSeconds": 31 }),
            json!({ "clientConfig": {} }),
            json!({ "clientConfig": { "url": "http://a.example.com" } }),
            json!({ "clientConfig": { "url": "https://b@a.example.com?c#d" } }),
            json!({ "clientConfig": { "service": { "namespace": "", "name": "s" } } }),
            json!({ "clientConfig": { "service": { "namespace": "n", "name": "s", "path": "p" } } }),
            json!({ "clientConfig": { "service": { "namespace": "n", "name": "s", "port": 0 } } }),
            json!({ "matchConditions": [{ "name": "", "expression": "" }] }),
            json!({ "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } }),
            json!({ "objectSelector": { "matchExpressions": [{ "key": "a", "operator": "Odd" }] } }),
        ] {
            site.post(&objects, configuration(with(&hook(), change))).await;
        }
        let twice = json!({ "metadata": { "name": "{ns}" }, "webhooks": [hook(), hook()] });
        site.post(&objects, twice).await;
    });
}

#[test]
fn the_rules_of_a_webhook_are_checked() {
    contract!(async |site: &Site| {
        let objects = format!("{GROUP}/mutatingwebhookconfigurations");
        for change in [
            json!({ "operations": [] }),
            json!({ "operations": ["GET"] }),
            json!({ "operations": ["*", "CREATE"] }),
            json!({ "apiGroups": [] }),
            json!({ "apiGroups": ["*", "apps"] }),
            json!({ "apiVersions": [""] }),
            json!({ "resources": [] }),
            json!({ "resources": ["pods/*", "pods/exec"] }),
            json!({ "resources": ["*/*", "pods"] }),
            json!({ "resources": ["*", "pods"] }),
            json!({ "scope": "Odd" }),
        ] {
            let hook = with(&hook(), json!({ "rules": [with(&rule(), change)] }));
            site.post(&objects, configuration(hook)).await;
        }
        site.post(
            &objects,
            configuration(with(&hook(), json!({ "reinvocationPolicy": "Odd" }))),
        )
        .await;
    });
}

#[test]
fn a_configuration_needs_a_revision_in_updates() {
    contract!(async |site: &Site| {
        let objects = format!("{GROUP}/validatingwebhookconfigurations");
        site.post(&objects, configuration(hook())).await;
        let path = format!("{objects}/{{ns}}");
        site.put(&path, configuration(hook())).await;
        site.step("DELETE", &path, Value::Null).await;
    });
}

fn policy(change: Value) -> Value {
    let spec = json!({
        "matchConstraints": { "resourceRules": [rule()] },
        "validations": [{ "expression": "object.metadata.name != 'odd'" }],
    });
    json!({ "metadata": { "name": "{ns}" }, "spec": with(&spec, change) })
}

#[test]
fn a_validating_policy() {
    contract!(async |site: &Site| {
        let kind = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
        let change = json!({ "spec": { "failurePolicy": "Ignore" } });
        lifecycle(
            site,
            "validatingadmissionpolicies",
            policy(json!({ "paramKind": kind })),
            change,
        )
        .await;
    });
}

#[test]
fn a_validating_policy_is_checked() {
    contract!(async |site: &Site| {
        let policies = format!("{GROUP}/validatingadmissionpolicies");
        for change in [
            json!({ "matchConstraints": null }),
            json!({ "matchConstraints": { "resourceRules": [] } }),
            json!({ "validations": [] }),
            json!({ "validations": [{ "expression": "" }] }),
            json!({ "validations": [{ "expression": "true", "message": " " }] }),
            json!({ "validations": [{ "expression": "true", "message": "a\nb" }] }),
            json!({ "validations": [{ "expression": "true", "reason": "Odd" }] }),
            json!({ "failurePolicy": "Odd" }),
            json!({ "paramKind": { "apiVersion": "", "kind": "" } }),
            json!({ "paramKind": { "apiVersion": "a/b/c", "kind": "D" } }),
            json!({ "variables": [{ "name": "", "expression": "" }] }),
        ] {
            site.post(&policies, policy(change)).await;
        }
    });
}

#[test]
fn the_status_of_a_policy() {
    contract!(async |site: &Site| {
        let policies = format!("{GROUP}/validatingadmissionpolicies");
        let path = format!("{policies}/{{ns}}");
        site.post(&policies, policy(json!({}))).await;
        let status = json!({ "status": { "observedGeneration": 1, "typeChecking": {} } });
        site.merge(&format!("{path}/status"), status).await;
        site.merge(&path, json!({ "status": { "observedGeneration": 7 } }))
            .await;
        site.step("DELETE", &path, Value::Null).await;
    });
}

#[test]
fn a_binding_of_a_validating_policy() {
    contract!(async |site: &Site| {
        let reference = json!({ "name": "p", "parameterNotFoundAction": "Deny" });
        let spec = json!({ "policyName": "{ns}", "validationActions": ["Audit"], "paramRef": reference });
        let binding = json!({ "metadata": { "name": "{ns}" }, "spec": spec });
        let change = json!({ "spec": { "matchResources": { "resourceRules": [rule()] } } });
        lifecycle(site, "validatingadmissionpolicybindings", binding, change).await;
    });
}

#[test]
fn a_binding_is_checked() {
    contract!(async |site: &Site| {
        let bindings = format!("{GROUP}/validatingadmissionpolicybindings");
        let spec = json!({ "policyName": "{ns}", "validationActions": ["Deny"] });
        for change in [
            json!({ "policyName": "" }),
            json!({ "policyName": "Odd_" }),
            json!({ "validationActions": [] }),
            json!({ "validationActions": ["Odd"] }),
            json!({ "validationActions": ["Deny", "Warn"] }),
            json!({ "validationActions": ["Deny", "Deny"] }),
            json!({ "paramRef": {} }),
            json!({ "paramRef": { "name": "a", "selector": {}, "parameterNotFoundAction": "Odd" } }),
        ] {
            let binding = json!({ "metadata": { "name": "{ns}" }, "spec": with(&spec, change) });
            site.post(&bindings, binding).await;
        }
    });
}

#[test]
fn a_mutating_policy() {
    contract!(async |site: &Site| {
        let mutation = json!({
            "patchType": "JSONPatch", "jsonPatch": { "expression": "[JSONPatch{op: 'remove', path: '/spec'}]" },
        });
        let spec = json!({
            "matchConstraints": { "resourceRules": [rule()] }, "mutations": [mutation], "reinvocationPolicy": "Never",
        });
        let policy = |change: Value| json!({ "metadata": { "name": "{ns}" }, "spec": with(&spec, change) });
        let change = json!({ "spec": { "reinvocationPolicy": "IfNeeded" } });
        lifecycle(site, "mutatingadmissionpolicies", policy(json!({})), change).await;
        let policies = format!("{GROUP}/mutatingadmissionpolicies");
        for change in [
            json!({ "mutations": [] }),
            json!({ "mutations": [{ "patchType": "" }] }),
            json!({ "mutations": [{ "patchType": "Odd" }] }),
            json!({ "mutations": [{ "patchType": "JSONPatch" }] }),
            json!({ "reinvocationPolicy": null }),
            json!({ "reinvocationPolicy": "Odd" }),
            json!({ "matchConstraints": { "resourceRules": [with(&rule(), json!({ "operations": ["DELETE"] }))] } }),
        ] {
            site.post(&policies, policy(change)).await;
        }
    });
}

#[test]
fn a_binding_of_a_mutating_policy() {
    contract!(async |site: &Site| {
        let selector = json!({ "matchLabels": { "a": "b" } });
        let reference = json!({ "selector": selector, "parameterNotFoundAction": "Allow" });
        let binding =
            json!({ "metadata": { "name": "{ns}" }, "spec": { "policyName": "{ns}", "paramRef": reference } });
        let change = json!({ "spec": { "policyName": "other" } });
        lifecycle(site, "mutatingadmissionpolicybindings", binding, change).await;
    });
}
