//! Who owns the fields of ordinary writes.

use super::*;

#[test]
fn a_creator_owns_what_it_sets_and_the_defaults() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}?fieldManager=creator");
        site.post(&path, map(json!({ "key": "1" }))).await;
        let path = format!("{DEPLOYMENTS}?fieldManager=creator");
        let ports = json!([{ "containerPort": 80 }, { "containerPort": 80, "protocol": "UDP" }]);
        let containers = json!([{ "name": "c", "image": "i", "ports": ports, "env": [{ "name": "A", "value": "1" }] }]);
        site.post(&path, with_containers(containers)).await;
    });
}

#[test]
fn a_writer_owns_what_it_changes() {
    contract!(async |site: &Site| {
        site.keep_managers();
        site.step(
            "POST",
            &format!("{MAPS}?fieldManager=creator"),
            map(json!({ "a": "1", "b": "1" })),
        )
        .await;
        let path = format!("{MAPS}/a");
        site.merge(
            &format!("{path}?fieldManager=patcher"),
            json!({ "data": { "b": "2", "c": "2" } }),
        )
        .await;
        site.merge(
            &format!("{path}?fieldManager=creator"),
            json!({ "data": { "c": null } }),
        )
        .await;
        site.patch(
            &format!("{path}?fieldManager=pointer"),
            "json-patch",
            json!([{ "op": "add", "path": "/metadata/labels", "value": { "l": "m" } }]),
        )
        .await;
        site.put(&format!("{path}?fieldManager=updater"), map(json!({ "a": "3" })))
            .await;
        site.merge(&format!("{path}?fieldManager=idle"), json!({ "data": { "a": "3" } }))
            .await;
    });
}

#[test]
fn a_writer_without_a_name_is_called_after_its_program() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let headers = [
            ("user-agent", "kubectl/v1.36.3 (linux/amd64) kubernetes/abc"),
            ("content-type", "application/json"),
        ];
        site.send("POST", MAPS, &headers, map(json!({ "a": "1" }))).await;
        let headers = [
            ("user-agent", "a program"),
            ("content-type", "application/merge-patch+json"),
        ];
        site.send("PATCH", &format!("{MAPS}/a"), &headers, json!({ "data": { "a": "2" } }))
            .await;
    });
}

#[test]
fn a_client_can_edit_or_reset_the_managers() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let mut created = site
            .post(&format!("{MAPS}?fieldManager=creator"), map(json!({ "a": "1" })))
            .await
            .body;
        let path = format!("{MAPS}/a");
        created["metadata"]["managedFields"][0]["manager"] = "renamed".into();
        created["metadata"]["resourceVersion"] = Value::Null;
        site.put(&format!("{path}?fieldManager=updater"), created).await;
        site.merge(
            &format!("{path}?fieldManager=a"),
            json!({ "metadata": { "managedFields": [{ "manager": "x" }] } }),
        )
        .await;
        site.merge(
            &format!("{path}?fieldManager=a"),
            json!({ "metadata": { "managedFields": [{}] } }),
        )
        .await;
        site.merge(&format!("{path}?fieldManager=a"), json!({ "data": { "b": "1" } }))
            .await;
        site.apply(&path, "applier", map(json!({ "c": "1" }))).await;
        site.merge(
            &format!("{path}?fieldManager=a"),
            json!({ "metadata": { "managedFields": [] } }),
        )
        .await;
    });
}

#[test]
fn the_managers_of_a_new_object_can_be_given() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let mut object = map(json!({ "a": "1" }));
        object["metadata"]["managedFields"] = json!([{
            "manager": "other", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:data": { "f:a": {} } }, "time": "2026-01-01T00:00:00Z",
        }]);
        site.post(&format!("{MAPS}?fieldManager=creator"), object.clone()).await;
        object["metadata"]["name"] = "b".into();
        object["metadata"]["managedFields"][0]["operation"] = "Other".into();
        site.post(&format!("{MAPS}?fieldManager=creator"), object).await;
    });
}

