//! A driver that registers itself over mutual TLS creates and deletes VMs like a dialled one, and nothing is
//! lost when it dies.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config, ResourceExt};
use mcm_api::{Machine, MachineClass, Phase};
use serde_json::{Value, json};
use stage::ports::free_port;

use crate::drydock::drydock_program;
use crate::programs::{Running, program};

/// How long a step may take on a loaded computer.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts a control plane; returns it with its kubeconfig.
fn control_plane() -> (Running, PathBuf) {
    let mut up = drydock_program();
    let (running, path) = Running::announced(up.args(["up", "--without=mcm,fakecloud"]), "export KUBECONFIG=");
    (running, path.into())
}

/// Certificates of both sides, from `fakecloud certificates`.
fn certificates(folder: &Path) {
    let generated = program("fakecloud")
        .args(["certificates", "--namespace=default", "--name=mcm", "--output=tls"])
        .current_dir(folder)
        .status();
    assert!(generated.unwrap().success());
}

fn mcm(folder: &Path, kubeconfig: &Path, port: u16) -> Running {
    let mut command = program("mcm");
    command.args([
        format!("--driver-listen=127.0.0.1:{port}"),
        "--driver-tls-ca=tls/ca.crt".to_owned(),
        "--driver-tls-cert=tls/server.crt".to_owned(),
        "--driver-tls-key=tls/server.key".to_owned(),
        format!("--control-kubeconfig={}", kubeconfig.display()),
        format!("--target-kubeconfig={}", kubeconfig.display()),
        format!("--port={}", free_port().unwrap()),
        "--address=127.0.0.1".to_owned(),
        "--short-retry=500ms".to_owned(),
    ]);
    started(command, folder)
}

fn started(mut command: Command, folder: &Path) -> Running {
    Running::start(command.current_dir(folder))
}

fn driver(folder: &Path, kubeconfig: &Path, port: u16) -> Running {
    let mut command = program("fakecloud");
    command.args([
        "serve".to_owned(),
        format!("--address=127.0.0.1:{}", free_port().unwrap()),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--data=ledger".to_owned(),
        "--boot-delay=0s".to_owned(),
        "--kubelet-lease-period=500ms".to_owned(),
        format!("--register-with=grpcs://127.0.0.1:{port}"),
        "--register-tls-ca=tls/ca.crt".to_owned(),
        "--register-tls-cert=tls/client.crt".to_owned(),
        "--register-tls-key=tls/client.key".to_owned(),
        "--register-tls-server-name=mcm.default.svc".to_owned(),
    ]);
    started(command, folder)
}

async fn client(kubeconfig: &Path) -> Client {
    let read = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(read, &Default::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn in_default(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!("default");
    object
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(LIMIT, work).await;
    done.unwrap_or_else(|_| panic!("{what} not within {LIMIT:?}"))
}

#[tokio::test]
async fn a_driver_registered_over_tls_restarts_without_losses() {
    let folder = tempfile::tempdir().unwrap();
    let (_up, kubeconfig) = control_plane();
    certificates(folder.path());
    let port = free_port().unwrap();
    let _mcm = mcm(folder.path(), &kubeconfig, port);
    let first = driver(folder.path(), &kubeconfig, port);

    let client = client(&kubeconfig).await;
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = in_default(scenario::fixtures::secret("default"));
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let classes: Api<MachineClass> = Api::default_namespaced(client.clone());
    let class = serde_json::from_value(scenario::fixtures::class("default")).unwrap();
    classes.create(&PostParams::default(), &class).await.unwrap();
    let machines: Api<Machine> = Api::default_namespaced(client);
    let machine: Machine = serde_json::from_value(scenario::fixtures::machine("m-1", "default")).unwrap();
    machines.create(&PostParams::default(), &machine).await.unwrap();
    let runs = |machine: Option<&Machine>| {
        machine.is_some_and(|machine| machine.status.current_status.phase == Some(Phase::Running))
    };
    within("m-1 runs", await_condition(machines.clone(), "m-1", runs))
        .await
        .unwrap();

    drop(first);
    machines.delete("m-1", &DeleteParams::default()).await.unwrap();
    let says = |machine: Option<&Machine>| {
        let operation = machine.and_then(|machine| machine.status.last_operation.as_ref());
        operation.is_some_and(|operation| operation.description.contains("no driver has registered"))
    };
    let waiting = within(
        "m-1 reports what it waits for",
        await_condition(machines.clone(), "m-1", says),
    )
    .await;
    let uid = waiting.unwrap().and_then(|machine| machine.uid()).unwrap();
    let _second = driver(folder.path(), &kubeconfig, port);
    let gone = await_condition(machines, "m-1", conditions::is_deleted(&uid));
    within("m-1 goes", gone).await.unwrap();
}
