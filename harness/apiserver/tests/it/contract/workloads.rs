//! Workloads: what updates can change, checks across fields, and the defaults of pod templates.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, with};

const APPS: &str = "/apis/apps/v1/namespaces/{ns}";
const BATCH: &str = "/apis/batch/v1/namespaces/{ns}";
const PODS: &str = "/api/v1/namespaces/{ns}/pods";

fn containers() -> Value {
    json!([{ "name": "c", "image": "i:1" }])
}

fn template(spec: Value) -> Value {
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": with(&json!({ "containers": containers() }), spec) })
}

fn workload(spec: Value) -> Value {
    let whole = json!({ "selector": { "matchLabels": { "app": "web" } }, "template": template(json!({})) });
    json!({ "metadata": { "name": "a" }, "spec": with(&whole, spec) })
}

fn job(spec: Value) -> Value {
    let whole = json!({ "template": template(json!({ "restartPolicy": "Never" })) });
    json!({ "metadata": { "name": "a" }, "spec": with(&whole, spec) })
}

#[test]
fn the_template_of_a_job_is_immutable() {
    contract!(async |site: &Site| {
        let jobs = format!("{BATCH}/jobs");
        site.quietly("POST", &jobs, &[], job(json!({}))).await;
        let path = format!("{jobs}/a");
        let image = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "j:1" }] } } } });
        for (what, change) in [
            ("image", image),
            ("completions", json!({ "spec": { "completions": 3 } })),
            (
                "mode",
                json!({ "spec": { "completionMode": "Indexed", "completions": 1 } }),
            ),
            (
                "selector",
                json!({ "spec": { "selector": { "matchLabels": { "a": "b" } } } }),
            ),
            ("parallelism", json!({ "spec": { "parallelism": 3 } })),
            ("limit", json!({ "spec": { "backoffLimit": 1 } })),
            ("replacement", json!({ "spec": { "podReplacementPolicy": "Failed" } })),
            ("manager", json!({ "spec": { "managedBy": "example.com/m" } })),
            ("per index", json!({ "spec": { "backoffLimitPerIndex": 1 } })),
            ("suspended", json!({ "spec": { "suspend": true } })),
        ] {
            site.causes(what, "PATCH", &path, change).await;
        }
    });
}

#[test]
fn a_suspended_job_can_be_scheduled_elsewhere() {
    contract!(async |site: &Site| {
        let jobs = format!("{BATCH}/jobs");
        site.quietly("POST", &jobs, &[], job(json!({ "suspend": true }))).await;
        let change = json!({ "spec": { "template": { "spec": { "nodeSelector": { "a": "b" } } } } });
        site.causes("selector of nodes", "PATCH", &format!("{jobs}/a"), change)
            .await;
        let change = json!({ "spec": { "template": { "spec": { "restartPolicy": "OnFailure" } } } });
        site.causes("policy", "PATCH", &format!("{jobs}/a"), change).await;
    });
}

#[test]
fn a_job_is_checked() {
    contract!(async |site: &Site| {
        let jobs = format!("{BATCH}/jobs");
        for (what, spec) in [
            (
                "negative",
                json!({ "parallelism": -1, "completions": -1, "backoffLimit": -1, "activeDeadlineSeconds": -1 }),
            ),
            ("always", json!({ "template": template(json!({})) })),
            ("odd mode", json!({ "completionMode": "Odd" })),
            ("indexed", json!({ "completionMode": "Indexed" })),
            ("replacement", json!({ "podReplacementPolicy": "Odd" })),
            ("manager", json!({ "managedBy": "odd" })),
            ("per index", json!({ "backoffLimitPerIndex": 1 })),
            ("selector", json!({ "selector": { "matchLabels": { "a": "b" } } })),
            (
                "manual",
                json!({ "manualSelector": true, "selector": { "matchLabels": { "a": "b" } } }),
            ),
        ] {
            site.causes(what, "POST", &jobs, job(spec)).await;
        }
    });
}

