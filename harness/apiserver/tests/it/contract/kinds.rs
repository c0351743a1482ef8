//! Kinds that the server stores for others: their defaults, generation, columns and checks.

use serde_json::{Value, json};

use super::contract;
use super::tables::table;

/// Records an object of a kind from its creation to its deletion: the defaults, the columns, and the generation after a
/// change.
async fn lifecycle(site: &super::Site, objects: &str, object: Value, change: Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let path = format!("{objects}/{name}");
    site.post(objects, object).await;
    table(site, &path).await;
    site.merge(&path, change).await;
    site.step("DELETE", &path, Value::Null).await;
}

fn pod() -> Value {
    json!({ "containers": [{ "name": "c", "image": "i:1" }] })
}

fn ends() -> Value {
    json!({ "containers": [{ "name": "c", "image": "i:1" }], "restartPolicy": "Never" })
}

const NETWORKING: &str = "/apis/networking.k8s.io/v1";
const DEVICES: &str = "/apis/resource.k8s.io/v1";
const STORAGE: &str = "/apis/storage.k8s.io/v1";

#[test]
fn a_network_policy() {
    contract!(async |site: &super::Site| {
        let policies = format!("{NETWORKING}/namespaces/{{ns}}/networkpolicies");
        let spec =
            json!({ "podSelector": { "matchLabels": { "app": "web" } }, "egress": [{ "ports": [{ "port": 80 }] }] });
        let policy = json!({ "metadata": { "name": "a" }, "spec": spec });
        lifecycle(site, &policies, policy, json!({ "spec": { "podSelector": null } })).await;
        let wrong = json!({ "podSelector": {}, "policyTypes": ["Both"] });
        site.post(&policies, json!({ "metadata": { "name": "b" }, "spec": wrong }))
            .await;
    });
}

#[test]
fn an_ingress() {
    contract!(async |site: &super::Site| {
        let ingresses = format!("{NETWORKING}/namespaces/{{ns}}/ingresses");
        let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
        let rule = |path: &str, kind: Value| {
            let paths = json!([{ "path": path, "pathType": kind, "backend": backend }]);
            json!({ "host": "a.example.com", "http": { "paths": paths } })
        };
        let hosts = ["a", "b", "c", "d"].map(|name| json!({ "host": format!("{name}.example.com") }));
        let spec = json!({ "ingressClassName": "c", "rules": hosts, "tls": [{ "hosts": ["a.example.com"] }] });
        let ingress = json!({ "metadata": { "name": "a" }, "spec": spec });
        lifecycle(site, &ingresses, ingress, json!({ "spec": { "tls": null } })).await;
        let only_default = json!({ "metadata": { "name": "b" }, "spec": { "defaultBackend": backend } });
        lifecycle(
            site,
            &ingresses,
            only_default,
            json!({ "metadata": { "labels": { "a": "b" } } }),
        )
        .await;
        for rules in [
            Value::Null,
            json!([rule("relative", "Prefix".into())]),
            json!([rule("/", Value::Null)]),
        ] {
            site.post(
                &ingresses,
                json!({ "metadata": { "name": "c" }, "spec": { "rules": rules } }),
            )
            .await;
        }
    });
}

#[test]
fn an_ingress_class() {
    contract!(async |site: &super::Site| {
        let classes = format!("{NETWORKING}/ingressclasses");
        let parameters = json!({ "apiGroup": "example.com", "kind": "P", "name": "p" });
        let spec = json!({ "controller": "example.com/c", "parameters": parameters });
        let class = json!({ "metadata": { "name": "{ns}" }, "spec": spec });
        lifecycle(
            site,
            &classes,
            class,
            json!({ "spec": { "controller": "example.com/d" } }),
        )
        .await;
        site.post(
            &classes,
            json!({ "metadata": { "name": "{ns}" }, "spec": { "controller": "c" } }),
        )
        .await;
    });
}

#[test]
fn a_cron_job() {
    contract!(async |site: &super::Site| {
        let jobs = "/apis/batch/v1/namespaces/{ns}/cronjobs";
        let job = |schedule: &str, pod: Value| {
            let template = json!({ "spec": { "template": { "spec": pod } } });
            json!({ "metadata": { "name": "a" }, "spec": { "schedule": schedule, "jobTemplate": template } })
        };
        lifecycle(
            site,
            jobs,
            job("*/5 * * * *", ends()),
            json!({ "spec": { "suspend": true } }),
        )
        .await;
        site.post(jobs, job("bad", ends())).await;
        site.post(jobs, job("", ends())).await;
        site.post(jobs, job("@daily", pod())).await;
    });
}

#[test]
fn a_horizontal_pod_autoscaler() {
    contract!(async |site: &super::Site| {
        let scalers = "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers";
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" });
        let scaler = |spec: Value| {
            let mut scaler = json!({ "metadata": { "name": "a" }, "spec": spec });
            scaler["spec"]["scaleTargetRef"] = target.clone();
            scaler
        };
        let change = json!({ "spec": { "maxReplicas": 5 } });
        lifecycle(site, scalers, scaler(json!({ "maxReplicas": 3 })), change.clone()).await;
        let metric =
            |name: &str, target: Value| json!({ "type": "Resource", "resource": { "name": name, "target": target } });
        let memory = metric("memory", json!({ "type": "AverageValue", "averageValue": "1Gi" }));
        let cpu = metric("cpu", json!({ "type": "Utilization", "averageUtilization": 50 }));
        let behavior = json!({ "scaleDown": { "stabilizationWindowSeconds": 10 } });
        let spec = json!({
            "minReplicas": 2, "maxReplicas": 3, "metrics": [memory.clone(), cpu, memory], "behavior": behavior,
        });
        lifecycle(site, scalers, scaler(spec), change).await;
        site.post(scalers, scaler(json!({ "maxReplicas": 0 }))).await;
        site.post(scalers, scaler(json!({ "minReplicas": 3, "maxReplicas": 2 })))
            .await;
    });
}