#[test]
fn old_managers_of_updates_are_merged() {
    contract!(async |site: &Site| {
        site.keep_managers();
        site.step("POST", &format!("{MAPS}?fieldManager=m00"), map(json!({ "k0": "1" })))
            .await;
        for number in 1..13 {
            let path = format!("{MAPS}/a?fieldManager=m{number:02}");
            let key = format!("k{number}");
            site.quietly(
                "PATCH",
                &path,
                &[("content-type", "application/merge-patch+json")],
                json!({ "data": { key: "1" } }),
            )
            .await;
        }
        site.get(&format!("{MAPS}/a")).await;
    });
}

#[test]
fn a_status_has_managers_of_its_own() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{DEPLOYMENTS}?fieldManager=creator");
        site.step("POST", &path, with_containers(json!([{ "name": "c", "image": "i" }])))
            .await;
        let status = format!("{DEPLOYMENTS}/a/status?fieldManager=controller");
        let body = json!({
            "status": { "replicas": 1, "conditions": [{ "type": "Available", "status": "True" }] },
            "spec": { "paused": true }, "metadata": { "labels": { "x": "y" }, "annotations": { "n": "m" } },
        });
        site.merge(&status, body).await;
        site.merge(
            &format!("{DEPLOYMENTS}/a?fieldManager=other"),
            json!({ "status": { "replicas": 5 } }),
        )
        .await;
    });
}

#[test]
fn kinds_differ_in_what_a_creation_owns() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let of = |kind: &str, version: &str, rest: Value| {
            let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "a" } });
            for (name, value) in rest.as_object().unwrap() {
                object[name] = value.clone();
            }
            object
        };
        for (path, object) in [
            (
                "/api/v1/namespaces/{ns}/secrets",
                of("Secret", "v1", json!({ "stringData": { "a": "b" } })),
            ),
            (
                "/api/v1/namespaces/{ns}/serviceaccounts",
                of("ServiceAccount", "v1", json!({})),
            ),
            (
                "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
                of(
                    "Lease",
                    "coordination.k8s.io/v1",
                    json!({ "spec": { "holderIdentity": "x", "leaseDurationSeconds": 5 } }),
                ),
            ),
            (
                "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
                of(
                    "PodDisruptionBudget",
                    "policy/v1",
                    json!({ "spec": { "minAvailable": "50%", "selector": { "matchLabels": { "a": "b" } } } }),
                ),
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
                of(
                    "Role",
                    "rbac.authorization.k8s.io/v1",
                    json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] }),
                ),
            ),
            (
                "/api/v1/namespaces/{ns}/persistentvolumeclaims",
                of(
                    "PersistentVolumeClaim",
                    "v1",
                    json!({ "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }),
                ),
            ),
        ] {
            let path = format!("{path}?fieldManager=creator");
            site.post(&path, object).await;
        }
    });
}

#[test]
fn a_pod_is_owned_without_what_admission_adds() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let pod = json!({
            "metadata": { "name": "a", "labels": { "app": "a" } },
            "spec": {
                "serviceAccountName": "default", "automountServiceAccountToken": false,
                "containers": [{
                    "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } },
                    "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
                    "livenessProbe": { "exec": { "command": ["true"] } },
                }],
                "volumes": [{ "name": "v", "emptyDir": {} }],
                "tolerations": [{ "key": "k", "operator": "Exists" }],
            },
        });
        let created = site
            .quietly("POST", &format!("{PODS}?fieldManager=creator"), &[], pod)
            .await;
        site.note(&serde_json::to_string_pretty(&created.body["metadata"]["managedFields"][0]["fieldsV1"]).unwrap());
        let path = format!("{PODS}/a/status?fieldManager=kubelet");
        let status = json!({ "status": { "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }],
            "conditions": [{ "type": "Ready", "status": "True" }] } });
        let changed = site
            .quietly(
                "PATCH",
                &path,
                &[("content-type", "application/strategic-merge-patch+json")],
                status,
            )
            .await;
        for entry in changed.body["metadata"]["managedFields"].as_array().unwrap() {
            site.note(
                &serde_json::to_string_pretty(
                    &json!({ "manager": entry["manager"], "fields": entry["fieldsV1"], "of": entry["subresource"] }),
                )
                .unwrap(),
            );
        }
    });
}
