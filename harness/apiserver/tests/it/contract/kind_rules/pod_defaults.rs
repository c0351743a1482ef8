//! Defaults of pods: volumes, containers, affinities, qualities.

use serde_json::{Value, json};

use super::{PODS, Site, contract, part, pod};

#[test]
fn of_containers() {
    contract!(async |site: &Site| {
        for container in [
            json!({ "image": "i" }),
            json!({ "image": "i:latest" }),
            json!({ "image": "i@sha256:0123456789012345678901234567890123456789012345678901234567890123" }),
            json!({ "readinessProbe": { "httpGet": { "port": 80 } } }),
            json!({ "startupProbe": { "grpc": { "port": 80 } } }),
            json!({ "lifecycle": { "preStop": { "httpGet": { "port": 80 } } } }),
            json!({ "lifecycle": { "postStart": { "sleep": { "seconds": 5 } } } }),
            json!({ "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }] }),
            json!({ "env": [{ "name": "A", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } }] }),
            json!({ "resources": { "limits": { "cpu": "1", "x.io/a": "1" }, "requests": { "memory": "1Gi" } } }),
            json!({ "ports": [{ "containerPort": 80 }] }),
            json!({ "securityContext": { "procMount": null, "privileged": true } }),
            json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v", "readOnly": true, "recursiveReadOnly": "Disabled" }] }),
            json!({ "resizePolicy": [{ "resourceName": "cpu", "restartPolicy": "RestartContainer" }], "resources": { "limits": { "cpu": "1", "memory": "1Mi" } } }),
            json!({ "terminationMessagePolicy": "FallbackToLogsOnError", "tty": true, "stdin": true }),
        ] {
            let object = pod(
                "a",
                json!({ "volumes": [{ "name": "v", "emptyDir": {} }] }),
                container.clone(),
            );
            part(site, &container.to_string(), PODS, object, "/spec/containers/0").await;
        }
    });
}

#[test]
fn of_sidecars() {
    contract!(async |site: &Site| {
        let init = |change: Value| {
            let mut container = json!({ "name": "i", "image": "i:1" });
            container
                .as_object_mut()
                .unwrap()
                .extend(change.as_object().unwrap().clone());
            pod("a", json!({ "initContainers": [container] }), json!({}))
        };
        for change in [
            json!({}),
            json!({ "restartPolicy": "Always" }),
            json!({ "restartPolicy": "Never" }),
            json!({ "restartPolicy": "Always", "readinessProbe": { "exec": { "command": ["a"] } } }),
            json!({ "readinessProbe": { "exec": { "command": ["a"] } } }),
            json!({ "lifecycle": { "preStop": { "exec": { "command": ["a"] } } } }),
            json!({ "name": "c" }),
            json!({ "restartPolicy": "Always", "lifecycle": { "preStop": { "exec": { "command": ["a"] } } } }),
        ] {
            part(
                site,
                &change.to_string(),
                PODS,
                init(change.clone()),
                "/spec/initContainers/0/restartPolicy",
            )
            .await;
        }
        let rules = json!({ "restartPolicy": "Never", "restartPolicyRules": [{ "action": "Restart", "exitCodes": { "operator": "In", "values": [42] } }] });
        part(site, "rules", PODS, pod("a", json!({}), rules), "/spec/containers/0").await;
        part(
            site,
            "a container",
            PODS,
            pod("a", json!({}), json!({ "restartPolicy": "Always" })),
            "/spec/containers/0/restartPolicy",
        )
        .await;
    });
}

#[test]
fn of_spreads_and_affinities() {
    contract!(async |site: &Site| {
        let spread = |change: Value| {
            let mut spread = json!({ "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "a": "b" } } });
            spread
                .as_object_mut()
                .unwrap()
                .extend(change.as_object().unwrap().clone());
            json!({ "topologySpreadConstraints": [spread] })
        };
        for change in [
            json!({}),
            json!({ "maxSkew": 0 }),
            json!({ "topologyKey": "" }),
            json!({ "whenUnsatisfiable": "Other" }),
            json!({ "minDomains": 2 }),
            json!({ "minDomains": 0 }),
            json!({ "minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway" }),
            json!({ "nodeAffinityPolicy": "Other" }),
            json!({ "matchLabelKeys": ["x"] }),
            json!({ "matchLabelKeys": ["a"] }),
        ] {
            part(
                site,
                &change.to_string(),
                PODS,
                pod("a", spread(change.clone()), json!({})),
                "/spec/topologySpreadConstraints",
            )
            .await;
        }
        let term = |change: Value| {
            let mut term = json!({ "topologyKey": "z", "labelSelector": {} });
            term.as_object_mut()
                .unwrap()
                .extend(change.as_object().unwrap().clone());
            json!({ "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 5, "podAffinityTerm": term }] } } })
        };
        for change in [
            json!({}),
            json!({ "topologyKey": "" }),
            json!({ "namespaces": ["A"] }),
            json!({ "matchLabelKeys": ["a"] }),
            json!({ "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } }),
        ] {
            part(
                site,
                &format!("affinity {change}"),
                PODS,
                pod("a", term(change.clone()), json!({})),
                "/spec/affinity",
            )
            .await;
        }
    });
}

#[test]
fn of_qualities() {
    contract!(async |site: &Site| {
        let of = |requests: Value, limits: Value| json!({ "resources": { "requests": requests, "limits": limits } });
        let both = json!({ "cpu": "1", "memory": "1Mi" });
        for (what, container) in [
            ("nothing", json!({})),
            ("limits", of(Value::Null, both.clone())),
            ("one limit", of(Value::Null, json!({ "cpu": "1" }))),
            ("requests", of(both.clone(), Value::Null)),
            ("equal", of(both.clone(), both.clone())),
            (
                "in other units",
                of(json!({ "cpu": "1000m", "memory": "1024Ki" }), both.clone()),
            ),
            ("zero", of(json!({ "cpu": "0" }), json!({ "cpu": "0" }))),
            ("others", of(json!({ "ephemeral-storage": "1Gi" }), Value::Null)),
            ("more requested", of(json!({ "cpu": "2" }), json!({ "cpu": "1" }))),
        ] {
            part(site, what, PODS, pod("a", json!({}), container), "/status/qosClass").await;
        }
    });
}
