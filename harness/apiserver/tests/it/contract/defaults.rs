//! Defaults and checks that manifests of public projects depend on.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, with};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments?dryRun=All";
const PODS: &str = "/api/v1/namespaces/{ns}/pods?dryRun=All";
const SECRETS: &str = "/api/v1/namespaces/{ns}/secrets?dryRun=All";
const SERVICES: &str = "/api/v1/namespaces/{ns}/services?dryRun=All";
const SETS: &str = "/apis/apps/v1/namespaces/{ns}/statefulsets?dryRun=All";

fn pod_spec(change: Value) -> Value {
    with(
        &json!({ "containers": [{ "name": "c", "image": "example.com/i:1" }] }),
        change,
    )
}

fn workload(pod: Value, change: Value) -> Value {
    let spec = json!({
        "selector": { "matchLabels": { "a": "b" } }, "serviceName": "s",
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": pod },
    });
    let mut spec = with(&spec, change);
    if spec["serviceName"].is_null() {
        spec.as_object_mut().unwrap().remove("serviceName");
    }
    json!({ "metadata": { "name": "w" }, "spec": spec })
}

fn deployment(pod: Value) -> Value {
    workload(pod, json!({ "serviceName": null }))
}

/// Creates an object and records a part of it, or the error.
async fn part(site: &Site, what: &str, path: &str, object: Value, pointer: &str) {
    let answer = site.quietly("POST", path, &[], object).await;
    let found = match answer.code {
        201 => answer.body.pointer(pointer).cloned().unwrap_or_default(),
        _ => answer.body["message"].clone(),
    };
    site.note(&format!("{what}: {} {found}", answer.code));
}

#[test]
fn the_account_of_a_template_has_two_names() {
    contract!(async |site: &Site| {
        for account in [
            json!({ "serviceAccountName": "a" }),
            json!({ "serviceAccount": "b" }),
            json!({ "serviceAccountName": "a", "serviceAccount": "b" }),
            json!({ "serviceAccountName": "", "serviceAccount": "" }),
        ] {
            let created = site
                .quietly("POST", DEPLOYMENTS, &[], deployment(pod_spec(account.clone())))
                .await;
            let spec = &created.body["spec"]["template"]["spec"];
            // Other cases do not compare these fields.
            let names = [&spec["serviceAccountName"], &spec["serviceAccount"]];
            site.note(&format!("{account}: {} {names:?}", created.code));
        }
    });
}

#[test]
fn pull_policies_follow_the_names_of_images() {
    contract!(async |site: &Site| {
        let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for image in [
            "nginx".to_owned(),
            "nginx:latest".to_owned(),
            "nginx:1".to_owned(),
            "localhost:5000/nginx".to_owned(),
            format!("nginx@{digest}"),
            format!("nginx:latest@{digest}"),
            format!("nginx:1@{digest}"),
            "nginx@sha256:0123".to_owned(),
            "ko://example.com/cmd".to_owned(),
            "example.com/Upper".to_owned(),
            "${IMAGE}".to_owned(),
            "a_b/c__d".to_owned(),
            "a..b/c".to_owned(),
        ] {
            let pod = pod_spec(json!({ "containers": [{ "name": "c", "image": image }] }));
            let pointer = "/spec/template/spec/containers/0/imagePullPolicy";
            part(site, &image, DEPLOYMENTS, deployment(pod), pointer).await;
        }
    });
}

#[test]
fn update_strategies_of_stateful_sets() {
    contract!(async |site: &Site| {
        for strategy in [
            json!({}),
            json!({ "type": "RollingUpdate" }),
            json!({ "type": "RollingUpdate", "rollingUpdate": {} }),
            json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } }),
            json!({ "type": "OnDelete" }),
        ] {
            let set = workload(pod_spec(json!({})), json!({ "updateStrategy": strategy }));
            let what = strategy.to_string();
            part(site, &what, SETS, set, "/spec/updateStrategy").await;
        }
    });
}

#[test]
fn target_ports_of_services() {
    contract!(async |site: &Site| {
        for target in [json!(0), json!(""), json!("0"), json!(8080), json!("web"), json!(null)] {
            let port = json!({ "port": 80, "targetPort": target });
            let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [port] } });
            let what = target.to_string();
            part(site, &what, SERVICES, service, "/spec/ports/0").await;
        }
    });
}

#[test]
fn address_families_of_services() {
    contract!(async |site: &Site| {
        for change in [
            json!({ "ipFamilies": ["IPv6"] }),
            json!({ "ipFamilies": ["IPv4", "IPv6"] }),
            json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack" }),
            json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" }),
            json!({ "ipFamilyPolicy": "RequireDualStack" }),
            json!({ "ipFamilyPolicy": "PreferDualStack" }),
            json!({ "ipFamilyPolicy": "RequireDualStack", "clusterIP": "None" }),
            json!({ "ipFamilyPolicy": "RequireDualStack", "clusterIP": "None", "selector": { "a": "b" } }),
            json!({ "ipFamilies": ["IPv6"], "ports": [] }),
        ] {
            let spec = with(&json!({ "ports": [{ "port": 80 }] }), change.clone());
            let service = json!({ "metadata": { "name": "s" }, "spec": spec });
            site.causes(&change.to_string(), "POST", SERVICES, service).await;
        }
    });
}

