//! Forms of values: quantities, times, numbers, empty and null members.

use serde_json::{Value, json};

use super::super::site::Site;
use super::{DEPLOYMENTS, PODS, contract, deployment, pod};

/// Creates an object in a dry run and records a part of it, or the error's code and reason.
async fn part(site: &Site, what: &str, path: &str, object: Value, pointer: &str) {
    let answer = site.quietly("POST", &format!("{path}?dryRun=All"), &[], object).await;
    let result = match answer.body["reason"].as_str() {
        Some(reason) => {
            let cause = &answer.body["details"]["causes"][0]["field"];
            format!("{reason} {cause}")
        }
        None => answer.body.pointer(pointer).unwrap_or(&Value::Null).to_string(),
    };
    site.note(&format!("{what}: {} {result}", answer.code));
}

#[test]
fn quantities_have_one_form() {
    contract!(async |site: &Site| {
        for text in [
            "0.5", "1000m", "1500m", "1e3", "1.5", "0.1", "100u", "2k", "1024", "1e-3", "12e6", "0", "00.50", ".5",
            "1n", "0.0001",
        ] {
            let mut object = pod("a");
            object["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": text } });
            part(site, text, PODS, object, "/spec/containers/0/resources/limits/cpu").await;
        }
        for text in [
            "1024Ki",
            "1000Ki",
            "1.5Gi",
            "0.5Mi",
            "1536Mi",
            "1M",
            "1000M",
            "128974848",
            "129e6",
            "1Ei",
            "1G5",
            "1 Gi",
            "",
        ] {
            let mut object = pod("a");
            object["spec"]["containers"][0]["resources"] = json!({ "limits": { "memory": text } });
            part(site, text, PODS, object, "/spec/containers/0/resources/limits/memory").await;
        }
    });
}

#[test]
fn quantities_can_be_numbers() {
    contract!(async |site: &Site| {
        for value in [
            json!(1),
            json!(0.5),
            json!(1.0),
            json!(1e3),
            json!(-1),
            json!(true),
            Value::Null,
        ] {
            let mut object = pod("a");
            object["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": value } });
            part(
                site,
                &value.to_string(),
                PODS,
                object,
                "/spec/containers/0/resources/limits/cpu",
            )
            .await;
        }
    });
}

#[test]
fn numbers_are_whole() {
    contract!(async |site: &Site| {
        for text in [
            "2",
            "2.0",
            "2e0",
            "20e-1",
            "2.5",
            "\"2\"",
            "2147483648",
            "-1",
            "null",
            "true",
            "[]",
        ] {
            let body =
                deployment("a")
                    .to_string()
                    .replacen("\"spec\":{", &format!("\"spec\":{{\"replicas\":{text},"), 1);
            part(site, text, DEPLOYMENTS, body.into(), "/spec/replicas").await;
        }
    });
}

#[test]
fn times_have_one_form() {
    contract!(async |site: &Site| {
        let nodes = "/api/v1/nodes";
        for text in [
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05+02:00",
            "2026-01-02T03:04:05.999Z",
            "2026-01-02t03:04:05z",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "",
        ] {
            let taint = json!({ "key": "a", "effect": "NoExecute", "timeAdded": text });
            let node = json!({ "metadata": { "name": "a.{ns}" }, "spec": { "taints": [taint] } });
            let answer = site.quietly("POST", &format!("{nodes}?dryRun=All"), &[], node).await;
            let taints = answer.body["spec"]["taints"].as_array().into_iter().flatten();
            let kept = taints
                .filter(|taint| taint["key"] == "a")
                .map(|taint| taint["timeAdded"].as_str().unwrap_or("none").len());
            site.note(&format!(
                "{text}: {} {:?} {}",
                answer.code,
                kept.collect::<Vec<_>>(),
                answer.body["reason"]
            ));
        }
    });
}