#[test]
fn the_labels_of_a_job_with_a_generated_name() {
    contract!(async |site: &Site| {
        let mut object = job(json!({}));
        object["metadata"] = json!({ "generateName": "generated-" });
        let created = site.quietly("POST", &format!("{BATCH}/jobs"), &[], object).await;
        let name = created.body["metadata"]["name"].as_str().unwrap().to_owned();
        let labels = &created.body["spec"]["template"]["metadata"]["labels"];
        site.note(&format!("{}", labels["job-name"] == name.as_str()));
        site.note(&format!("{}", labels["batch.kubernetes.io/job-name"] == name.as_str()));
    });
}

#[test]
fn the_defaults_of_a_job() {
    contract!(async |site: &Site| {
        let jobs = format!("{BATCH}/jobs");
        for (name, spec) in [
            ("plain", json!({})),
            ("parallel", json!({ "parallelism": 2 })),
            (
                "indexed",
                json!({ "completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1 }),
            ),
            (
                "policy",
                json!({ "podFailurePolicy": { "rules": [
                { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget" }] },
            ] } }),
            ),
        ] {
            let mut object = job(spec);
            object["metadata"]["name"] = name.into();
            let created = site.quietly("POST", &jobs, &[], object).await;
            site.note(&format!("{name}: {} {:#}", created.code, created.body["spec"]));
        }
    });
}

#[test]
fn a_cron_job_is_checked() {
    contract!(async |site: &Site| {
        let jobs = format!("{BATCH}/cronjobs");
        let spec = json!({ "schedule": "0 0 * * *", "jobTemplate": { "spec": job(json!({}))["spec"] } });
        for (what, change) in [
            ("minute", json!({ "schedule": "61 * * * *" })),
            ("word", json!({ "schedule": "@often" })),
            ("interval", json!({ "schedule": "@every 5m" })),
            ("zone in the schedule", json!({ "schedule": "TZ=UTC 0 0 * * *" })),
            ("zone", json!({ "timeZone": "Nowhere/Land" })),
            ("good zone", json!({ "timeZone": "Europe/Berlin" })),
            ("policy", json!({ "concurrencyPolicy": "Odd" })),
            (
                "negative",
                json!({ "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -1, "startingDeadlineSeconds": -1 }),
            ),
        ] {
            let object = json!({ "metadata": { "name": "a" }, "spec": with(&spec, change) });
            site.causes(what, "POST", &format!("{jobs}?dryRun=All"), object).await;
        }
        let long = json!({ "metadata": { "name": "a".repeat(53) }, "spec": spec });
        site.causes("long name", "POST", &format!("{jobs}?dryRun=All"), long)
            .await;
    });
}

#[test]
fn a_deployment_is_checked() {
    contract!(async |site: &Site| {
        let deployments = format!("{APPS}/deployments?dryRun=All");
        for (what, spec) in [
            (
                "deadline",
                json!({ "progressDeadlineSeconds": 10, "minReadySeconds": 10 }),
            ),
            ("negative deadline", json!({ "progressDeadlineSeconds": -1 })),
            (
                "negative",
                json!({ "replicas": -1, "minReadySeconds": -1, "revisionHistoryLimit": -1 }),
            ),
            ("strategy", json!({ "strategy": { "type": "Odd" } })),
            (
                "recreate",
                json!({ "strategy": { "type": "Recreate", "rollingUpdate": { "maxSurge": 1 } } }),
            ),
            (
                "zero",
                json!({ "strategy": { "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 0 } } }),
            ),
            (
                "percent",
                json!({ "strategy": { "rollingUpdate": { "maxSurge": "10", "maxUnavailable": "101%" } } }),
            ),
            (
                "policy",
                json!({ "template": template(json!({ "restartPolicy": "Never" })) }),
            ),
            (
                "deadline of pods",
                json!({ "template": template(json!({ "activeDeadlineSeconds": 5 })) }),
            ),
            (
                "selector",
                json!({ "selector": { "matchExpressions": [{ "key": "app", "operator": "Odd" }] } }),
            ),
        ] {
            site.causes(what, "POST", &deployments, workload(spec)).await;
        }
    });
}

#[test]
fn the_selectors_of_workloads_are_immutable() {
    contract!(async |site: &Site| {
        let labels = json!({ "app": "web", "a": "b" });
        let change = json!({ "spec": {
            "selector": { "matchLabels": { "a": "b" } }, "template": { "metadata": { "labels": labels } },
        } });
        for (plural, spec) in [
            ("deployments", json!({})),
            ("replicasets", json!({})),
            ("daemonsets", json!({})),
            ("statefulsets", json!({ "serviceName": "s" })),
        ] {
            site.quietly("POST", &format!("{APPS}/{plural}"), &[], workload(spec))
                .await;
            site.causes(plural, "PATCH", &format!("{APPS}/{plural}/a"), change.clone())
                .await;
        }
    });
}

#[test]
fn a_stateful_set_is_checked() {
    contract!(async |site: &Site| {
        let sets = format!("{APPS}/statefulsets");
        for (what, spec) in [
            ("policy", json!({ "podManagementPolicy": "Odd" })),
            ("strategy", json!({ "updateStrategy": { "type": "Odd" } })),
            (
                "on delete",
                json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": { "partition": 1 } } }),
            ),
            (
                "partition",
                json!({ "updateStrategy": { "rollingUpdate": { "partition": -1 } } }),
            ),
            ("ordinals", json!({ "ordinals": { "start": -1 } })),
            (
                "retention",
                json!({ "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Odd" } }),
            ),
            ("negative", json!({ "replicas": -1, "minReadySeconds": -1 })),
        ] {
            site.causes(what, "POST", &format!("{sets}?dryRun=All"), workload(spec))
                .await;
        }
        site.quietly("POST", &sets, &[], workload(json!({ "serviceName": "s" })))
            .await;
        for (what, change) in [
            ("service", json!({ "serviceName": "t" })),
            ("management", json!({ "podManagementPolicy": "Parallel" })),
            ("replicas", json!({ "replicas": 3, "minReadySeconds": 5 })),
        ] {
            site.causes(what, "PATCH", &format!("{sets}/a"), json!({ "spec": change }))
                .await;
        }
    });
}

#[test]
fn a_daemon_set_is_checked() {
    contract!(async |site: &Site| {
        let sets = format!("{APPS}/daemonsets?dryRun=All");
        for (what, spec) in [
            ("strategy", json!({ "updateStrategy": { "type": "Odd" } })),
            (
                "both",
                json!({ "updateStrategy": { "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 1 } } }),
            ),
            (
                "neither",
                json!({ "updateStrategy": { "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 0 } } }),
            ),
            ("negative", json!({ "minReadySeconds": -1, "revisionHistoryLimit": -1 })),
            (
                "policy",
                json!({ "template": template(json!({ "restartPolicy": "Never" })) }),
            ),
        ] {
            site.causes(what, "POST", &sets, workload(spec)).await;
        }
    });
}

#[test]
fn a_controller_revision_is_immutable() {
    contract!(async |site: &Site| {
        let revisions = format!("{APPS}/controllerrevisions");
        let revision = json!({ "metadata": { "name": "a" }, "data": { "a": 1 }, "revision": 1 });
        site.post(&revisions, revision).await;
        site.causes(
            "data",
            "PATCH",
            &format!("{revisions}/a"),
            json!({ "data": { "a": 2 } }),
        )
        .await;
        site.causes("revision", "PATCH", &format!("{revisions}/a"), json!({ "revision": 2 }))
            .await;
        let negative = json!({ "metadata": { "name": "b" }, "data": { "a": 1 }, "revision": -1 });
        site.causes("negative", "POST", &revisions, negative).await;
        let empty = json!({ "metadata": { "name": "b" }, "revision": 1 });
        site.causes("no data", "POST", &revisions, empty).await;
    });
}

#[test]
fn the_defaults_of_a_pod_template() {
    contract!(async |site: &Site| {
        let spec = json!({
            "containers": [{
                "name": "c", "image": "i",
                "ports": [{ "containerPort": 80 }],
                "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
                "livenessProbe": { "httpGet": { "port": 80 } },
                "readinessProbe": { "grpc": { "port": 81 } },
                "lifecycle": { "preStop": { "httpGet": { "port": 80 } } },
                "resources": { "limits": { "cpu": "1" } },
                "securityContext": {},
            }],
            "initContainers": [{ "name": "d", "image": "i:1", "restartPolicy": "Always" }],
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule" }],
            "volumes": [
                { "name": "a" },
                { "name": "b", "secret": { "secretName": "s" } },
                { "name": "d", "hostPath": { "path": "/p" } },
                { "name": "e", "projected": { "sources": [
                    { "serviceAccountToken": { "path": "t" } },
                    { "downwardAPI": { "items": [{ "path": "n", "fieldRef": { "fieldPath": "metadata.name" } }] } },
                ] } },
                { "name": "f", "iscsi": { "targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:a", "lun": 0 } },
                { "name": "g", "rbd": { "monitors": ["m"], "image": "i" } },
                { "name": "h", "azureDisk": { "diskName": "d", "diskURI": "https://a.blob.core.windows.net/b/c.vhd" } },
                { "name": "j", "ephemeral": { "volumeClaimTemplate": { "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
                } } } },
                { "name": "k", "image": { "reference": "r:1" } },
            ],
        });
        for plural in ["deployments", "daemonsets"] {
            let object = workload(json!({ "template": template(spec.clone()) }));
            let created = site
                .quietly("POST", &format!("{APPS}/{plural}?dryRun=All"), &[], object)
                .await;
            site.note(&format!("{} {}", created.code, created.body["message"]));
            site.note(&format!("{:#}", created.body["spec"]["template"]));
        }
    });
}

#[test]
fn a_template_with_the_host_network() {
    contract!(async |site: &Site| {
        let spec = json!({
            "hostNetwork": true, "containers": [{ "name": "c", "image": "i:1", "ports": [{ "containerPort": 80 }] }],
        });
        let object = workload(json!({ "template": template(spec.clone()) }));
        let created = site
            .quietly("POST", &format!("{APPS}/deployments?dryRun=All"), &[], object)
            .await;
        site.note(&format!("{:#}", created.body["spec"]["template"]["spec"]));
        let odd = json!({
            "hostNetwork": true,
            "containers": [{ "name": "c", "image": "i:1", "ports": [{ "containerPort": 80, "hostPort": 81 }] }],
        });
        site.causes(
            "other port",
            "POST",
            &format!("{APPS}/deployments?dryRun=All"),
            workload(json!({ "template": template(odd) })),
        )
        .await;
    });
}

#[test]
fn a_claim_template_of_a_stateful_set() {
    contract!(async |site: &Site| {
        let claim = json!({
            "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1024Mi" } } },
        });
        let spec = json!({ "serviceName": "s", "volumeClaimTemplates": [claim] });
        let created = site
            .quietly("POST", &format!("{APPS}/statefulsets?dryRun=All"), &[], workload(spec))
            .await;
        site.note(&format!("{} {:#}", created.code, created.body["spec"]));
    });
}

#[test]
fn claim_templates_of_a_stateful_set_are_checked() {
    contract!(async |site: &Site| {
        let storage = json!({ "requests": { "storage": "1Gi" } });
        let good = json!({ "accessModes": ["ReadWriteOnce"], "resources": storage });
        let claim = |name: &str, spec: &Value| json!({ "metadata": { "name": name }, "spec": spec });
        for (what, claims) in [
            ("empty", json!([{}])),
            ("no spec", json!([{ "metadata": { "name": "data" } }])),
            ("no name", json!([{ "spec": good }])),
            ("name", json!([claim("A_name", &good)])),
            ("doubled name", json!([claim("data", &good), claim("data", &good)])),
            ("two without a name", json!([claim("", &good), claim("", &good)])),
            (
                "access mode",
                json!([claim("data", &with(&good, json!({ "accessModes": ["Odd"] })))]),
            ),
            (
                "storage",
                json!([claim(
                    "data",
                    &with(&good, json!({ "resources": { "requests": { "storage": "0" } } }))
                )]),
            ),
            (
                "others",
                json!([claim(
                    "data",
                    &with(
                        &good,
                        json!({
                            "storageClassName": "A_class",
                            "volumeMode": "Odd",
                            "selector": { "matchLabels": { "a": "-" } },
                            "dataSource": { "kind": "Odd", "name": "" },
                        })
                    )
                )]),
            ),
        ] {
            let spec = json!({ "serviceName": "s", "volumeClaimTemplates": claims });
            site.causes(what, "POST", &format!("{APPS}/statefulsets?dryRun=All"), workload(spec))
                .await;
        }
    });
}

#[test]
fn a_claim_template_of_a_pod_is_checked() {
    contract!(async |site: &Site| {
        for (what, template) in [
            ("none", json!(null)),
            ("empty", json!({})),
            ("no spec", json!({ "metadata": { "labels": { "a": "b" } } })),
            ("empty spec", json!({ "spec": {} })),
            (
                "name",
                json!({ "metadata": { "name": "a" }, "spec": { "accessModes": ["ReadWriteOnce"] } }),
            ),
            (
                "others",
                json!({ "spec": { "accessModes": ["Odd"], "volumeMode": "Odd", "storageClassName": "A_class" } }),
            ),
        ] {
            let pod = json!({ "metadata": { "name": "a" }, "spec": {
                "containers": [{ "name": "c", "image": "i:1" }],
                "volumes": [{ "name": "data", "ephemeral": { "volumeClaimTemplate": template } }],
            } });
            site.causes(what, "POST", &format!("{PODS}?dryRun=All"), pod).await;
        }
    });
}

#[test]
fn ports_of_a_pod() {
    contract!(async |site: &Site| {
        let pod = |ports: Value| json!({ "metadata": { "name": "a" }, "spec": { "containers": [{ "name": "c", "image": "i:1", "ports": ports }] } });
        for (what, ports) in [
            (
                "doubled name",
                json!([{ "name": "a", "containerPort": 80 }, { "name": "a", "containerPort": 81 }]),
            ),
            (
                "doubled host port",
                json!([{ "containerPort": 80, "hostPort": 80 }, { "containerPort": 81, "hostPort": 80 }]),
            ),
            (
                "doubled port",
                json!([{ "containerPort": 80 }, { "containerPort": 80 }]),
            ),
            ("name", json!([{ "name": "A_name", "containerPort": 80 }])),
            (
                "long name",
                json!([{ "name": "a-name-of-16-let", "containerPort": 80 }]),
            ),
            ("zero", json!([{ "containerPort": 0 }])),
            ("protocol", json!([{ "containerPort": 80, "protocol": "ICMP" }])),
            ("host port", json!([{ "containerPort": 80, "hostPort": 70_000 }])),
        ] {
            site.causes(what, "POST", &format!("{PODS}?dryRun=All"), pod(ports))
                .await;
        }
    });
}

#[test]
fn a_container_is_checked() {
    contract!(async |site: &Site| {
        let pod = |container: Value| {
            let container = with(&json!({ "name": "c", "image": "i:1" }), container);
            json!({ "metadata": { "name": "a" }, "spec": { "containers": [container] } })
        };
        for (what, container) in [
            ("variable", json!({ "env": [{ "name": "a=b", "value": "c" }] })),
            (
                "two values",
                json!({ "env": [{ "name": "a", "value": "c", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }] }),
            ),
            ("no source", json!({ "env": [{ "name": "a", "valueFrom": {} }] })),
            (
                "field",
                json!({ "env": [{ "name": "a", "valueFrom": { "fieldRef": { "fieldPath": "odd" } } }] }),
            ),
            ("probe", json!({ "livenessProbe": {} })),
            (
                "two handlers",
                json!({ "livenessProbe": { "httpGet": { "port": 80 }, "tcpSocket": { "port": 80 } } }),
            ),
            (
                "success",
                json!({ "livenessProbe": { "tcpSocket": { "port": 80 }, "successThreshold": 2 } }),
            ),
            (
                "negative",
                json!({ "readinessProbe": { "tcpSocket": { "port": 80 }, "periodSeconds": -1 } }),
            ),
            ("pull policy", json!({ "imagePullPolicy": "Odd" })),
            ("message policy", json!({ "terminationMessagePolicy": "Odd" })),
            ("resources", json!({ "resources": { "requests": { "cpu": "-1" } } })),
            ("odd resource", json!({ "resources": { "requests": { "odd": "1" } } })),
            (
                "extended",
                json!({ "resources": { "requests": { "example.com/gpu": "1" } } }),
            ),
            (
                "fraction",
                json!({ "resources": { "limits": { "example.com/gpu": "500m" } } }),
            ),
            ("mount", json!({ "volumeMounts": [{ "name": "v", "mountPath": "" }] })),
            (
                "command",
                json!({ "lifecycle": { "preStop": { "exec": { "command": [] } } } }),
            ),
        ] {
            site.causes(what, "POST", &format!("{PODS}?dryRun=All"), pod(container))
                .await;
        }
    });
}

#[test]
fn a_pod_spec_is_checked() {
    contract!(async |site: &Site| {
        let pod = |spec: Value| json!({ "metadata": { "name": "a" }, "spec": with(&json!({ "containers": containers() }), spec) });
        for (what, spec) in [
            (
                "spread",
                json!({ "topologySpreadConstraints": [{ "maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Odd" }] }),
            ),
            (
                "host aliases",
                json!({ "hostAliases": [{ "ip": "here", "hostnames": ["A_"] }] }),
            ),
            ("dns none", json!({ "dnsPolicy": "None" })),
            (
                "dns",
                json!({ "dnsPolicy": "None", "dnsConfig": { "nameservers": ["here"] } }),
            ),
            ("hostname", json!({ "hostname": "A.b", "subdomain": "C" })),
            (
                "gates",
                json!({ "schedulingGates": [{ "name": "a" }, { "name": "a" }] }),
            ),
            (
                "affinity",
                json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] } } } }),
            ),
            (
                "anti-affinity",
                json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "" }] } } }),
            ),
            (
                "weight",
                json!({ "affinity": { "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 0, "podAffinityTerm": { "topologyKey": "a" } }] } } }),
            ),
            ("restart policy", json!({ "restartPolicy": "Odd" })),
            ("priority class", json!({ "preemptionPolicy": "Odd" })),
            ("config map", json!({ "volumes": [{ "name": "v", "configMap": {} }] })),
            (
                "host path",
                json!({ "volumes": [{ "name": "v", "hostPath": { "path": "../a" } }] }),
            ),
            (
                "two sources",
                json!({ "volumes": [{ "name": "v", "emptyDir": {}, "hostPath": { "path": "/a" } }] }),
            ),
            ("image pull", json!({ "imagePullSecrets": [{ "name": "" }] })),
            (
                "ephemeral",
                json!({ "ephemeralContainers": [{ "name": "e", "image": "i" }] }),
            ),
        ] {
            site.causes(what, "POST", &format!("{PODS}?dryRun=All"), pod(spec))
                .await;
        }
    });
}