#[test]
fn mounts_of_invalid_volumes() {
    contract!(async |site: &Site| {
        for volume in [
            json!({ "name": "v", "gcePersistentDisk": { "pdName": "" } }),
            json!({ "name": "v", "nfs": { "server": "s" } }),
            json!({ "name": "v", "hostPath": { "path": "/a/../b" } }),
            json!({ "name": "V", "emptyDir": {} }),
            json!({ "name": "v", "emptyDir": {} }),
        ] {
            let what = volume.to_string();
            let container = json!({
                "name": "c", "image": "i", "volumeMounts": [{ "name": volume["name"], "mountPath": "/m" }],
            });
            let pod = pod_spec(json!({ "containers": [container], "volumes": [volume] }));
            let pod = json!({ "metadata": { "name": "p" }, "spec": pod });
            site.causes(&what, "POST", PODS, pod).await;
        }
    });
}

#[test]
fn texts_in_base64() {
    contract!(async |site: &Site| {
        for text in [
            "YQ==",
            "YWJj\nYWJj\n",
            "YR==",
            "YQ=",
            "YQ",
            "{{ .Values.a }}",
            "YWJj YWJj",
            "YQ==YQ==",
            "YWJjYW",
            "Y=Q=",
            "=",
            "YQ=a",
        ] {
            let secret = json!({ "metadata": { "name": "s" }, "data": { "a": text } });
            part(site, &format!("{text:?}"), SECRETS, secret, "/data/a").await;
        }
    });
}

#[test]
fn numbers_instead_of_texts() {
    contract!(async |site: &Site| {
        for (path, object) in [
            (
                SECRETS,
                json!({ "metadata": { "name": "s" }, "stringData": { "a": 1 } }),
            ),
            (
                SERVICES,
                json!({ "metadata": { "name": "s", "labels": { "a": 1.5 } }, "spec": {} }),
            ),
            (
                SERVICES,
                json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 1.5 }] } }),
            ),
            (SERVICES, json!({ "metadata": { "name": "s" }, "spec": { "ports": 1 } })),
            (SERVICES, json!({ "metadata": { "name": "s" }, "spec": 1 })),
        ] {
            part(site, &object.to_string(), path, object.clone(), "").await;
        }
    });
}

#[test]
fn a_revision_in_a_new_object() {
    contract!(async |site: &Site| {
        let map = json!({ "metadata": { "name": "m", "resourceVersion": "7" }, "data": {} });
        for (what, path, object) in [
            ("stored", "/api/v1/namespaces/{ns}/configmaps", map.clone()),
            ("dry run", "/api/v1/namespaces/{ns}/configmaps?dryRun=All", map.clone()),
            (
                "invalid",
                "/api/v1/namespaces/{ns}/configmaps",
                with(&map, json!({ "metadata": { "name": "M", "resourceVersion": "7" } })),
            ),
        ] {
            part(site, what, path, object, "/metadata/name").await;
        }
        site.config_map("m", "a").await;
        part(site, "existing", "/api/v1/namespaces/{ns}/configmaps", map, "").await;
    });
}

#[test]
fn names_of_workloads_and_their_containers() {
    contract!(async |site: &Site| {
        for name in ["a.b", "Upper", "fine"] {
            let mut set = workload(pod_spec(json!({})), json!({}));
            set["metadata"]["name"] = name.into();
            site.causes(name, "POST", SETS, set).await;
        }
        let container = json!({ "name": "c", "image": "i" });
        let pod = pod_spec(json!({ "initContainers": [container] }));
        let pod = json!({ "metadata": { "name": "p" }, "spec": pod });
        site.causes("doubled", "POST", PODS, pod).await;
    });
}

#[test]
fn security_contexts_that_contradict_themselves() {
    contract!(async |site: &Site| {
        for context in [
            json!({ "allowPrivilegeEscalation": false, "privileged": true }),
            json!({ "allowPrivilegeEscalation": false, "capabilities": { "add": ["CAP_SYS_ADMIN"] } }),
            json!({ "allowPrivilegeEscalation": false, "capabilities": { "add": ["SYS_ADMIN"] } }),
            json!({ "privileged": true }),
            json!({ "runAsUser": -1 }),
            json!({ "runAsGroup": 2147483648_i64 }),
        ] {
            let what = context.to_string();
            let container = json!({ "name": "c", "image": "i", "securityContext": context });
            let pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [container] } });
            let answer = site.quietly("POST", PODS, &[], pod).await;
            // The values in the messages are written in Go's notation.
            let causes = answer.body["details"]["causes"].as_array().into_iter().flatten();
            let causes: Vec<_> = causes
                .map(|cause| {
                    let message = cause["message"].as_str().unwrap().rsplit(": ").next().unwrap();
                    format!("{} {message}", cause["field"])
                })
                .collect();
            site.note(&format!("{what}: {} {causes:?}", answer.code));
        }
    });
}

