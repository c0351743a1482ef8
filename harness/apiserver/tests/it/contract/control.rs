//! Kinds that configure the control plane: API services, priority and fairness, certificates, quotas.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, with};
use super::tables::table;

const FLOW: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn level(spec: Value) -> Value {
    json!({ "metadata": { "name": "{ns}" }, "spec": spec })
}

#[test]
fn a_priority_level() {
    contract!(async |site: &Site| {
        let levels = format!("{FLOW}/prioritylevelconfigurations");
        let queue = json!({ "type": "Queue", "queuing": {} });
        site.post(
            &levels,
            level(json!({ "type": "Limited", "limited": { "limitResponse": queue } })),
        )
        .await;
        let path = format!("{levels}/{{ns}}");
        table(site, &path).await;
        site.merge(
            &path,
            json!({ "spec": { "limited": { "nominalConcurrencyShares": 5 } } }),
        )
        .await;
        site.step("DELETE", &path, Value::Null).await;
    });
}

#[test]
fn a_priority_level_is_checked() {
    contract!(async |site: &Site| {
        let levels = format!("{FLOW}/prioritylevelconfigurations");
        let reject = json!({ "limitResponse": { "type": "Reject" } });
        let queue = |queuing: Value| json!({ "limitResponse": { "type": "Queue", "queuing": queuing } });
        for spec in [
            json!({ "type": "Odd" }),
            json!({ "type": "Exempt" }),
            json!({ "type": "Limited" }),
            json!({ "type": "Limited", "limited": reject, "exempt": {} }),
            json!({ "type": "Limited", "limited": with(&reject, json!({ "nominalConcurrencyShares": -1 })) }),
            json!({ "type": "Limited", "limited": with(&reject, json!({ "lendablePercent": 101 })) }),
            json!({ "type": "Limited", "limited": with(&reject, json!({ "borrowingLimitPercent": -1 })) }),
            json!({ "type": "Limited", "limited": { "limitResponse": { "type": "Odd" } } }),
            json!({ "type": "Limited", "limited": { "limitResponse": { "type": "Queue" } } }),
            json!({ "type": "Limited", "limited": queue(json!({ "handSize": 65 })) }),
            json!({ "type": "Limited", "limited": queue(json!({ "queues": -1, "queueLengthLimit": -1 })) }),
        ] {
            site.post(&levels, level(spec)).await;
        }
    });
}

#[test]
fn a_flow_schema() {
    contract!(async |site: &Site| {
        let schemas = format!("{FLOW}/flowschemas");
        let path = format!("{schemas}/{{ns}}");
        let subject = json!({ "kind": "User", "user": { "name": "bob" } });
        let rule = json!({ "verbs": ["get"], "nonResourceURLs": ["/healthz"] });
        let rules = json!([{ "subjects": [subject], "nonResourceRules": [rule] }]);
        // A real server adds a condition shortly after the creation: the responses to the writes do not contain it.
        let spec = json!({ "priorityLevelConfiguration": { "name": "global-default" }, "rules": rules });
        site.post(&schemas, level(spec)).await;
        site.quietly("DELETE", &path, &[], Value::Null).await;
        let initial = site
            .quietly("GET", &format!("{schemas}/system-nodes"), &[], Value::Null)
            .await;
        site.note(&format!("{:#}", initial.body["spec"]));
        site.note(&format!("{:#}", initial.body["metadata"]["annotations"]));
    });
}