fn resources(cpu: &str) -> Value {
    json!({ "requests": { "cpu": cpu, "memory": "1Gi" } })
}

#[test]
fn a_pod_is_resized() {
    contract!(async |site: &Site| {
        let container = json!({ "name": "c", "image": "i:1", "resources": resources("1") });
        site.quietly(
            "POST",
            PODS,
            &[],
            json!({ "metadata": { "name": "a" }, "spec": { "containers": [container] } }),
        )
        .await;
        let path = format!("{PODS}/a");
        let resize = |container: Value| json!({ "spec": { "containers": [with(&json!({ "name": "c", "image": "i:1" }), container)] } });
        let patch = async |what: &str, container: Value| {
            let headers = [("content-type", "application/strategic-merge-patch+json")];
            let answer = site
                .quietly("PATCH", &format!("{path}/resize"), &headers, resize(container))
                .await;
            let message = answer.body["message"].as_str().unwrap_or_default();
            let message = message.lines().next().unwrap_or_default();
            let spec = &answer.body["spec"]["containers"][0];
            site.note(&format!(
                "{what}: {} {message} {} {}",
                answer.code, spec["image"], spec["resources"]
            ));
            site.note(&format!("generation {}", answer.body["metadata"]["generation"]));
        };
        patch("more", json!({ "resources": resources("2") })).await;
        patch("image", json!({ "image": "j:1", "resources": resources("3") })).await;
        patch(
            "class",
            json!({ "resources": { "limits": { "cpu": "3", "memory": "1Gi" } } }),
        )
        .await;
        patch(
            "other",
            json!({ "resources": { "requests": { "ephemeral-storage": "1Gi" } } }),
        )
        .await;
        let answer = site.quietly("GET", &format!("{path}/resize"), &[], Value::Null).await;
        site.note(&format!("{} {}", answer.code, answer.body["kind"]));
    });
}

