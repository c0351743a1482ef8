//! What validating admission policies decide about requests.

use std::time::Duration;

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, with};

pub(super) const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
pub(super) const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments";
/// How often a server is asked whether it has noticed the policies of a case.
pub(super) const ATTEMPTS: usize = 300;

/// A rule for all operations on config maps.
pub(super) fn maps() -> Value {
    rule("", "configmaps")
}

fn rule(group: &str, resource: &str) -> Value {
    json!({ "operations": ["*"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource] })
}

/// A policy for the namespace of the case; by default for config maps.
pub(super) fn policy(name: &str, spec: Value) -> Value {
    let constraints = json!({
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "{ns}" } },
        "resourceRules": [maps()],
    });
    let change = spec.get("matchConstraints").cloned().unwrap_or(json!({}));
    let spec = with(&spec, json!({ "matchConstraints": with(&constraints, change) }));
    json!({ "metadata": { "name": format!("{{ns}}-{name}"), "labels": { "case": "{ns}" } }, "spec": spec })
}

pub(super) fn binding(name: &str, actions: &[&str], spec: Value) -> Value {
    let whole = json!({ "policyName": format!("{{ns}}-{name}"), "validationActions": actions });
    json!({
        "metadata": { "name": format!("{{ns}}-{name}"), "labels": { "case": "{ns}" } }, "spec": with(&whole, spec),
    })
}

/// Creates policies with their bindings, and waits until they are in force.
pub(super) async fn enforce(site: &Site, policies: impl IntoIterator<Item = (Value, Value)>) {
    let mut policies: Vec<(Value, Value)> = policies.into_iter().collect();
    let marker = json!({ "validations": [{ "expression": "object == null || object.metadata.name != 'marker'" }] });
    policies.push((policy("marker", marker), binding("marker", &["Deny"], json!({}))));
    for (policy, binding) in policies {
        for (plural, object) in [
            ("validatingadmissionpolicies", policy),
            ("validatingadmissionpolicybindings", binding),
        ] {
            let created = site.quietly("POST", &format!("{GROUP}/{plural}"), &[], object).await;
            assert_eq!(created.code, 201, "{:#}", created.body);
        }
    }
    for _ in 0..ATTEMPTS {
        let marker = json!({ "metadata": { "name": "marker" } });
        let path = format!("{MAPS}?dryRun=All");
        if site.quietly("POST", &path, &[], marker).await.code == 422 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server does not notice the policies");
}

/// The policies with one validation each that fails, and bindings that deny.
async fn deny(site: &Site, validations: &[Value]) {
    let numbered = validations.iter().enumerate();
    let policies = numbered.map(|(index, validation)| {
        let name = format!("p{index}");
        let spec = json!({ "validations": [validation] });
        (policy(&name, spec), binding(&name, &["Deny"], json!({})))
    });
    enforce(site, policies).await;
}

/// Sends a request and records code, message and warnings.
pub(super) async fn decide(site: &Site, what: &str, method: &str, path: &str, body: Value) -> Value {
    let headers: &[(&str, &str)] = match method {
        "PATCH" => &[("content-type", "application/merge-patch+json")],
        _ => &[],
    };
    let answer = site.quietly(method, path, headers, body).await;
    let warnings = answer.headers.get_all("warning").iter();
    let mut warnings: Vec<&str> = warnings.map(|warning| warning.to_str().unwrap()).collect();
    // Upstream evaluates policies in any order.
    warnings.sort_unstable();
    let message = answer.body["message"].as_str().unwrap_or("fine");
    // A program of the case has another port in each run.
    let words = message.split(' ').map(|word| match word.split_once("127.0.0.1:") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
            format!("{before}127.0.0.1:PORT{rest}")
        }
        None => word.to_owned(),
    });
    let message = words.collect::<Vec<String>>().join(" ");
    site.note(&format!("{what}: {method} {path} -> {} {message}", answer.code));
    for warning in warnings {
        site.note(&format!("  warning {warning}"));
    }
    answer.body
}

pub(super) fn map(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "key": name } })
}

