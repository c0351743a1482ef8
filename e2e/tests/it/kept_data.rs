//! `--data`: a control plane that was killed continues with everything that it acknowledged.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::api::{ListParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use mcm_api::{Machine, MachineClass, Phase};
use serde_json::{Value, json};
use stage::ports::free_port;

use crate::apiserver::{end, start};
use crate::drydock::client;
use crate::up::Up;

/// How long a machine may take to be Running.
const LIMIT: Duration = Duration::from_secs(60);

/// Creates ConfigMaps, one after the other, until the server is killed; returns the names of those that it acknowledged.
async fn write_until_killed(maps: Api<ConfigMap>, writer: u32, count: &AtomicU32) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let name = format!("w{writer}-{number}");
        let map = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        if maps.create(&PostParams::default(), &map).await.is_err() {
            break;
        }
        acknowledged.push(name);
        count.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill_and_the_kubeconfig_stays_valid() {
    const WRITERS: u32 = 4;
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().unwrap().to_string();
    let arguments = ["--data=data", "--port", &port];
    let server = start(folder.path(), &arguments);
    let client = client(&server.kubeconfig()).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let count = AtomicU32::new(0);
    let writers = (0..WRITERS).map(|writer| write_until_killed(maps.clone(), writer, &count));
    let killed = async {
        while count.load(Ordering::Relaxed) < 200 {
            tokio::task::yield_now().await;
        }
        // A dropped server is killed.
        drop(server);
    };
    let (acknowledged, ()) = tokio::join!(futures::future::join_all(writers), killed);

    let server = start(folder.path(), &arguments);
    let listed = maps.list(&ListParams::default()).await.unwrap();
    let listed: BTreeSet<String> = listed.items.iter().map(ResourceExt::name_any).collect();
    let acknowledged: Vec<&String> = acknowledged.iter().flatten().collect();
    assert!(acknowledged.len() >= 200);
    let lost: Vec<_> = acknowledged.iter().filter(|name| !listed.contains(**name)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let written = listed.iter().filter(|name| name.starts_with('w')).count();
    assert!(written <= acknowledged.len() + WRITERS as usize, "{written} objects");
    end(server);
}

async fn create<K>(client: &Client, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let object = serde_json::from_value(object).unwrap();
    let api: Api<K> = Api::default_namespaced(client.clone());
    api.create(&PostParams::default(), &object).await.unwrap();
}

async fn create_machine(client: &Client, name: &str) {
    let class = json!({
        "metadata": { "name": "small" }, "provider": "fakecloud",
        "providerSpec": { "machineType": "small", "image": "linux-1", "zone": "local-1" },
        "secretRef": { "name": "cloud", "namespace": "default" },
    });
    let machine = json!({
        "metadata": { "name": name }, "spec": { "class": { "kind": "MachineClass", "name": "small" } },
    });
    let secret = json!({ "metadata": { "name": "cloud" }, "stringData": { "apiToken": "any", "userData": "none" } });
    create::<Secret>(client, secret).await;
    create::<MachineClass>(client, class).await;
    create::<Machine>(client, machine).await;
}

/// Waits until the machine is Running; returns its provider ID.
async fn running(client: &Client, name: &str) -> String {
    let is_running = |machine: Option<&Machine>| {
        machine.is_some_and(|machine| machine.status.current_status.phase == Some(Phase::Running))
    };
    let machines: Api<Machine> = Api::default_namespaced(client.clone());
    let waiting = tokio::time::timeout(LIMIT, await_condition(machines, name, is_running)).await;
    waiting.unwrap().unwrap().unwrap().spec.provider_id
}

/// The names and uids of all nodes.
async fn nodes(client: &Client) -> BTreeSet<(String, Option<String>)> {
    let nodes: Api<Node> = Api::all(client.clone());
    let listed = nodes.list(&ListParams::default()).await.unwrap();
    listed.items.iter().map(|node| (node.name_any(), node.uid())).collect()
}

#[tokio::test]
async fn the_machines_and_nodes_of_a_killed_world_continue() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data=data", "--nodes=2"];
    let up = Up::start(folder.path(), &arguments);
    let first = client(&up.kubeconfig()).await;
    create_machine(&first, "m-1").await;
    let vm = running(&first, "m-1").await;
    let before = nodes(&first).await;
    assert_eq!(before.len(), 3);
    drop(up);

    let up = Up::start(folder.path(), &arguments);
    let second = client(&up.kubeconfig()).await;
    assert_eq!(running(&second, "m-1").await, vm);
    assert_eq!(nodes(&second).await, before);
    let machines: Api<Machine> = Api::default_namespaced(second.clone());
    machines
        .delete("m-1", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let gone = await_condition(machines, "m-1", |machine: Option<&Machine>| machine.is_none());
    tokio::time::timeout(LIMIT, gone).await.unwrap().unwrap();
    up.end();
}
