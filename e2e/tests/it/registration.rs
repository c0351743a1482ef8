//! A driver that registers itself over mutual TLS creates and deletes VMs like a dialled one, and nothing is
//! lost when one of its processes dies.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use mcm_api::{Machine, MachineClass, Phase};
use serde_json::{Value, json};
use stage::ports::free_port;

use crate::drydock::{client, drydock_program};
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

/// The flags with which a driver registers with the replica of mcm at `port`.
fn registration(port: u16) -> [String; 5] {
    [
        format!("--register-with=grpcs://127.0.0.1:{port}"),
        "--register-tls-ca=tls/ca.crt".to_owned(),
        "--register-tls-cert=tls/client.crt".to_owned(),
        "--register-tls-key=tls/client.key".to_owned(),
        "--register-tls-server-name=mcm.default.svc".to_owned(),
    ]
}

/// Starts fakecloud on `port` with further flags.
fn cloud(folder: &Path, kubeconfig: &Path, port: u16, flags: impl IntoIterator<Item = String>) -> Running {
    let mut command = program("fakecloud");
    command.args([
        "serve".to_owned(),
        format!("--address=127.0.0.1:{port}"),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--data=ledger".to_owned(),
        "--boot-delay=0s".to_owned(),
        "--kubelet-lease-period=500ms".to_owned(),
    ]);
    started_with(command, flags, folder)
}

/// Starts fakecloud, which registers as a driver.
fn driver(folder: &Path, kubeconfig: &Path, port: u16) -> Running {
    cloud(folder, kubeconfig, free_port().unwrap(), registration(port))
}

/// Starts a driver process that registers and calls the cloud at `cloud`.
fn driver_process(folder: &Path, cloud: u16, port: u16) -> Running {
    let mut command = program("fakecloud");
    command.args(["register".to_owned(), format!("--cloud=grpc://127.0.0.1:{cloud}")]);
    started_with(command, registration(port), folder)
}

fn started_with(mut command: Command, flags: impl IntoIterator<Item = String>, folder: &Path) -> Running {
    command.args(flags);
    started(command, folder)
}

fn in_default(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!("default");
    object
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(LIMIT, work).await;
    done.unwrap_or_else(|_| panic!("{what} not within {LIMIT:?}"))
}

/// Creates the class of the fixture machines and its Secret. Returns the machines.
async fn machines_of(kubeconfig: &Path) -> Api<Machine> {
    let client = client(kubeconfig).await;
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = in_default(scenario::fixtures::secret("default"));
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let classes: Api<MachineClass> = Api::default_namespaced(client.clone());
    let class = serde_json::from_value(scenario::fixtures::class("default")).unwrap();
    classes.create(&PostParams::default(), &class).await.unwrap();
    Api::default_namespaced(client)
}

/// Creates a machine and waits until it runs.
async fn run_machine(machines: &Api<Machine>, name: &str) {
    let machine: Machine = serde_json::from_value(scenario::fixtures::machine(name, "default")).unwrap();
    machines.create(&PostParams::default(), &machine).await.unwrap();
    let runs = |machine: Option<&Machine>| {
        machine.is_some_and(|machine| machine.status.current_status.phase == Some(Phase::Running))
    };
    let running = Box::pin(await_condition(machines.clone(), name, runs));
    within(&format!("{name} runs"), running).await.unwrap();
}

/// Waits until a machine reports that it has no driver. Returns its uid.
async fn waits_for_driver(machines: &Api<Machine>, name: &str) -> String {
    let says = |machine: Option<&Machine>| {
        let operation = machine.and_then(|machine| machine.status.last_operation.as_ref());
        operation.is_some_and(|operation| operation.description.contains("no driver has registered"))
    };
    let waiting = await_condition(machines.clone(), name, says);
    let machine = within(&format!("{name} reports what it waits for"), waiting).await;
    machine.unwrap().and_then(|machine| machine.uid()).unwrap()
}

async fn gone(machines: &Api<Machine>, name: &str, uid: &str) {
    let gone = await_condition(machines.clone(), name, conditions::is_deleted(uid));
    within(&format!("{name} goes"), gone).await.unwrap();
}

#[tokio::test]
async fn a_driver_registered_over_tls_restarts_without_losses() {
    let folder = tempfile::tempdir().unwrap();
    let (_up, kubeconfig) = control_plane();
    certificates(folder.path());
    let port = free_port().unwrap();
    let _mcm = mcm(folder.path(), &kubeconfig, port);
    let first = driver(folder.path(), &kubeconfig, port);
    let machines = machines_of(&kubeconfig).await;
    run_machine(&machines, "m-1").await;

    drop(first);
    machines.delete("m-1", &DeleteParams::default()).await.unwrap();
    let uid = waits_for_driver(&machines, "m-1").await;
    let _second = driver(folder.path(), &kubeconfig, port);
    gone(&machines, "m-1", &uid).await;
}

#[tokio::test]
async fn a_second_driver_process_over_tls_takes_over_when_the_first_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (_up, kubeconfig) = control_plane();
    certificates(folder.path());
    let (port, cloud_port) = (free_port().unwrap(), free_port().unwrap());
    let _mcm = mcm(folder.path(), &kubeconfig, port);
    let _cloud = cloud(folder.path(), &kubeconfig, cloud_port, []);
    let first = driver_process(folder.path(), cloud_port, port);
    let machines = machines_of(&kubeconfig).await;
    run_machine(&machines, "m-1").await;

    let second = driver_process(folder.path(), cloud_port, port);
    drop(first);
    run_machine(&machines, "m-2").await;

    drop(second);
    machines.delete("m-1", &DeleteParams::default()).await.unwrap();
    let uid = waits_for_driver(&machines, "m-1").await;
    let _third = driver_process(folder.path(), cloud_port, port);
    gone(&machines, "m-1", &uid).await;
}