#[test]
fn a_request_is_denied() {
    contract!(async |site: &Site| {
        deny(site, &[json!({ "expression": "object.data.key != 'bad'" })]).await;
        site.post(MAPS, map("bad")).await;
        site.step("POST", MAPS, map("good")).await;
        let path = format!("{MAPS}/good");
        site.merge(&path, json!({ "data": { "key": "bad" } })).await;
        site.send(
            "PATCH",
            &format!("{MAPS}/other?fieldManager=a"),
            &[("content-type", "application/apply-patch+yaml")],
            with(
                &map("other"),
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "key": "bad" } }),
            ),
        )
        .await;
        let generated = json!({ "metadata": { "generateName": "some-" }, "data": { "key": "bad" } });
        let answer = site.quietly("POST", MAPS, &[], generated).await;
        site.note(&format!("generated: {}", answer.code));
        decide(site, "a deletion has no object", "DELETE", &path, Value::Null).await;
    });
}

#[test]
fn messages_and_reasons() {
    contract!(async |site: &Site| {
        for (index, validation) in [
            json!({ "message": "it is bad" }),
            json!({ "messageExpression": "'the key is ' + object.data.key", "message": "unused" }),
            json!({ "messageExpression": "''", "message": "an empty text is not used" }),
            json!({ "messageExpression": "string(object.data.missing)", "message": "an error is not used" }),
            json!({ "messageExpression": "'two\\nlines'", "message": "two lines are not used" }),
            json!({ "messageExpression": "string(object.data.missing)" }),
            json!({ "reason": "Forbidden" }),
            json!({ "reason": "Invalid" }),
            json!({ "reason": "RequestEntityTooLarge", "message": "too large" }),
            json!({ "reason": "Unauthorized" }),
        ]
        .iter()
        .enumerate()
        {
            let name = format!("m{index}");
            let rule = with(&maps(), json!({ "resourceNames": [name] }));
            let validation = with(
                &json!({ "expression": "object.data.key == 'good'" }),
                validation.clone(),
            );
            let spec = json!({ "validations": [validation], "matchConstraints": { "resourceRules": [rule] } });
            let created = site
                .quietly(
                    "POST",
                    &format!("{GROUP}/validatingadmissionpolicies"),
                    &[],
                    policy(&name, spec),
                )
                .await;
            site.note(&format!("{name}: {}", created.code));
            let bound = binding(&name, &["Deny"], json!({}));
            let path = format!("{GROUP}/validatingadmissionpolicybindings");
            site.quietly("POST", &path, &[], bound).await;
        }
        enforce(site, []).await;
        for index in 0..10 {
            site.post(MAPS, map(&format!("m{index}"))).await;
        }
    });
}

#[test]
fn the_first_refusal_counts() {
    contract!(async |site: &Site| {
        let validations = ["first", "second"].map(|message| json!({ "expression": "false", "message": message }));
        let spec = json!({ "validations": validations, "matchConstraints": { "resourceRules": [
            with(&maps(), json!({ "resourceNames": ["a"] })),
        ] } });
        enforce(site, [(policy("p", spec), binding("p", &["Deny"], json!({})))]).await;
        site.post(MAPS, map("a")).await;
    });
}

#[test]
fn a_binding_warns() {
    contract!(async |site: &Site| {
        let spec = json!({ "validations": [
            { "expression": "object.data.key != 'a'", "message": "it is a" },
            { "expression": "object.data.key.size() > 1" },
        ] });
        enforce(site, [(policy("p", spec), binding("p", &["Warn", "Audit"], json!({})))]).await;
        decide(site, "two", "POST", MAPS, map("a")).await;
        decide(site, "one", "POST", MAPS, map("b")).await;
        decide(site, "none", "POST", MAPS, map("good")).await;
        decide(
            site,
            "audit and dry run",
            "POST",
            &format!("{MAPS}?dryRun=All"),
            map("c"),
        )
        .await;
    });
}