#[test]
fn a_replication_controller() {
    contract!(async |site: &super::Site| {
        let controllers = "/api/v1/namespaces/{ns}/replicationcontrollers";
        let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": pod() });
        let controller = json!({ "metadata": { "name": "a" }, "spec": { "template": template } });
        lifecycle(site, controllers, controller, json!({ "spec": { "replicas": 3 } })).await;
        let spec = json!({ "replicas": -1, "selector": { "a": "b" }, "template": template });
        site.post(controllers, json!({ "metadata": { "name": "b" }, "spec": spec }))
            .await;
    });
}

#[test]
fn a_pod_template() {
    contract!(async |site: &super::Site| {
        let templates = "/api/v1/namespaces/{ns}/podtemplates";
        let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": pod() });
        let object = json!({ "metadata": { "name": "a" }, "template": template });
        let change = json!({ "template": { "metadata": { "labels": { "b": "c" } } } });
        lifecycle(site, templates, object, change).await;
    });
}

#[test]
fn a_runtime_class() {
    contract!(async |site: &super::Site| {
        let classes = "/apis/node.k8s.io/v1/runtimeclasses";
        let class = json!({ "metadata": { "name": "{ns}" }, "handler": "h" });
        lifecycle(site, classes, class, json!({ "handler": "other" })).await;
        site.post(classes, json!({ "metadata": { "name": "{ns}" }, "handler": "H_" }))
            .await;
    });
}

#[test]
fn a_storage_capacity() {
    contract!(async |site: &super::Site| {
        let capacities = format!("{STORAGE}/namespaces/{{ns}}/csistoragecapacities");
        let capacity = json!({ "metadata": { "name": "a" }, "storageClassName": "s", "capacity": "1Gi" });
        lifecycle(site, &capacities, capacity, json!({ "storageClassName": "other" })).await;
        site.post(&capacities, json!({ "metadata": { "name": "b" } })).await;
    });
}

#[test]
fn a_volume_attributes_class() {
    contract!(async |site: &super::Site| {
        let classes = format!("{STORAGE}/volumeattributesclasses");
        // A real server adds a finalizer, which a controller removes.
        let parameters = json!({ "a": "b" });
        let class = json!({ "metadata": { "name": "{ns}" }, "driverName": "d.example.com", "parameters": parameters });
        site.step("POST", &classes, class).await;
        table(site, &format!("{classes}/{{ns}}")).await;
        site.merge(&format!("{classes}/{{ns}}"), json!({ "driverName": "other" }))
            .await;
        site.quietly(
            "PATCH",
            &format!("{classes}/{{ns}}"),
            &[("content-type", "application/merge-patch+json")],
            json!({
                "metadata": { "finalizers": null },
            }),
        )
        .await;
        site.step("DELETE", &format!("{classes}/{{ns}}"), Value::Null).await;
        site.post(&classes, json!({ "metadata": { "name": "{ns}" }, "driverName": "" }))
            .await;
    });
}

#[test]
fn a_claim_for_devices() {
    contract!(async |site: &super::Site| {
        for request in [
            json!({ "name": "r", "exactly": { "deviceClassName": "c" } }),
            json!({ "name": "r", "exactly": { "deviceClassName": "c", "allocationMode": "All" } }),
        ] {
            let spec = json!({ "devices": { "requests": [request] } });
            let claim = json!({ "metadata": { "name": "a" }, "spec": spec });
            let change = json!({ "metadata": { "labels": { "a": "b" } } });
            let claims = format!("{DEVICES}/namespaces/{{ns}}/resourceclaims");
            lifecycle(site, &claims, claim, change.clone()).await;
            let template = json!({ "metadata": { "name": "a" }, "spec": { "spec": spec } });
            let templates = format!("{DEVICES}/namespaces/{{ns}}/resourceclaimtemplates");
            lifecycle(site, &templates, template, change).await;
        }
    });
}

#[test]
fn devices_and_their_class() {
    contract!(async |site: &super::Site| {
        let selector = json!({ "cel": { "expression": "device.driver == 'd.example.com'" } });
        let class = json!({ "metadata": { "name": "{ns}" }, "spec": { "selectors": [selector] } });
        lifecycle(
            site,
            &format!("{DEVICES}/deviceclasses"),
            class,
            json!({ "spec": { "selectors": null } }),
        )
        .await;
        let pool = json!({ "name": "p", "generation": 1, "resourceSliceCount": 1 });
        let spec = json!({ "driver": "d.example.com", "nodeName": "n-1", "pool": pool, "devices": [{ "name": "d" }] });
        let slice = json!({ "metadata": { "name": "{ns}" }, "spec": spec });
        let change = json!({ "spec": { "devices": [{ "name": "e" }] } });
        lifecycle(site, &format!("{DEVICES}/resourceslices"), slice, change).await;
    });
}
