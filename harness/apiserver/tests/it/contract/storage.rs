//! Volumes, claims and other kinds of storage, and of the network: growth, immutable fields, checks.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, with};

const CLAIMS: &str = "/api/v1/namespaces/{ns}/persistentvolumeclaims";
const STORAGE: &str = "/apis/storage.k8s.io/v1";
const NETWORKING: &str = "/apis/networking.k8s.io/v1";

fn claim(spec: Value) -> Value {
    let whole = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "2Gi" } } });
    json!({ "metadata": { "name": "a" }, "spec": with(&whole, spec) })
}

fn storage(amount: &str) -> Value {
    json!({ "spec": { "resources": { "requests": { "storage": amount } } } })
}

#[test]
fn a_claim_grows_after_it_is_bound() {
    contract!(async |site: &Site| {
        site.quietly(
            "POST",
            &format!("{STORAGE}/storageclasses"),
            &[],
            json!({
                "metadata": { "name": "{ns}" }, "provisioner": "p.example.com", "allowVolumeExpansion": true,
            }),
        )
        .await;
        site.quietly("POST", CLAIMS, &[], claim(json!({ "storageClassName": "{ns}" })))
            .await;
        let path = format!("{CLAIMS}/a");
        site.causes("unbound", "PATCH", &path, storage("3Gi")).await;
        site.causes("bind", "PATCH", &path, json!({ "spec": { "volumeName": "v" } }))
            .await;
        let bound = json!({ "status": { "phase": "Bound", "capacity": { "storage": "2Gi" } } });
        site.causes("bound", "PATCH", &format!("{path}/status"), bound).await;
        site.causes("more", "PATCH", &path, storage("4Gi")).await;
        site.causes("back", "PATCH", &path, storage("3Gi")).await;
        site.causes("to the capacity", "PATCH", &path, storage("2Gi")).await;
        site.causes("below it", "PATCH", &path, storage("1Gi")).await;
        site.causes(
            "modes",
            "PATCH",
            &path,
            json!({ "spec": { "accessModes": ["ReadOnlyMany"] } }),
        )
        .await;
        site.causes(
            "another volume",
            "PATCH",
            &path,
            json!({ "spec": { "volumeName": "w" } }),
        )
        .await;
        site.quietly("DELETE", &format!("{STORAGE}/storageclasses/{{ns}}"), &[], Value::Null)
            .await;
    });
}

#[test]
fn a_claim_of_a_class_without_expansion_does_not_grow() {
    contract!(async |site: &Site| {
        let class = json!({ "metadata": { "name": "{ns}" }, "provisioner": "p.example.com" });
        site.quietly("POST", &format!("{STORAGE}/storageclasses"), &[], class)
            .await;
        let spec = json!({ "storageClassName": "{ns}", "volumeName": "v" });
        site.quietly("POST", CLAIMS, &[], claim(spec)).await;
        let path = format!("{CLAIMS}/a");
        let bound = json!({ "status": { "phase": "Bound", "capacity": { "storage": "2Gi" } } });
        let headers = [("content-type", "application/merge-patch+json")];
        site.quietly("PATCH", &format!("{path}/status"), &headers, bound).await;
        site.merge(&path, storage("4Gi")).await;
        site.quietly("DELETE", &format!("{STORAGE}/storageclasses/{{ns}}"), &[], Value::Null)
            .await;
    });
}

#[test]
fn a_claim_is_checked() {
    contract!(async |site: &Site| {
        let path = format!("{CLAIMS}?dryRun=All");
        for (what, spec) in [
            ("modes", json!({ "accessModes": [] })),
            ("odd mode", json!({ "accessModes": ["Odd"] })),
            (
                "exclusive mode",
                json!({ "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"] }),
            ),
            ("no storage", json!({ "resources": {} })),
            (
                "negative",
                json!({ "resources": { "requests": { "storage": "-1Gi" } } }),
            ),
            ("zero", json!({ "resources": { "requests": { "storage": "0" } } })),
            ("volume mode", json!({ "volumeMode": "Odd" })),
            ("class", json!({ "storageClassName": "Odd_" })),
            ("source", json!({ "dataSource": { "kind": "Odd", "name": "" } })),
            (
                "selector",
                json!({ "selector": { "matchExpressions": [{ "key": "a", "operator": "Odd" }] } }),
            ),
        ] {
            site.causes(what, "POST", &path, claim(spec)).await;
        }
    });
}

fn volume(spec: Value) -> Value {
    let whole = json!({
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/p" },
    });
    json!({ "metadata": { "name": "{ns}" }, "spec": with(&whole, spec) })
}