#[test]
fn only_failures_of_audited_policies_pass() {
    contract!(async |site: &Site| {
        let spec = json!({ "validations": [{ "expression": "false" }] });
        let audited = (
            policy("audited", spec.clone()),
            binding("audited", &["Audit"], json!({})),
        );
        let unbound = json!({ "policyName": "{ns}-missing" });
        let without = (policy("without", spec), binding("without", &["Deny"], unbound));
        enforce(site, [audited, without]).await;
        decide(site, "audited", "POST", MAPS, map("a")).await;
    });
}

#[test]
fn match_conditions() {
    contract!(async |site: &Site| {
        let conditions = |name: &str, expressions: &[&str], failure: &str| {
            let named = expressions.iter().enumerate();
            let conditions: Vec<Value> = named
                .map(|(index, expression)| json!({ "name": format!("c{index}"), "expression": expression }))
                .collect();
            let spec = json!({
                "failurePolicy": failure,
                "matchConditions": conditions,
                "validations": [{ "expression": "false" }],
                "matchConstraints": { "resourceRules": [with(&maps(), json!({ "resourceNames": [name] }))] },
            });
            (policy(name, spec), binding(name, &["Deny"], json!({})))
        };
        let error = "object.data.missing == 'a'";
        enforce(
            site,
            [
                conditions("holds", &["object.data.key == 'holds'", "true"], "Fail"),
                conditions("fails", &["true", "object.data.key == 'other'"], "Fail"),
                conditions("error", &["true", error], "Fail"),
                conditions("errors", &[error, "object.data.lacking == 'b'"], "Fail"),
                conditions("ignored", &[error], "Ignore"),
                conditions("first", &[error, "false"], "Fail"),
            ],
        )
        .await;
        for name in ["holds", "fails", "error", "errors", "ignored", "first"] {
            site.post(MAPS, map(name)).await;
        }
    });
}

#[test]
fn errors_of_validations() {
    contract!(async |site: &Site| {
        let policies = [
            ("key", "object.data.missing == 'a'", "Fail"),
            ("index", "[1, 2][5] == 1", "Fail"),
            ("zero", "1 / (object.data.size() - 1) == 0", "Fail"),
            ("type", "object.data.key > 1", "Fail"),
            ("number", "int(object.data.key) == 1", "Fail"),
            ("ignored", "object.data.missing == 'a'", "Ignore"),
        ]
        .map(|(name, expression, failure)| {
            let spec = json!({
                "failurePolicy": failure,
                "validations": [{ "expression": expression }, { "expression": "true" }],
                "matchConstraints": { "resourceRules": [with(&maps(), json!({ "resourceNames": [name] }))] },
            });
            (policy(name, spec), binding(name, &["Deny"], json!({})))
        });
        enforce(site, policies).await;
        for name in ["key", "index", "zero", "type", "number", "ignored"] {
            decide(site, name, "POST", MAPS, map(name)).await;
        }
    });
}

#[test]
fn which_requests_match() {
    contract!(async |site: &Site| {
        let matching = |name: &str, constraints: Value| {
            let spec = json!({
                "validations": [{ "expression": "false", "message": name }], "matchConstraints": constraints,
            });
            (policy(name, spec), binding(name, &["Warn"], json!({})))
        };
        let only = |operation: &str| json!({ "resourceRules": [with(&maps(), json!({ "operations": [operation] }))] });
        enforce(
            site,
            [
                matching("create", only("CREATE")),
                matching("update", only("UPDATE")),
                matching("delete", only("DELETE")),
                matching("labels", json!({ "objectSelector": { "matchLabels": { "a": "b" } } })),
                matching(
                    "excluded",
                    json!({ "excludeResourceRules": [with(&maps(), json!({ "resourceNames": ["a"] }))] }),
                ),
                matching("group", json!({ "resourceRules": [rule("apps", "configmaps")] })),
                matching(
                    "cluster",
                    json!({ "resourceRules": [with(&maps(), json!({ "scope": "Cluster" }))] }),
                ),
                matching(
                    "other",
                    json!({ "namespaceSelector": { "matchLabels": { "missing": "" } } }),
                ),
                // Not for objects of the cluster, which other cases have.
                matching(
                    "any",
                    json!({ "resourceRules": [with(&rule("*", "*"), json!({ "scope": "Namespaced" }))] }),
                ),
                matching("sub", json!({ "resourceRules": [rule("apps", "deployments/*")] })),
                matching("scale", json!({ "resourceRules": [rule("apps", "*/scale")] })),
            ],
        )
        .await;
        decide(site, "create", "POST", MAPS, map("a")).await;
        decide(site, "create another", "POST", MAPS, map("b")).await;
        let path = format!("{MAPS}/a");
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        decide(site, "label", "PATCH", &path, label).await;
        decide(
            site,
            "no label",
            "PATCH",
            &path,
            json!({ "metadata": { "labels": null } }),
        )
        .await;
        decide(site, "without a change", "PATCH", &path, json!({})).await;
        decide(site, "delete", "DELETE", &path, Value::Null).await;
        decide(site, "delete all", "DELETE", MAPS, Value::Null).await;
        let labels = json!({ "app": "a" });
        let deployment = json!({ "metadata": { "name": "d" }, "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } },
        } });
        decide(site, "deployment", "POST", DEPLOYMENTS, deployment).await;
        let path = format!("{DEPLOYMENTS}/d");
        let status = json!({ "status": { "replicas": 1 } });
        decide(site, "status", "PATCH", &format!("{path}/status"), status).await;
        let scale = json!({ "spec": { "replicas": 2 } });
        decide(site, "scale", "PATCH", &format!("{path}/scale"), scale).await;
    });
}

