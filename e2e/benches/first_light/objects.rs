//! The content of the load: clients, and objects of realistic size.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Config};
use mcm_api::Machine;
use serde_json::json;

/// The namespace of the load's objects.
pub const NAMESPACE: &str = "default";
/// How long a definition may take to be served.
const ESTABLISHED: Duration = Duration::from_secs(20);

/// A client without retries.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    connect(Kubeconfig::read_from(kubeconfig)?).await
}

/// The same for a kubeconfig in memory.
pub async fn connect(kubeconfig: Kubeconfig) -> Result<Client> {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// A watch of all machines that restarts by itself.
pub fn watch(machines: Api<Machine>) -> impl Stream<Item = Event<Machine>> {
    let events = watcher(machines, watcher::Config::default()).default_backoff();
    events.filter_map(async |event| event.ok())
}

/// A definition with one small schema.
pub fn definition() -> Result<CustomResourceDefinition> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "berths.bench.example.com" },
        "spec": {
            "group": "bench.example.com",
            "names": { "kind": "Berth", "plural": "berths", "singular": "berth", "listKind": "BerthList" },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": { "type": "object", "properties": { "length": { "type": "integer" } } } }
                } }
            }]
        }
    }))?)
}

/// Creates the missing definitions of the machine API, and waits until they are served.
pub async fn install_machine_api(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in mcm_api::crd::all() {
        let name = definition.metadata.name.clone().unwrap_or_default();
        match api.create(&PostParams::default(), &definition).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error).with_context(|| format!("creating {name}")),
        }
        let served = await_condition(api.clone(), &name, conditions::is_crd_established());
        tokio::time::timeout(ESTABLISHED, served).await??;
    }
    Ok(())
}

/// The name of the `index`-th object.
pub fn name(index: usize) -> String {
    format!("load-{index:05}")
}

/// A ConfigMap of about 1 KB.
pub fn config_map(index: usize) -> Result<ConfigMap> {
    let settings = (0..12)
        .map(|line| format!("setting.{line} = value {index} of the object, as files tend to be\n"))
        .collect::<String>();
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": name(index),
            "labels": { "app.kubernetes.io/name": "load", "app.kubernetes.io/part-of": format!("group-{}", index % 50) }
        },
        "data": { "settings.conf": settings, "index": index.to_string() }
    }))?)
}

/// A Machine as a set creates it, of about 1 KB.
pub fn machine(index: usize) -> Result<Machine> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": {
            "name": name(index),
            "labels": {
                "machine-template-hash": "2415196782",
                "name": "pool",
                "worker.example.com/group": format!("group-{}", index % 50)
            },
            "annotations": { "machinepriority.machine.sapcloud.io": "3", "example.com/index": index.to_string() }
        },
        "spec": {
            "class": { "apiGroup": "machine.sapcloud.io", "kind": "MachineClass", "name": "pool-abc12" },
            "providerID": format!("example:///zone-1/i-{index:017x}"),
            "nodeTemplate": {
                "metadata": { "labels": { "node.kubernetes.io/role": "node", "worker.example.com/pool": "pool", "topology.example.com/zone": "zone-1" } },
                "spec": { "taints": [{ "key": "node.example.com/not-ready", "effect": "NoSchedule" }] }
            },
            "healthTimeout": "10m0s",
            "creationTimeout": "20m0s",
            "drainTimeout": "2h0m0s",
            "maxEvictRetries": 10,
            "nodeConditions": "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable"
        }
    }))?)
}