#[test]
fn a_volume_is_checked() {
    contract!(async |site: &Site| {
        for (what, spec) in [
            ("negative", json!({ "capacity": { "storage": "-1Gi" } })),
            ("zero", json!({ "capacity": { "storage": "0" } })),
            ("no capacity", json!({ "capacity": {} })),
            ("other capacity", json!({ "capacity": { "cpu": "1" } })),
            ("policy", json!({ "persistentVolumeReclaimPolicy": "Odd" })),
            (
                "recycled root",
                json!({ "persistentVolumeReclaimPolicy": "Recycle", "hostPath": { "path": "/" } }),
            ),
            ("mode", json!({ "volumeMode": "Odd" })),
            ("no modes", json!({ "accessModes": [] })),
            ("relative", json!({ "hostPath": { "path": "../p" } })),
            (
                "csi",
                json!({ "hostPath": null, "csi": { "driver": "", "volumeHandle": "" } }),
            ),
            ("nfs", json!({ "hostPath": null, "nfs": { "server": "", "path": "p" } })),
            ("local", json!({ "hostPath": null, "local": { "path": "/p" } })),
            ("class", json!({ "storageClassName": "Odd_" })),
        ] {
            site.causes(what, "POST", "/api/v1/persistentvolumes?dryRun=All", volume(spec))
                .await;
        }
    });
}

#[test]
fn a_node_with_a_negative_capacity() {
    contract!(async |site: &Site| {
        let node = json!({ "metadata": { "name": "{ns}" }, "status": { "capacity": { "cpu": "-1" } } });
        site.post("/api/v1/nodes", node).await;
        let taints = json!([{ "key": "a b", "value": "c d", "effect": "" }]);
        let node = json!({ "metadata": { "name": "{ns}" }, "spec": { "taints": taints, "podCIDR": "here" } });
        site.causes("taints", "POST", "/api/v1/nodes?dryRun=All", node).await;
    });
}