#[test]
fn the_request_in_expressions() {
    contract!(async |site: &Site| {
        let shown = [
            "request.operation",
            "request.kind.group + '/' + request.kind.version + '/' + request.kind.kind",
            "request.resource.group + '/' + request.resource.version + '/' + request.resource.resource",
            "request.requestKind.kind + ' ' + request.requestResource.resource",
            "request.?subResource.orValue('none')",
            "(request.?name.orValue('none').startsWith('g-') ? 'generated' : request.?name.orValue('none'))",
            "string(request.namespace == object.metadata.namespace)",
            "string(request.dryRun)",
            "request.options.kind + ' ' + request.options.apiVersion",
            "string(oldObject == null)",
            "(object.metadata.name.startsWith('a') ? 'a' : 'generated')",
            "string(has(object.metadata.uid))",
            "(namespaceObject.metadata.name == request.namespace ? 'its namespace' : 'another')",
            "namespaceObject.status.phase",
            "string(type(object.data) == map)",
        ];
        let message = shown.join(" + ', ' + ");
        let spec = |resource: Value| {
            json!({
                "validations": [{ "expression": "false", "messageExpression": message }],
                "matchConstraints": { "resourceRules": [with(&resource, json!({ "operations": ["CREATE", "UPDATE"] }))] },
            })
        };
        let maps = (policy("maps", spec(maps())), binding("maps", &["Warn"], json!({})));
        enforce(site, [maps]).await;
        decide(site, "create", "POST", MAPS, map("a")).await;
        let generated = json!({ "metadata": { "generateName": "g-" }, "data": { "key": "a" } });
        decide(site, "generated", "POST", MAPS, generated).await;
        decide(site, "dry run", "POST", &format!("{MAPS}?dryRun=All"), map("ab")).await;
        let path = format!("{MAPS}/a");
        decide(site, "patch", "PATCH", &path, json!({ "data": { "key": "b" } })).await;
    });
}

/// No other case has parameters: an upstream server that stops watching them does not begin again.
#[test]
fn objects_have_the_version_of_the_request() {
    contract!(async |site: &Site| {
        let scalers = |version: &str| format!("/apis/autoscaling/{version}/namespaces/{{ns}}/horizontalpodautoscalers");
        let versions = |version: &str, message: &str| {
            let rule = with(
                &rule("autoscaling", "horizontalpodautoscalers"),
                json!({ "apiVersions": [version] }),
            );
            let spec = json!({
                "matchConstraints": { "resourceRules": [rule], "matchPolicy": "Exact" },
                "validations": [{ "expression": "false", "messageExpression": message }],
            });
            (policy(version, spec), binding(version, &["Warn"], json!({})))
        };
        enforce(
            site,
            [
                versions("v1", "'v1 ' + string(object.spec.targetCPUUtilizationPercentage)"),
                versions("v2", "'v2 ' + object.spec.metrics[0].resource.name"),
            ],
        )
        .await;
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "a" });
        let one = json!({ "metadata": { "name": "a" }, "spec": {
            "maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 50,
        } });
        decide(site, "v1", "POST", &scalers("v1"), one).await;
        let patch = json!({ "metadata": { "labels": { "a": "b" } } });
        decide(site, "v2", "PATCH", &format!("{}/a", scalers("v2")), patch.clone()).await;
        decide(site, "v1 again", "PATCH", &format!("{}/a", scalers("v1")), patch).await;
    });
}

