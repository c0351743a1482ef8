//! The objects and the process of Cluster API. Its webhooks are not installed: the objects have the fields that these default.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::{Files, WORKERS};
use crate::plan::{Owner, Plan};

const API: &str = "cluster.x-k8s.io/v1beta2";
const GROUP: &str = "infrastructure.drydock.dev";
const CLUSTER: &str = "world";
const VERSION: &str = "v1.36.0";

pub(super) fn objects(plan: &Plan) -> Vec<Value> {
    let infrastructure = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": format!("{GROUP}/v1alpha1"), "kind": kind, "metadata": { "name": name }, "spec": spec });
    let template = |size: &str| {
        let spec = json!({ "template": { "spec": { "machineType": size, "image": "linux-1", "zone": "z1" } } });
        infrastructure("DrydockMachineTemplate", size, spec)
    };
    let endpoint = json!({ "host": "127.0.0.1", "port": 6443 });
    let reference = |kind: &str| json!({ "apiGroup": GROUP, "kind": kind, "name": CLUSTER });
    vec![
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "join", "labels": of_cluster() },
            "type": "cluster.x-k8s.io/secret", "stringData": { "value": "join" },
        }),
        template("small"),
        template("medium"),
        infrastructure("DrydockCluster", CLUSTER, json!({ "controlPlaneEndpoint": endpoint })),
        infrastructure("DrydockControlPlane", CLUSTER, json!({ "version": VERSION })),
        json!({
            "apiVersion": API, "kind": "Cluster", "metadata": { "name": CLUSTER },
            "spec": {
                "controlPlaneEndpoint": endpoint,
                "infrastructureRef": reference("DrydockCluster"),
                "controlPlaneRef": reference("DrydockControlPlane"),
            },
        }),
        owner(plan),
    ]
}

fn of_cluster() -> Value {
    json!({ "cluster.x-k8s.io/cluster-name": CLUSTER })
}

fn owner(plan: &Plan) -> Value {
    let mut labels = of_cluster();
    labels["name"] = json!(WORKERS);
    let (kind, rollout) = match plan.owner {
        Owner::Set => ("MachineSet", Value::Null),
        Owner::ManualDeployment => ("MachineDeployment", json!({ "strategy": { "type": "OnDelete" } })),
    };
    let mut object = json!({
        "apiVersion": API, "kind": kind, "metadata": { "name": WORKERS, "labels": of_cluster() },
        "spec": {
            "clusterName": CLUSTER,
            "replicas": plan.machines,
            "selector": { "matchLabels": labels.clone() },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "clusterName": CLUSTER,
                    "version": VERSION,
                    "bootstrap": { "dataSecretName": "join" },
                    "infrastructureRef": { "apiGroup": GROUP, "kind": "DrydockMachineTemplate", "name": "small" },
                },
            },
        },
    });
    if !rollout.is_null() {
        object["spec"]["rollout"] = rollout;
    }
    object
}

pub(super) fn check(plan: &Plan) -> Value {
    let mut spec = plan.policy.clone();
    spec.insert("selector".to_owned(), json!({ "matchLabels": { "name": WORKERS } }));
    spec.insert("clusterName".to_owned(), json!(CLUSTER));
    json!({ "apiVersion": API, "kind": "MachineHealthCheck", "metadata": { "name": WORKERS }, "spec": spec })
}

pub(super) fn change() -> Value {
    json!({ "spec": { "template": { "spec": { "infrastructureRef": { "name": "medium" } } } } })
}

/// The Secret with the kubeconfig of the nodes' API server.
pub fn kubeconfig_secret(kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": format!("{CLUSTER}-kubeconfig"), "labels": of_cluster() },
        "type": "cluster.x-k8s.io/secret", "stringData": { "value": kubeconfig },
    })
}

/// Writes a certificate for the port of the webhooks, which the controllers need in order to start.
///
/// # Errors
/// If the files cannot be written.
pub fn certificate(folder: &Path) -> anyhow::Result<()> {
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    std::fs::write(folder.join("tls.crt"), certificate.cert.pem())?;
    std::fs::write(folder.join("tls.key"), certificate.signing_key.serialize_pem())?;
    Ok(())
}

/// The arguments of the core controllers. `certificates`: a folder with a certificate; `port`: a free one.
pub fn controller(files: &Files, certificates: &Path, port: u16) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "--leader-elect=false".to_owned(),
        format!("--webhook-port={port}"),
        "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields".to_owned(),
        "--diagnostics-address=127.0.0.1:0".to_owned(),
        "--health-addr=127.0.0.1:0".to_owned(),
        "--machineset-preflight-checks=".to_owned(),
        "--v=3".to_owned(),
    ]
    .map(OsString::from)
    .into();
    let files = [
        ("--kubeconfig", files.control.as_path()),
        ("--webhook-cert-dir", certificates),
    ];
    for (flag, file) in files {
        arguments.extend([flag.into(), file.into()]);
    }
    arguments
}
