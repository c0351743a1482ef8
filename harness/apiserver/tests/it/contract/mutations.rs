//! What mutating admission policies do with objects.

use std::time::Duration;

use serde_json::{Value, json};

use super::contract;
use super::policies::{ATTEMPTS, GROUP, MAPS, map};
use super::site::{Site, with};

const PODS: &str = "/api/v1/namespaces/{ns}/pods";

pub(super) fn configuration(expression: &str) -> Value {
    json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } })
}

pub(super) fn patch(expression: &str) -> Value {
    json!({ "patchType": "JSONPatch", "jsonPatch": { "expression": expression } })
}

/// A policy for config maps and pods of the case.
pub(super) fn policy(name: &str, mutations: &[Value], change: Value) -> Value {
    let whole = json!({
        "matchConstraints": {
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "{ns}" } },
            "resourceRules": [{
                "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["*"],
                "resources": ["configmaps", "pods"],
            }],
        },
        "mutations": mutations,
        "reinvocationPolicy": "Never",
    });
    json!({
        "metadata": { "name": format!("{{ns}}-{name}"), "labels": { "case": "{ns}" } }, "spec": with(&whole, change),
    })
}

/// Creates policies with their bindings, and waits until they are in force.
pub(super) async fn enforce(site: &Site, policies: impl IntoIterator<Item = (&str, Value)>) {
    let marker = patch("[JSONPatch{op: 'add', path: '/data/marked', value: 'yes'}]");
    let conditions = json!({ "matchConditions": [{ "name": "a", "expression": "object.metadata.name == 'marker'" }] });
    let marker = ("zz", policy("zz", &[marker], conditions));
    for (name, policy) in policies.into_iter().chain([marker]) {
        let binding = json!({
            "metadata": { "name": format!("{{ns}}-{name}"), "labels": { "case": "{ns}" } },
            "spec": { "policyName": format!("{{ns}}-{name}") },
        });
        for (plural, object) in [
            ("mutatingadmissionpolicies", policy),
            ("mutatingadmissionpolicybindings", binding),
        ] {
            let created = site.quietly("POST", &format!("{GROUP}/{plural}"), &[], object).await;
            assert_eq!(created.code, 201, "{:#}", created.body);
        }
    }
    for _ in 0..ATTEMPTS {
        let marker = json!({ "metadata": { "name": "marker" }, "data": { "key": "a" } });
        let path = format!("{MAPS}?dryRun=All");
        if site.quietly("POST", &path, &[], marker).await.body["data"]["marked"] == "yes" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server does not notice the policies");
}

/// Creates an object and records the part of it that policies change.
pub(super) async fn create(site: &Site, path: &str, object: Value, part: &str) {
    let answer = site.quietly("POST", path, &[], object).await;
    let name = answer.body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match answer.body["message"].as_str() {
        Some(message) => site.note(&format!("{} {message}", answer.code)),
        None => site.note(&format!(
            "{name}: {} {}",
            answer.code,
            answer.body.pointer(part).unwrap_or(&Value::Null)
        )),
    }
}

/// A condition: only for the object of that name.
pub(super) fn only(name: &str) -> Value {
    let expression = format!("object.metadata.name == '{name}'");
    json!({ "matchConditions": [{ "name": "a", "expression": expression }] })
}

#[test]
fn an_object_is_changed_in_the_version_of_the_rule() {
    contract!(async |site: &Site| {
        let scalers = |version: &str| format!("/apis/autoscaling/{version}/namespaces/{{ns}}/horizontalpodautoscalers");
        let constraints = json!({ "matchConstraints": {
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "{ns}" } },
            "resourceRules": [{
                "operations": ["CREATE", "UPDATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v2"],
                "resources": ["horizontalpodautoscalers"],
            }],
        } });
        let usage = "'/spec/metrics/0/resource/target/averageUtilization'";
        let patched = patch(&format!("[JSONPatch{{op: 'replace', path: {usage}, value: 70}}]"));
        let merged = configuration("Object{spec: Object.spec{minReplicas: 2}}");
        enforce(
            site,
            [
                ("a", policy("a", &[patched], constraints.clone())),
                ("b", policy("b", &[merged], constraints)),
            ],
        )
        .await;
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "a" });
        let one = json!({ "metadata": { "name": "a" }, "spec": {
            "maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 50,
        } });
        create(site, &scalers("v1"), one, "/spec").await;
        let two = json!({ "metadata": { "name": "b" }, "spec": { "maxReplicas": 3, "scaleTargetRef": target, "metrics": [{
            "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } },
        }] } });
        create(site, &scalers("v2"), two, "/spec").await;
    });
}