#[test]
fn a_storage_class_is_checked() {
    contract!(async |site: &Site| {
        let classes = format!("{STORAGE}/storageclasses");
        let class = json!({ "metadata": { "name": "{ns}" }, "provisioner": "p.example.com" });
        for (what, change) in [
            ("provisioner", json!({ "provisioner": "" })),
            ("odd provisioner", json!({ "provisioner": "a b" })),
            ("policy", json!({ "reclaimPolicy": "Odd" })),
            ("mode", json!({ "volumeBindingMode": "Odd" })),
            (
                "topologies",
                json!({ "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "a", "values": [] }] }] }),
            ),
        ] {
            site.causes(what, "POST", &format!("{classes}?dryRun=All"), with(&class, change))
                .await;
        }
        site.quietly("POST", &classes, &[], class).await;
        let path = format!("{classes}/{{ns}}");
        for (what, change) in [
            ("provisioner", json!({ "provisioner": "q.example.com" })),
            ("parameters", json!({ "parameters": { "a": "b" } })),
            ("policy", json!({ "reclaimPolicy": "Retain" })),
            ("mode", json!({ "volumeBindingMode": "WaitForFirstConsumer" })),
            ("expansion", json!({ "allowVolumeExpansion": true })),
        ] {
            site.causes(what, "PATCH", &path, change).await;
        }
        site.quietly("DELETE", &path, &[], Value::Null).await;
    });
}

#[test]
fn a_driver_is_checked() {
    contract!(async |site: &Site| {
        let drivers = format!("{STORAGE}/csidrivers");
        let driver = json!({ "metadata": { "name": "{ns}" }, "spec": {} });
        site.post(&drivers, driver).await;
        let path = format!("{drivers}/{{ns}}");
        for (what, change) in [
            ("attach", json!({ "spec": { "attachRequired": false } })),
            ("info", json!({ "spec": { "podInfoOnMount": true } })),
            ("modes", json!({ "spec": { "volumeLifecycleModes": ["Ephemeral"] } })),
            ("capacity", json!({ "spec": { "storageCapacity": true } })),
            ("policy", json!({ "spec": { "fsGroupPolicy": "Odd" } })),
        ] {
            site.causes(what, "PATCH", &path, change).await;
        }
        site.quietly("DELETE", &path, &[], Value::Null).await;
        let odd = json!({ "metadata": { "name": "{ns}" }, "spec": { "volumeLifecycleModes": ["Odd"] } });
        site.causes("odd mode", "POST", &format!("{drivers}?dryRun=All"), odd)
            .await;
    });
}

#[test]
fn a_lease_with_a_time_in_another_format() {
    contract!(async |site: &Site| {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
        for time in [
            "2026-01-31T12:00:00.123Z",
            "2026-01-31T12:00:00Z",
            "2026-01-31T12:00:00.123456+01:00",
            "2026-01-31",
            "soon",
        ] {
            let lease = json!({ "metadata": { "name": "a" }, "spec": { "renewTime": time } });
            let answer = site.quietly("POST", &format!("{leases}?dryRun=All"), &[], lease).await;
            site.note(&format!("{time}: {} {}", answer.code, answer.body["spec"]["renewTime"]));
        }
    });
}

#[test]
fn a_network_policy_is_checked() {
    contract!(async |site: &Site| {
        let policies = format!("{NETWORKING}/namespaces/{{ns}}/networkpolicies?dryRun=All");
        let policy =
            |spec: Value| json!({ "metadata": { "name": "a" }, "spec": with(&json!({ "podSelector": {} }), spec) });
        let peer = |peer: Value| json!({ "ingress": [{ "from": [peer] }] });
        let port = |port: Value| json!({ "egress": [{ "ports": [port] }] });
        for (what, spec) in [
            ("block", peer(json!({ "ipBlock": { "cidr": "here" } }))),
            (
                "except",
                peer(json!({ "ipBlock": { "cidr": "10.0.0.0/24", "except": ["10.1.0.0/24"] } })),
            ),
            (
                "both",
                peer(json!({ "ipBlock": { "cidr": "10.0.0.0/24" }, "podSelector": {} })),
            ),
            ("neither", peer(json!({}))),
            (
                "selector",
                peer(json!({ "podSelector": { "matchExpressions": [{ "key": "a", "operator": "Odd" }] } })),
            ),
            ("protocol", port(json!({ "port": 80, "protocol": "ICMP" }))),
            ("port", port(json!({ "port": 70_000 }))),
            ("name", port(json!({ "port": "A_" }))),
            ("end", port(json!({ "port": 80, "endPort": 79 }))),
            ("end without port", port(json!({ "endPort": 79 }))),
            ("end of a name", port(json!({ "port": "http", "endPort": 79 }))),
            ("types", json!({ "policyTypes": ["Ingress", "Egress", "Ingress"] })),
        ] {
            site.causes(what, "POST", &policies, policy(spec)).await;
        }
    });
}

#[test]
fn an_ingress_is_checked() {
    contract!(async |site: &Site| {
        let ingresses = format!("{NETWORKING}/namespaces/{{ns}}/ingresses?dryRun=All");
        let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
        let rule = |change: Value| {
            let path = json!({ "path": "/", "pathType": "Prefix", "backend": backend });
            json!({ "rules": [{ "http": { "paths": [with(&path, change)] } }] })
        };
        for (what, spec) in [
            ("host", json!({ "rules": [{ "host": "A_", "http": { "paths": [] } }] })),
            ("address", json!({ "rules": [{ "host": "1.2.3.4" }] })),
            ("wildcard", json!({ "rules": [{ "host": "*.*.example.com" }] })),
            ("no backend", rule(json!({ "backend": {} }))),
            (
                "two backends",
                rule(json!({ "backend": with(&backend, json!({ "resource": { "kind": "K", "name": "n" } })) })),
            ),
            (
                "port",
                rule(json!({ "backend": { "service": { "name": "s", "port": {} } } })),
            ),
            (
                "two ports",
                rule(json!({ "backend": { "service": { "name": "s", "port": { "name": "a", "number": 80 } } } })),
            ),
            (
                "service",
                rule(json!({ "backend": { "service": { "name": "S_", "port": { "number": 80 } } } })),
            ),
            ("type", rule(json!({ "pathType": "Odd" }))),
            ("path", rule(json!({ "path": "/a//b" }))),
            ("class", json!({ "ingressClassName": "A_", "defaultBackend": backend })),
            (
                "tls",
                json!({ "defaultBackend": backend, "tls": [{ "hosts": ["A_"] }] }),
            ),
        ] {
            let ingress = json!({ "metadata": { "name": "a" }, "spec": spec });
            site.causes(what, "POST", &ingresses, ingress).await;
        }
    });
}

#[test]
fn an_endpoint_slice_is_checked() {
    contract!(async |site: &Site| {
        let slices = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices?dryRun=All";
        let slice = |change: Value| {
            with(
                &json!({ "metadata": { "name": "a" }, "addressType": "IPv4", "endpoints": [] }),
                change,
            )
        };
        for (what, change) in [
            ("type", json!({ "addressType": "Odd" })),
            ("no type", json!({ "addressType": "" })),
            ("no address", json!({ "endpoints": [{ "addresses": [] }] })),
            ("address", json!({ "endpoints": [{ "addresses": ["here"] }] })),
            ("family", json!({ "endpoints": [{ "addresses": ["fd00::1"] }] })),
            ("loopback", json!({ "endpoints": [{ "addresses": ["127.0.0.1"] }] })),
            (
                "hostname",
                json!({ "endpoints": [{ "addresses": ["10.0.0.1"], "hostname": "A_" }] }),
            ),
            ("ports", json!({ "ports": [{ "port": 80 }, { "port": 81 }] })),
            ("port", json!({ "ports": [{ "port": 70_000 }] })),
            ("protocol", json!({ "ports": [{ "port": 80, "protocol": "ICMP" }] })),
        ] {
            site.causes(what, "POST", slices, slice(change)).await;
        }
    });
}

#[test]
fn component_statuses() {
    contract!(async |site: &Site| {
        let one = site
            .quietly("GET", "/api/v1/componentstatuses/etcd-0", &[], Value::Null)
            .await;
        site.note(&format!("{} {:#}", one.code, one.body));
        let all = site.quietly("GET", "/api/v1/componentstatuses", &[], Value::Null).await;
        let items = all.body["items"].as_array().unwrap().iter();
        let mut names: Vec<&str> = items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
        // Upstream lists them in any order.
        names.sort_unstable();
        site.note(&format!("{} {} {names:?}", all.code, all.body["kind"]));
        let missing = site
            .quietly("GET", "/api/v1/componentstatuses/odd", &[], Value::Null)
            .await;
        site.note(&format!("{} {}", missing.code, missing.body["message"]));
        let created = site.quietly("POST", "/api/v1/componentstatuses", &[], json!({})).await;
        site.note(&format!("{}", created.code));
    });
}

#[test]
fn deprecated_kinds_have_a_warning() {
    contract!(async |site: &Site| {
        let endpoints = "/api/v1/namespaces/{ns}/endpoints";
        site.post(endpoints, json!({ "metadata": { "name": "a" } })).await;
        site.get(&format!("{endpoints}/a")).await;
        site.step("DELETE", &format!("{endpoints}/a"), Value::Null).await;
    });
}

#[test]
fn a_data_source_of_a_claim() {
    contract!(async |site: &Site| {
        let snapshot = json!({ "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "a" });
        let other = json!({ "kind": "PersistentVolumeClaim", "name": "a" });
        let elsewhere = with(&snapshot, json!({ "namespace": "other" }));
        for (what, sources) in [
            ("empty", json!({ "dataSource": {}, "dataSourceRef": {} })),
            ("kind", json!({ "dataSource": { "kind": "Odd", "name": "a" } })),
            (
                "kind of a reference",
                json!({ "dataSourceRef": { "kind": "Odd", "name": "a" } }),
            ),
            (
                "group",
                json!({ "dataSource": with(&snapshot, json!({ "apiGroup": "A_b" })) }),
            ),
            (
                "group of a reference",
                json!({ "dataSourceRef": with(&snapshot, json!({ "apiGroup": "A_b" })) }),
            ),
            ("others", json!({ "dataSource": snapshot, "dataSourceRef": other })),
            (
                "namespace",
                json!({ "dataSource": snapshot, "dataSourceRef": elsewhere }),
            ),
            (
                "bad namespace",
                json!({ "dataSourceRef": with(&snapshot, json!({ "namespace": "A_b" })) }),
            ),
        ] {
            site.causes(what, "POST", &format!("{CLAIMS}?dryRun=All"), claim(sources))
                .await;
        }
        for (what, sources) in [
            ("source", json!({ "dataSource": snapshot })),
            (
                "other kind of source",
                json!({ "dataSource": { "apiGroup": "example.com", "kind": "Odd", "name": "a" } }),
            ),
            ("reference", json!({ "dataSourceRef": other })),
            (
                "other kind of reference",
                json!({ "dataSourceRef": { "apiGroup": "example.com", "kind": "Odd", "name": "a" } }),
            ),
            ("reference elsewhere", json!({ "dataSourceRef": elsewhere })),
        ] {
            let created = site
                .quietly("POST", &format!("{CLAIMS}?dryRun=All"), &[], claim(sources))
                .await;
            let kinds = ["dataSource", "dataSourceRef"].map(|field| &created.body["spec"][field]["kind"]);
            site.note(&format!("{what}: {} {} {}", created.code, kinds[0], kinds[1]));
        }
    });
}