#[test]
fn objects_have_the_version_of_the_rule() {
    contract!(async |site: &Site| {
        let scalers = |version: &str| format!("/apis/autoscaling/{version}/namespaces/{{ns}}/horizontalpodautoscalers");
        let rule = with(
            &rule("autoscaling", "horizontalpodautoscalers"),
            json!({ "apiVersions": ["v2"] }),
        );
        let message = "request.requestKind.version + ' seen as ' + request.kind.version + ': ' + object.spec.metrics[0].resource.name";
        let spec = json!({
            "matchConstraints": { "resourceRules": [rule] },
            "validations": [{ "expression": "false", "messageExpression": message }],
        });
        enforce(site, [(policy("v2", spec), binding("v2", &["Warn"], json!({})))]).await;
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "a" });
        let one = json!({ "metadata": { "name": "a" }, "spec": {
            "maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 50,
        } });
        let patch = json!({ "metadata": { "labels": { "a": "b" } } });
        decide(site, "create", "POST", &scalers("v1"), one).await;
        for version in ["v1", "v2"] {
            decide(
                site,
                version,
                "PATCH",
                &format!("{}/a", scalers(version)),
                patch.clone(),
            )
            .await;
        }
    });
}

#[test]
fn namespaces_and_evictions() {
    contract!(async |site: &Site| {
        let constraints = |rules: Value| json!({ "resourceRules": [rules] });
        let named = |name: &str, rules: Value, expression: &str| {
            let spec = json!({
                "validations": [{ "expression": expression, "message": name }], "matchConstraints": constraints(rules),
            });
            (policy(name, spec), binding(name, &["Deny"], json!({})))
        };
        enforce(
            site,
            [
                named(
                    "namespace",
                    with(&rule("", "namespaces"), json!({ "operations": ["UPDATE"] })),
                    "!has(object.metadata.annotations) || !('bad' in object.metadata.annotations)",
                ),
                named(
                    "eviction",
                    rule("", "pods/eviction"),
                    "request.subResource != 'eviction' || object.kind != 'Eviction'",
                ),
                named(
                    "deletion",
                    with(&rule("", "pods"), json!({ "operations": ["DELETE"] })),
                    "oldObject.metadata.name != 'b' && object == null",
                ),
            ],
        )
        .await;
        let path = "/api/v1/namespaces/{ns}";
        decide(
            site,
            "bad namespace",
            "PATCH",
            path,
            json!({ "metadata": { "annotations": { "bad": "" } } }),
        )
        .await;
        decide(
            site,
            "namespace",
            "PATCH",
            path,
            json!({ "metadata": { "annotations": { "good": "" } } }),
        )
        .await;
        for name in ["a", "b"] {
            let pod = json!({ "metadata": { "name": name }, "spec": {
                "nodeName": "none", "containers": [{ "name": "c", "image": "i:1" }], "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
            } });
            site.quietly(
                "POST",
                "/api/v1/namespaces/{ns}/serviceaccounts",
                &[],
                json!({ "metadata": { "name": "default" } }),
            )
            .await;
            decide(site, "pod", "POST", "/api/v1/namespaces/{ns}/pods", pod).await;
            let path = format!("/api/v1/namespaces/{{ns}}/pods/{name}");
            let eviction = json!({ "metadata": { "name": name } });
            decide(site, "evict", "POST", &format!("{path}/eviction"), eviction).await;
            decide(site, "delete", "DELETE", &path, Value::Null).await;
        }
    });
}