#[test]
fn a_configuration_is_merged() {
    contract!(async |site: &Site| {
        let labels = configuration("Object{metadata: Object.metadata{labels: {'from': object.metadata.name}}}");
        let data = configuration("Object{data: {'size': string(object.data.size())}}");
        let containers = configuration(
            "Object{spec: Object.spec{containers: object.spec.containers.map(container, Object.spec.containers{name: container.name, imagePullPolicy: 'Never'})}}",
        );
        let optional =
            configuration("Object{?data: object.?absent, metadata: Object.metadata{annotations: {'a': 'b'}}}");
        enforce(
            site,
            [
                ("labels", policy("labels", &[labels, data], only("a"))),
                ("containers", policy("containers", &[containers], only("p"))),
                ("optional", policy("optional", &[optional], only("o"))),
            ],
        )
        .await;
        create(
            site,
            MAPS,
            with(
                &map("a"),
                json!({ "metadata": { "name": "a", "labels": { "own": "" } } }),
            ),
            "/metadata/labels",
        )
        .await;
        create(site, MAPS, map("o"), "/data").await;
        let pod = json!({ "metadata": { "name": "p" }, "spec": {
            "automountServiceAccountToken": false,
            "containers": [{ "name": "b", "image": "i:1" }, { "name": "a", "image": "i:2" }],
        } });
        site.quietly(
            "POST",
            "/api/v1/namespaces/{ns}/serviceaccounts",
            &[],
            json!({ "metadata": { "name": "default" } }),
        )
        .await;
        create(site, &format!("{PODS}?dryRun=All"), pod, "/spec/containers").await;
    });
}

#[test]
fn a_patch_is_applied() {
    contract!(async |site: &Site| {
        let several = patch(
            "[JSONPatch{op: 'test', path: '/data/key', value: 'a'}, JSONPatch{op: 'add', path: '/metadata/labels', value: {'x': 'y'}}, JSONPatch{op: 'copy', from: '/data/key', path: '/data/copy'}]",
        );
        let conditional =
            patch("has(object.metadata.labels) ? [JSONPatch{op: 'remove', path: '/metadata/labels'}] : []");
        let escaped = patch("[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('x/y~z'), value: 'escaped'}]");
        enforce(
            site,
            [
                ("a", policy("a", &[several], only("a"))),
                ("b", policy("b", &[conditional], only("b"))),
                ("c", policy("c", &[escaped], only("c"))),
            ],
        )
        .await;
        create(site, MAPS, map("a"), "/data").await;
        create(
            site,
            MAPS,
            with(
                &map("b"),
                json!({ "metadata": { "name": "b", "labels": { "l": "m" } } }),
            ),
            "/metadata/labels",
        )
        .await;
        create(site, MAPS, map("c"), "/data").await;
    });
}

#[test]
fn failures_of_mutations() {
    contract!(async |site: &Site| {
        let named = |name: &str, mutation: Value, failure: &str| {
            policy(
                name,
                &[mutation],
                with(&only(name), json!({ "failurePolicy": failure })),
            )
        };
        let missing = || patch("[JSONPatch{op: 'add', path: '/data/x', value: object.data.missing}]");
        enforce(
            site,
            [
                ("error", named("error", missing(), "Fail")),
                ("ignored", named("ignored", missing(), "Ignore")),
                (
                    "test",
                    named(
                        "test",
                        patch("[JSONPatch{op: 'test', path: '/data/key', value: 'other'}]"),
                        "Fail",
                    ),
                ),
                (
                    "unknown",
                    named("unknown", configuration("Object{unknown: 'a'}"), "Fail"),
                ),
            ],
        )
        .await;
        site.post(MAPS, map("error")).await;
        create(site, MAPS, map("ignored"), "/data").await;
        for name in ["test", "unknown"] {
            let answer = site.quietly("POST", MAPS, &[], map(name)).await;
            site.note(&format!("{name}: {}", answer.code));
        }
    });
}

#[test]
fn policies_are_applied_again() {
    contract!(async |site: &Site| {
        let count = || {
            patch(
                "[JSONPatch{op: 'add', path: '/data/count', value: 'count' in object.data ? object.data.count + 'x' : 'x'}]",
            )
        };
        let once = patch("'once' in object.data ? [] : [JSONPatch{op: 'add', path: '/data/once', value: ''}]");
        let again = json!({ "reinvocationPolicy": "IfNeeded" });
        enforce(
            site,
            [
                ("a", policy("a", &[count()], again.clone())),
                ("b", policy("b", &[once], again)),
            ],
        )
        .await;
        create(site, MAPS, map("first"), "/data").await;
        let done = with(&map("second"), json!({ "data": { "once": "/metadata/labels" } }));
        create(site, MAPS, done, "/data").await;
    });
}

#[test]
fn expressions_of_a_mutating_policy_are_checked() {
    contract!(async |site: &Site| {
        for (what, mutation) in [
            ("syntax", configuration("Object{")),
            ("type of a configuration", configuration("'a'")),
            ("map as a configuration", configuration("{'a': 'b'}")),
            ("nested type as a configuration", configuration("Object.spec{a: 1}")),
            ("other type", configuration("Other{a: 1}")),
            ("type of a patch", patch("JSONPatch{op: 'remove', path: '/a'}")),
            ("texts as a patch", patch("['a']")),
            ("no operations", patch("[]")),
            ("operations", patch("[JSONPatch{op: 'remove', path: '/a'}]")),
            ("configuration", configuration("Object{spec: Object.spec{a: 1}}")),
        ] {
            let path = format!("{GROUP}/mutatingadmissionpolicies?dryRun=All");
            site.fields_of_causes(what, &path, policy("p", &[mutation], json!({})))
                .await;
        }
    });
}