#[test]
fn a_pod_gets_ephemeral_containers() {
    contract!(async |site: &Site| {
        site.quietly(
            "POST",
            PODS,
            &[],
            json!({ "metadata": { "name": "a" }, "spec": { "containers": containers() } }),
        )
        .await;
        let path = format!("{PODS}/a/ephemeralcontainers");
        let patch = async |what: &str, container: Value| {
            let headers = [("content-type", "application/strategic-merge-patch+json")];
            let body = json!({ "spec": { "ephemeralContainers": [container] } });
            let answer = site.quietly("PATCH", &path, &headers, body).await;
            let causes: Vec<String> = answer.body["details"]["causes"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|cause| {
                    let message = cause["message"].as_str().unwrap_or_default();
                    format!("{}: {}", cause["field"], message.lines().next().unwrap_or_default())
                })
                .collect();
            site.note(&format!(
                "{what}: {} {:#} {causes:#?}",
                answer.code, answer.body["spec"]["ephemeralContainers"]
            ));
        };
        patch(
            "added",
            json!({ "name": "d", "image": "i:1", "targetContainerName": "c" }),
        )
        .await;
        patch("changed", json!({ "name": "d", "image": "j:1" })).await;
        patch("another", json!({ "name": "e", "image": "i" })).await;
        patch("of a container", json!({ "name": "c", "image": "i" })).await;
        patch("without image", json!({ "name": "f" })).await;
        patch(
            "with ports",
            json!({ "name": "g", "image": "i", "ports": [{ "containerPort": 80 }] }),
        )
        .await;
        patch(
            "unknown target",
            json!({ "name": "h", "image": "i", "targetContainerName": "z" }),
        )
        .await;
    });
}

#[test]
fn a_binding_in_the_core_group() {
    contract!(async |site: &Site| {
        site.quietly(
            "POST",
            PODS,
            &[],
            json!({ "metadata": { "name": "a" }, "spec": { "containers": containers() } }),
        )
        .await;
        let bindings = "/api/v1/namespaces/{ns}/bindings";
        let binding = json!({ "metadata": { "name": "a" }, "target": { "kind": "Node", "name": "{ns}" } });
        site.post(bindings, binding.clone()).await;
        site.post(bindings, binding).await;
        site.get(bindings).await;
    });
}
