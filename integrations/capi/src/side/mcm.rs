//! The objects and the process of `mcm`.

use std::ffi::OsString;

use serde_json::{Value, json};

use super::{Files, NAMESPACE, WORKERS};
use crate::plan::{Owner, Plan};

const API: &str = "machine.sapcloud.io/v1alpha1";

pub(super) fn objects(plan: &Plan) -> Vec<Value> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "small" },
        "stringData": { "apiToken": "mcm", "userData": "join" },
    });
    vec![secret, class("small"), class("medium"), owner(plan)]
}

fn class(size: &str) -> Value {
    json!({
        "apiVersion": API, "kind": "MachineClass", "metadata": { "name": size },
        "provider": "fakecloud",
        "secretRef": { "name": "small", "namespace": NAMESPACE },
        "providerSpec": {
            "machineType": size, "image": "linux-1", "zone": "z1",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
        },
    })
}

fn owner(plan: &Plan) -> Value {
    let (kind, strategy) = match plan.owner {
        Owner::Set => ("MachineSet", Value::Null),
        Owner::ManualDeployment => (
            "MachineDeployment",
            json!({ "type": "InPlaceUpdate", "inPlaceUpdate": { "orchestrationType": "Manual" } }),
        ),
    };
    let mut object = json!({
        "apiVersion": API, "kind": kind, "metadata": { "name": WORKERS },
        "spec": {
            "replicas": plan.machines,
            "selector": { "matchLabels": { "name": WORKERS } },
            "template": {
                "metadata": { "labels": { "name": WORKERS } },
                "spec": { "class": { "kind": "MachineClass", "name": "small" } },
            },
        },
    });
    if !strategy.is_null() {
        object["spec"]["strategy"] = strategy;
    }
    object
}

pub(super) fn check(plan: &Plan) -> Value {
    let mut spec = plan.policy.clone();
    spec.insert("selector".to_owned(), json!({ "matchLabels": { "name": WORKERS } }));
    spec.extend(plan.only_drydock.clone());
    json!({ "apiVersion": API, "kind": "MachineHealthCheck", "metadata": { "name": WORKERS }, "spec": spec })
}

pub(super) fn change() -> Value {
    json!({ "spec": { "template": { "spec": { "class": { "name": "medium" } } } } })
}

/// The arguments of `mcm`. `cloud`: the port of fakecloud; `port`: a free one.
pub fn controller(files: &Files, cloud: u16, port: u16) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "--controllers=machine,safety,set,deployment,machinehealthcheck".to_owned(),
        format!("--driver=grpc://127.0.0.1:{cloud}"),
        format!("--namespace={NAMESPACE}"),
        "--address=127.0.0.1".to_owned(),
        format!("--port={port}"),
    ]
    .map(OsString::from)
    .into();
    for (flag, file) in [
        ("--control-kubeconfig", &files.control),
        ("--target-kubeconfig", &files.target),
    ] {
        arguments.extend([flag.into(), file.clone().into()]);
    }
    arguments
}
