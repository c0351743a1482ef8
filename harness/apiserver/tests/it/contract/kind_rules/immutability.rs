//! What an update cannot change, kind by kind.

use serde_json::{Value, json};

use super::{Site, changed, contract};

/// Creates an object, tries these changes, and deletes it.
async fn fixed(site: &Site, objects: &str, object: Value, changes: &[(&str, Value)]) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    site.step("POST", objects, object).await;
    let path = format!("{objects}/{name}");
    for (what, change) in changes {
        changed(site, what, &path, change.clone(), "/metadata/name").await;
    }
    site.quietly("DELETE", &path, &[], Value::Null).await;
}

#[test]
fn of_config_maps_and_secrets() {
    contract!(async |site: &Site| {
        let object = json!({ "metadata": { "name": "a" }, "data": { "k": "MQ==" }, "immutable": true });
        let changes = [
            ("data", json!({ "data": { "k": "Mg==" } })),
            ("more data", json!({ "data": { "l": "Mg==" } })),
            ("mutable", json!({ "immutable": false })),
            ("unset", json!({ "immutable": null })),
            ("labels", json!({ "metadata": { "labels": { "a": "b" } } })),
        ];
        fixed(site, "/api/v1/namespaces/{ns}/configmaps", object.clone(), &changes).await;
        fixed(site, "/api/v1/namespaces/{ns}/secrets", object, &changes).await;
    });
}

#[test]
fn of_classes_of_storage() {
    contract!(async |site: &Site| {
        let class = json!({ "metadata": { "name": "{ns}" }, "provisioner": "x.io/a", "parameters": { "a": "1" }, "mountOptions": ["ro"] });
        fixed(
            site,
            "/apis/storage.k8s.io/v1/storageclasses",
            class,
            &[
                ("provisioner", json!({ "provisioner": "x.io/b" })),
                ("parameters", json!({ "parameters": { "a": "2" } })),
                ("reclaim policy", json!({ "reclaimPolicy": "Retain" })),
                ("binding mode", json!({ "volumeBindingMode": "WaitForFirstConsumer" })),
                ("expansion", json!({ "allowVolumeExpansion": true })),
                ("mount options", json!({ "mountOptions": [] })),
            ],
        )
        .await;
        let class = json!({ "metadata": { "name": "{ns}" }, "driverName": "x.io", "parameters": { "a": "1" } });
        fixed(
            site,
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            class,
            &[
                ("driver", json!({ "driverName": "y.io" })),
                ("parameters", json!({ "parameters": { "a": "2" } })),
            ],
        )
        .await;
    });
}

#[test]
fn of_drivers_and_attachments() {
    contract!(async |site: &Site| {
        let driver =
            json!({ "metadata": { "name": "{ns}" }, "spec": { "podInfoOnMount": true, "fsGroupPolicy": "File" } });
        fixed(
            site,
            "/apis/storage.k8s.io/v1/csidrivers",
            driver,
            &[
                ("attachment", json!({ "spec": { "attachRequired": false } })),
                ("pod information", json!({ "spec": { "podInfoOnMount": false } })),
                ("modes", json!({ "spec": { "volumeLifecycleModes": ["Ephemeral"] } })),
                ("groups", json!({ "spec": { "fsGroupPolicy": "None" } })),
                ("capacity", json!({ "spec": { "storageCapacity": true } })),
                ("republishing", json!({ "spec": { "requiresRepublish": true } })),
            ],
        )
        .await;
        let node = json!({ "metadata": { "name": "{ns}" }, "spec": { "drivers": [{ "name": "x.io", "nodeID": "n", "topologyKeys": ["z"] }] } });
        fixed(site, "/apis/storage.k8s.io/v1/csinodes", node, &[
            ("node", json!({ "spec": { "drivers": [{ "name": "x.io", "nodeID": "m", "topologyKeys": ["z"] }] } })),
            ("another driver", json!({ "spec": { "drivers": [{ "name": "x.io", "nodeID": "n", "topologyKeys": ["z"] }, { "name": "y.io", "nodeID": "n" }] } })),
            ("removed", json!({ "spec": { "drivers": [] } })),
        ]).await;
    });
}

#[test]
fn of_classes_of_scheduling_and_networking() {
    contract!(async |site: &Site| {
        let class = json!({ "metadata": { "name": "{ns}" }, "value": 5 });
        fixed(
            site,
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            class,
            &[
                ("value", json!({ "value": 6 })),
                ("policy", json!({ "preemptionPolicy": "Never" })),
                ("text", json!({ "description": "x" })),
            ],
        )
        .await;
        let class = json!({ "metadata": { "name": "{ns}" }, "handler": "a" });
        fixed(
            site,
            "/apis/node.k8s.io/v1/runtimeclasses",
            class,
            &[("handler", json!({ "handler": "b" }))],
        )
        .await;
        let class = json!({ "metadata": { "name": "{ns}" }, "spec": { "controller": "x.io/a" } });
        fixed(
            site,
            "/apis/networking.k8s.io/v1/ingressclasses",
            class,
            &[
                ("controller", json!({ "spec": { "controller": "x.io/b" } })),
                (
                    "parameters",
                    json!({ "spec": { "parameters": { "kind": "P", "name": "p" } } }),
                ),
            ],
        )
        .await;
    });
}