#[test]
fn a_flow_schema_is_checked() {
    contract!(async |site: &Site| {
        let schemas = format!("{FLOW}/flowschemas");
        let user = json!({ "kind": "User", "user": { "name": "bob" } });
        let url = json!({ "verbs": ["get"], "nonResourceURLs": ["/healthz"] });
        let resource = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["a"] });
        let rule = |change: Value| {
            let rule = json!({ "subjects": [user], "nonResourceRules": [url] });
            json!({ "rules": [with(&rule, change)] })
        };
        let spec = json!({ "priorityLevelConfiguration": { "name": "global-default" } });
        for change in [
            json!({ "matchingPrecedence": -1 }),
            json!({ "matchingPrecedence": 10_001 }),
            json!({ "matchingPrecedence": 1 }),
            json!({ "priorityLevelConfiguration": { "name": "" } }),
            json!({ "distinguisherMethod": { "type": "Odd" } }),
            rule(json!({ "subjects": [] })),
            rule(json!({ "nonResourceRules": [] })),
            rule(json!({ "subjects": [{ "kind": "Odd" }] })),
            rule(json!({ "subjects": [{ "kind": "Group" }] })),
            rule(json!({ "subjects": [{ "kind": "ServiceAccount", "serviceAccount": { "name": "a" } }] })),
            rule(json!({ "subjects": [with(&user, json!({ "group": { "name": "a" } }))] })),
            rule(json!({ "nonResourceRules": [with(&url, json!({ "verbs": [] }))] })),
            rule(json!({ "nonResourceRules": [with(&url, json!({ "verbs": ["*", "get"] }))] })),
            rule(
                json!({ "nonResourceRules": [with(&url, json!({ "nonResourceURLs": ["a", "/b//c", "/d*", "/e f"] }))] }),
            ),
            rule(json!({ "resourceRules": [with(&resource, json!({ "apiGroups": [] }))] })),
            rule(json!({ "resourceRules": [with(&resource, json!({ "resources": ["*", "pods"] }))] })),
            rule(json!({ "resourceRules": [with(&resource, json!({ "namespaces": [] }))] })),
        ] {
            site.post(&schemas, level(with(&spec, change))).await;
        }
    });
}

#[test]
fn an_api_service() {
    contract!(async |site: &Site| {
        const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
        let spec = json!({
            "group": "aggregated.{group}", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": { "namespace": "{ns}", "name": "s" }, "insecureSkipTLSVerify": true,
        });
        let service =
            |change: Value| json!({ "metadata": { "name": "v1.aggregated.{group}" }, "spec": with(&spec, change) });
        site.post(SERVICES, service(json!({}))).await;
        site.quietly(
            "DELETE",
            &format!("{SERVICES}/v1.aggregated.{{group}}"),
            &[],
            Value::Null,
        )
        .await;
        for change in [
            json!({ "version": "v2" }),
            json!({ "version": "V_" }),
            json!({ "groupPriorityMinimum": 0 }),
            json!({ "versionPriority": 1001 }),
            json!({ "service": null }),
            json!({ "service": {} }),
            json!({ "caBundle": "YQ==" }),
        ] {
            site.post(SERVICES, service(change)).await;
        }
        let own = site
            .quietly("GET", &format!("{SERVICES}/v2.autoscaling"), &[], Value::Null)
            .await;
        site.note(&format!("{:#} {:#}", own.body["spec"], own.body["metadata"]["labels"]));
    });
}

#[test]
fn a_definition_has_an_api_service() {
    contract!(async |site: &Site| {
        site.define(json!({
            "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object" } },
        }))
        .await;
        let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.{group}";
        let service = site.get(path).await;
        assert_eq!(service.code, 200);
        let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}";
        site.quietly("DELETE", definition, &[], Value::Null).await;
        site.wait_until_gone(path).await;
        site.note("gone with the definition");
    });
}

/// A certificate request for `CN=bob`, with an Ed25519 key, as the API transports it.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHTk1FRUNBUUF3RGpFTU1Bb0dBMVVFQXd3RFltOWlNQ293QlFZ\
    REsyVndBeUVBeUUrTWQ0T0FIcmtvcDFzWAowZm8yYlN3b0tzNThtUXduZnJUZFNOcWxaaWVnQURBRkJnTXJaWEFEUVFEdEJtUFJa\
    QWtuOUxOcFFES1loVWRQCkQxQ2diUGtrRTRJQkxYbGtKVjltSTBuaC9wRTd4TTJEbVc0Y3A2c0JTY245Z0xJYWNwVWwxQWpUYmdM\
    QnRZY0YKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