#[test]
fn numbers_or_texts() {
    contract!(async |site: &Site| {
        let services = "/api/v1/namespaces/{ns}/services";
        for value in [
            json!(80),
            json!("80"),
            json!("web"),
            json!(0),
            json!(""),
            json!(80.0),
            json!(65536),
            json!("Web"),
            json!(true),
            Value::Null,
        ] {
            let service =
                json!({ "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 80, "targetPort": value }] } });
            part(site, &value.to_string(), services, service, "/spec/ports/0/targetPort").await;
        }
        for value in [
            json!(1),
            json!("50%"),
            json!("150%"),
            json!("1"),
            json!(-1),
            json!("-1%"),
            json!("x"),
        ] {
            let mut object = deployment("a");
            object["spec"]["strategy"] = json!({ "rollingUpdate": { "maxSurge": value } });
            part(
                site,
                &value.to_string(),
                DEPLOYMENTS,
                object,
                "/spec/strategy/rollingUpdate/maxSurge",
            )
            .await;
        }
    });
}

#[test]
fn empty_and_null_members_are_dropped_or_kept() {
    contract!(async |site: &Site| {
        for (what, change) in [
            (
                "null labels",
                json!({ "metadata": { "name": "a", "labels": null, "annotations": {} } }),
            ),
            (
                "empty lists",
                json!({ "metadata": { "name": "a", "finalizers": [], "ownerReferences": [] } }),
            ),
            (
                "empty texts",
                json!({ "metadata": { "name": "a", "labels": { "a": "" }, "annotations": { "b": "" } } }),
            ),
        ] {
            let mut object = pod("a");
            object["metadata"] = change["metadata"].clone();
            let answer = site.quietly("POST", &format!("{PODS}?dryRun=All"), &[], object).await;
            let mut metadata = answer.body["metadata"].clone();
            for field in [
                "uid",
                "creationTimestamp",
                "managedFields",
                "resourceVersion",
                "generation",
            ] {
                metadata.as_object_mut().unwrap().remove(field);
            }
            site.note(&format!("{what}: {metadata}"));
        }
        for (what, spec) in [
            ("null", Value::Null),
            ("empty", json!({})),
            ("a null list", json!({ "containers": null })),
            ("a null item", json!({ "containers": [null] })),
        ] {
            part(
                site,
                what,
                PODS,
                json!({ "metadata": { "name": "a" }, "spec": spec }),
                "/spec",
            )
            .await;
        }
        let mut object = pod("a");
        object["spec"]["nodeSelector"] = json!({});
        object["spec"]["tolerations"] = json!([]);
        object["spec"]["securityContext"] = json!({});
        object["spec"]["volumes"] = json!([]);
        part(site, "node selector", PODS, object.clone(), "/spec/nodeSelector").await;
        part(site, "volumes", PODS, object, "/spec/volumes").await;
    });
}

#[test]
fn durations_and_ports_of_probes() {
    contract!(async |site: &Site| {
        for (what, probe) in [
            ("http", json!({ "httpGet": { "port": 80 } })),
            ("named port", json!({ "httpGet": { "port": "web", "path": "x" } })),
            ("grpc", json!({ "grpc": { "port": 80 } })),
            (
                "exec",
                json!({ "exec": { "command": ["a"] }, "periodSeconds": 0, "timeoutSeconds": 0 }),
            ),
            (
                "two",
                json!({ "exec": { "command": ["a"] }, "tcpSocket": { "port": 80 } }),
            ),
            ("none", json!({})),
            ("negative", json!({ "exec": { "command": ["a"] }, "periodSeconds": -1 })),
            ("a port", json!({ "tcpSocket": { "port": 0 } })),
            (
                "a threshold",
                json!({ "exec": { "command": ["a"] }, "successThreshold": 2 }),
            ),
        ] {
            let mut object = pod("a");
            object["spec"]["containers"][0]["livenessProbe"] = probe;
            part(site, what, PODS, object, "/spec/containers/0/livenessProbe").await;
        }
    });
}