#[test]
fn of_bindings_of_roles() {
    contract!(async |site: &Site| {
        let role = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name });
        let binding = json!({ "metadata": { "name": "a" }, "roleRef": role("view") });
        fixed(
            site,
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings",
            binding,
            &[
                ("role", json!({ "roleRef": role("edit") })),
                ("kind", json!({ "roleRef": { "kind": "Role" } })),
                (
                    "subjects",
                    json!({ "subjects": [{ "kind": "User", "name": "me", "apiGroup": "rbac.authorization.k8s.io" }] }),
                ),
            ],
        )
        .await;
    });
}

#[test]
fn of_slices_and_endpoints() {
    contract!(async |site: &Site| {
        let slice =
            json!({ "metadata": { "name": "a" }, "addressType": "IPv4", "endpoints": [{ "addresses": ["10.0.0.1"] }] });
        fixed(
            site,
            "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices",
            slice,
            &[
                (
                    "type",
                    json!({ "addressType": "FQDN", "endpoints": [{ "addresses": ["a.example.com"] }] }),
                ),
                ("endpoints", json!({ "endpoints": [{ "addresses": ["10.0.0.2"] }] })),
            ],
        )
        .await;
    });
}

#[test]
fn of_volumes() {
    contract!(async |site: &Site| {
        let spec = json!({
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "csi": { "driver": "x.io", "volumeHandle": "h" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "a", "operator": "Exists" }] }] } },
        });
        fixed(
            site,
            "/api/v1/persistentvolumes",
            json!({ "metadata": { "name": "{ns}" }, "spec": spec }),
            &[
                ("handle", json!({ "spec": { "csi": { "volumeHandle": "i" } } })),
                (
                    "source",
                    json!({ "spec": { "csi": null, "hostPath": { "path": "/a" } } }),
                ),
                ("capacity", json!({ "spec": { "capacity": { "storage": "2Gi" } } })),
                ("modes", json!({ "spec": { "accessModes": ["ReadOnlyMany"] } })),
                (
                    "policy",
                    json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } }),
                ),
                ("volume mode", json!({ "spec": { "volumeMode": "Block" } })),
                ("affinity", json!({ "spec": { "nodeAffinity": null } })),
                (
                    "claim",
                    json!({ "spec": { "claimRef": { "namespace": "{ns}", "name": "c" } } }),
                ),
                ("class", json!({ "spec": { "storageClassName": "x" } })),
            ],
        )
        .await;
    });
}

#[test]
fn of_stateful_sets_and_replica_sets() {
    contract!(async |site: &Site| {
        let spec = json!({ "serviceName": "s", "selector": super::selector(), "template": super::template(json!({})) });
        let apps = "/apis/apps/v1/namespaces/{ns}";
        fixed(
            site,
            &format!("{apps}/statefulsets"),
            json!({ "metadata": { "name": "a" }, "spec": spec }),
            &[
                ("service", json!({ "spec": { "serviceName": "t" } })),
                ("management", json!({ "spec": { "podManagementPolicy": "Parallel" } })),
                ("replicas", json!({ "spec": { "replicas": 3 } })),
                (
                    "image",
                    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "i:2" }] } } } }),
                ),
                (
                    "strategy",
                    json!({ "spec": { "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } } }),
                ),
                ("ready seconds", json!({ "spec": { "minReadySeconds": 5 } })),
                ("ordinals", json!({ "spec": { "ordinals": { "start": 5 } } })),
                (
                    "retention",
                    json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" } } }),
                ),
                ("revisions", json!({ "spec": { "revisionHistoryLimit": 3 } })),
                (
                    "labels of the template",
                    json!({ "spec": { "template": { "metadata": { "labels": { "app": "y" } } } } }),
                ),
            ],
        )
        .await;
        let spec = json!({ "selector": super::selector(), "template": super::template(json!({})) });
        fixed(
            site,
            &format!("{apps}/replicasets"),
            json!({ "metadata": { "name": "a" }, "spec": spec }),
            &[
                (
                    "selector",
                    json!({ "spec": { "selector": { "matchLabels": { "app": "y" } } } }),
                ),
                (
                    "image",
                    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "i:2" }] } } } }),
                ),
                (
                    "labels of the template",
                    json!({ "spec": { "template": { "metadata": { "labels": { "app": "y" } } } } }),
                ),
            ],
        )
        .await;
    });
}