fn request(change: Value) -> Value {
    let spec = json!({ "request": REQUEST, "signerName": "example.com/signer", "usages": ["client auth"] });
    json!({ "metadata": { "name": "{ns}" }, "spec": with(&spec, change) })
}

/// Records a response without the user who requests, which depends on the credentials of the tests.
async fn anonymously(site: &Site, method: &str, path: &str, body: Value) {
    let headers = match method {
        "PATCH" => vec![("content-type", "application/merge-patch+json")],
        _ => Vec::new(),
    };
    let mut answer = site.quietly(method, path, &headers, body).await;
    if let Some(spec) = answer.body.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["username", "groups", "uid", "extra"] {
            spec.remove(field);
        }
    }
    let metadata = answer.body["metadata"]
        .as_object()
        .map(|metadata| metadata.keys().cloned().collect::<Vec<_>>());
    let metadata: Vec<String> = metadata
        .into_iter()
        .flatten()
        .filter(|name| name != "managedFields")
        .collect();
    answer.body["metadata"] = metadata.into();
    site.note(&format!("{method} {path} -> {} {:#}", answer.code, answer.body));
}

#[test]
fn a_certificate_request_is_approved() {
    contract!(async |site: &Site| {
        let path = format!("{REQUESTS}/{{ns}}");
        anonymously(
            site,
            "POST",
            REQUESTS,
            request(json!({ "expirationSeconds": 3600, "username": "eve" })),
        )
        .await;
        let approved = json!([{ "type": "Approved", "status": "True", "reason": "r" }]);
        let conditions = json!({ "status": { "conditions": approved } });
        anonymously(site, "PATCH", &format!("{path}/status"), conditions.clone()).await;
        anonymously(site, "PATCH", &format!("{path}/approval"), conditions).await;
        let denied = json!([{ "type": "Denied", "status": "True" }]);
        let change = json!({ "status": { "conditions": denied } });
        anonymously(site, "PATCH", &format!("{path}/approval"), change).await;
        let certificate = json!({ "status": { "certificate": "bm90IGEgY2VydGlmaWNhdGU=" } });
        site.quietly(
            "PATCH",
            &format!("{path}/approval"),
            &[("content-type", "application/merge-patch+json")],
            certificate,
        )
        .await;
        anonymously(site, "GET", &path, Value::Null).await;
        anonymously(site, "GET", &format!("{path}/approval"), Value::Null).await;
        anonymously(site, "PATCH", &path, json!({ "spec": { "usages": ["server auth"] } })).await;
        site.step("DELETE", &path, Value::Null).await;
    });
}

#[test]
fn a_certificate_request_is_denied_once() {
    contract!(async |site: &Site| {
        let path = format!("{REQUESTS}/{{ns}}");
        site.quietly("POST", REQUESTS, &[], request(json!({}))).await;
        for conditions in [
            json!([{ "type": "Approved", "status": "False" }]),
            json!([{ "type": "", "status": "" }]),
            json!([{ "type": "Approved", "status": "True" }, { "type": "Denied", "status": "True" }]),
            json!([{ "type": "Denied", "status": "True" }]),
            json!([]),
        ] {
            let change = json!({ "status": { "conditions": conditions } });
            anonymously(site, "PATCH", &format!("{path}/approval"), change).await;
        }
        site.quietly("DELETE", &path, &[], Value::Null).await;
    });
}

#[test]
fn a_certificate_request_is_checked() {
    contract!(async |site: &Site| {
        for change in [
            json!({ "request": "bm90IGEgcmVxdWVzdA==" }),
            json!({ "usages": [] }),
            json!({ "usages": ["odd"] }),
            json!({ "usages": ["any", "any"] }),
            json!({ "signerName": "" }),
            json!({ "signerName": "signer" }),
            json!({ "signerName": "example/signer" }),
            json!({ "signerName": "kubernetes.io/legacy-unknown" }),
            json!({ "expirationSeconds": 599 }),
        ] {
            site.post(REQUESTS, request(change)).await;
        }
    });
}