#[test]
fn types_of_paths_of_an_ingress() {
    contract!(async |site: &Site| {
        for path in [
            json!({ "path": "/" }),
            json!({ "path": "/", "pathType": "" }),
            json!({ "path": "/", "pathType": "Other" }),
            json!({ "path": "a", "pathType": "Prefix" }),
        ] {
            let what = path.to_string();
            let ingress = json!({
                "metadata": { "name": "i" }, "spec": { "rules": [{ "http": { "paths": [path] } }] },
            });
            let all = "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses?dryRun=All";
            site.causes(&what, "POST", all, ingress).await;
        }
    });
}

#[test]
fn the_address_of_an_external_name() {
    contract!(async |site: &Site| {
        for change in [
            json!({}),
            json!({ "clusterIP": "None" }),
            json!({ "clusterIP": "" }),
            json!({ "clusterIPs": ["None"] }),
        ] {
            let spec = with(
                &json!({ "type": "ExternalName", "externalName": "example.com" }),
                change.clone(),
            );
            let service = json!({ "metadata": { "name": "s" }, "spec": spec });
            site.causes(&change.to_string(), "POST", SERVICES, service).await;
        }
    });
}

#[test]
fn qualities_of_pods_with_resources_of_the_pod() {
    contract!(async |site: &Site| {
        let both = json!({ "requests": { "cpu": "1", "memory": "1Gi" }, "limits": { "cpu": "1", "memory": "1Gi" } });
        for (resources, of_container) in [
            (json!({ "requests": { "cpu": "1" } }), json!({})),
            (both.clone(), json!({})),
            (both.clone(), json!({ "requests": { "cpu": "500m" } })),
            (json!({ "limits": { "cpu": "1" } }), json!({})),
            (json!(null), both),
        ] {
            let what = format!("{resources} {of_container}");
            let container = json!({ "name": "c", "image": "i:1", "resources": of_container });
            let spec = json!({ "containers": [container], "resources": resources });
            let pod = json!({ "metadata": { "name": "p" }, "spec": spec });
            part(site, &what, PODS, pod, "/status/qosClass").await;
        }
    });
}

#[test]
fn requests_of_claim_templates() {
    contract!(async |site: &Site| {
        let path = "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaimtemplates?dryRun=All";
        for request in [
            json!({ "name": "r", "exactly": { "deviceClassName": "c" } }),
            json!({ "name": "r", "exactly": { "deviceClassName": "c", "allocationMode": "All" } }),
            json!({ "name": "r", "firstAvailable": [
                { "name": "a", "deviceClassName": "c" }, { "name": "b", "deviceClassName": "c", "count": 2 },
            ] }),
        ] {
            let what = request.to_string();
            let spec = json!({ "spec": { "devices": { "requests": [request] } } });
            let template = json!({ "metadata": { "name": "t" }, "spec": spec });
            part(site, &what, path, template, "/spec/spec/devices/requests/0").await;
        }
    });
}

#[test]
fn types_of_the_metrics_of_an_autoscaler() {
    contract!(async |site: &Site| {
        let path = "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers?dryRun=All";
        let target = json!({ "type": "Utilization", "averageUtilization": 50 });
        let cpu = json!({ "name": "cpu", "target": target });
        for metric in [
            json!({ "type": "Resource", "resource": cpu }),
            json!({ "resource": cpu }),
            json!({ "type": "Other", "resource": cpu }),
        ] {
            let what = metric.to_string();
            let scaler = json!({ "metadata": { "name": "a" }, "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" },
                "maxReplicas": 3, "metrics": [metric],
            } });
            site.causes(&what, "POST", path, scaler).await;
        }
    });
}

#[test]
fn forms_of_addresses_of_endpoints() {
    contract!(async |site: &Site| {
        let path = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices?dryRun=All";
        for (type_, address) in [
            ("IPv6", "2001:0db8:0000::1"),
            ("IPv6", "2001:db8::1"),
            ("IPv6", "2001:DB8::1"),
            ("IPv4", "10.0.0.1"),
            ("IPv4", "10.0.0.01"),
        ] {
            let slice = json!({
                "metadata": { "name": "s" }, "addressType": type_, "endpoints": [{ "addresses": [address] }],
            });
            site.causes(address, "POST", path, slice).await;
        }
    });
}