#[test]
fn a_resource_quota() {
    contract!(async |site: &Site| {
        const QUOTAS: &str = "/api/v1/namespaces/{ns}/resourcequotas";
        // Upstream enforces quotas: this one limits nothing that the case creates.
        let hard =
            json!({ "pods": "10", "limits.cpu": "4000m", "requests.memory": "1024Mi", "count/widgets.{group}": 2 });
        let quota = json!({ "metadata": { "name": "a" }, "spec": { "hard": hard } });
        site.post(QUOTAS, quota).await;
        let path = format!("{QUOTAS}/a");
        let status = json!({ "status": { "hard": { "pods": "10", "limits.cpu": "4" }, "used": { "pods": "1" } } });
        site.merge(&format!("{path}/status"), status).await;
        table(site, &path).await;
        site.merge(&path, json!({ "spec": { "scopes": ["BestEffort"] } })).await;
        site.step("DELETE", &path, Value::Null).await;
    });
}

#[test]
fn a_resource_quota_is_checked() {
    contract!(async |site: &Site| {
        const QUOTAS: &str = "/api/v1/namespaces/{ns}/resourcequotas";
        let selector = |scope: &str, operator: &str, values: Value| {
            let expression = json!({ "scopeName": scope, "operator": operator, "values": values });
            json!({ "hard": { "pods": "1" }, "scopeSelector": { "matchExpressions": [expression] } })
        };
        for spec in [
            json!({ "hard": { "odd": "1" } }),
            json!({ "hard": { "storage": "1" } }),
            json!({ "hard": { "a b/c": "1" } }),
            json!({ "hard": { "pods": "1500m" } }),
            json!({ "hard": { "cpu": "-1" } }),
            json!({ "hard": { "pods": "1" }, "scopes": ["Odd"] }),
            json!({ "hard": { "services": "1" }, "scopes": ["BestEffort"] }),
            json!({ "hard": { "pods": "1" }, "scopes": ["BestEffort", "NotBestEffort"] }),
            selector("Terminating", "In", json!(["a"])),
            selector("PriorityClass", "In", json!([])),
            selector("PriorityClass", "Exists", json!(["a"])),
            selector("PriorityClass", "Odd", json!([])),
            selector("Odd", "Exists", json!([])),
        ] {
            site.post(QUOTAS, json!({ "metadata": { "name": "a" }, "spec": spec }))
                .await;
        }
    });
}

#[test]
fn a_limit_range() {
    contract!(async |site: &Site| {
        const RANGES: &str = "/api/v1/namespaces/{ns}/limitranges";
        let limit = json!({ "type": "Container", "max": { "cpu": "2" }, "min": { "cpu": "100m", "memory": "64Mi" } });
        site.post(
            RANGES,
            json!({ "metadata": { "name": "a" }, "spec": { "limits": [limit] } }),
        )
        .await;
        let path = format!("{RANGES}/a");
        table(site, &path).await;
        site.step("DELETE", &path, Value::Null).await;
        for limit in [
            json!({ "type": "Odd" }),
            json!({ "type": "Pod", "default": { "cpu": "1" } }),
            json!({ "type": "Container", "max": { "odd": "1" } }),
            json!({ "type": "Container", "max": { "pods": "1" } }),
            json!({ "type": "PersistentVolumeClaim" }),
            json!({ "type": "Pod", "min": { "cpu": "2" }, "max": { "cpu": "1" } }),
            json!({ "type": "Container", "default": { "cpu": "1" }, "defaultRequest": { "cpu": "2" } }),
            json!({ "type": "Container", "max": { "cpu": "1" }, "default": { "cpu": "2" } }),
            json!({ "type": "Container", "maxLimitRequestRatio": { "cpu": "500m" } }),
            json!({ "type": "Pod", "max": { "cpu": "2" }, "min": { "cpu": "1" }, "maxLimitRequestRatio": { "cpu": "4" } }),
        ] {
            site.post(
                RANGES,
                json!({ "metadata": { "name": "a" }, "spec": { "limits": [limit] } }),
            )
            .await;
        }
    });
}
