//! `drydock up --nodes` and `drydock nodes` from a user's perspective: nodes and pods exist when the world is
//! up, break and recover on demand, and leave nothing behind.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::runtime::wait::await_condition;
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::drydock::{drydock_program, printed};
use crate::programs::program;
use crate::up::Up;

/// How long a change of a node may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A running world.
struct World {
    folder: TempDir,
    up: Up,
}

impl World {
    fn up(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let up = Up::start(folder.path(), arguments);
        Self { folder, up }
    }

    /// Runs `drydock nodes` in the world's folder.
    fn nodes(&self, arguments: &[&str]) -> Output {
        nodes(self.folder.path(), arguments)
    }

    /// The JSON output of `drydock nodes list`.
    fn listed(&self, arguments: &[&str]) -> Vec<Value> {
        let arguments = [&["list", "--output", "json"], arguments].concat();
        let output = self.nodes(&arguments);
        assert!(output.status.success(), "{}", printed(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The names of the broken nodes.
    fn broken(&self) -> Vec<String> {
        let mut rows = self.listed(&["--broken"]);
        rows.retain(|row| row["faults"] != json!([]) || row["set"] != json!([]));
        let names = rows.iter().map(|row| row["node"].as_str().unwrap().to_owned());
        names.collect()
    }

    async fn client(&self) -> kube::Client {
        crate::drydock::client(&self.up.kubeconfig()).await
    }

    /// Sends Ctrl-C; returns the remaining files.
    fn end(self) -> Vec<std::ffi::OsString> {
        self.up.end();
        let left = std::fs::read_dir(self.folder.path()).unwrap();
        left.map(|entry| entry.unwrap().file_name()).collect()
    }
}

fn nodes(folder: &Path, arguments: &[&str]) -> Output {
    drydock_program()
        .arg("nodes")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Waits until the node's condition has one of these states.
async fn becomes(api: &Api<Node>, name: &str, condition: &'static str, states: &'static [&'static str]) {
    let is = |node: Option<&Node>| {
        let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|seen| seen.type_ == condition && states.contains(&seen.status.as_str()))
    };
    let seen = tokio::time::timeout(LIMIT, await_condition(api.clone(), name, is)).await;
    seen.unwrap_or_else(|_| panic!("{condition} of {name} is not one of {states:?} after {LIMIT:?}"))
        .unwrap();
}

#[tokio::test]
async fn nodes_and_pods_exist_when_the_world_is_up_and_break_and_recover_on_demand() {
    let world = World::up(&["--nodes", "20", "--pods-per-node", "2", "--zones", "near,far"]);
    assert!(
        world.up.printed.contains("20 of 20 nodes Ready in "),
        "{}",
        world.up.printed
    );
    assert!(
        world.up.printed.contains("40 of 40 pods Running in "),
        "{}",
        world.up.printed
    );

    let all = world.listed(&[]);
    assert_eq!(all.len(), 20);
    for (number, row) in all.iter().enumerate() {
        assert_eq!(row["node"], format!("node-{number}"));
        assert_eq!(row["zone"], ["near", "far"][number % 2]);
        assert_eq!(row["pods"], 2, "{row}");
    }
    // fakecloud finds the world of its folder, too.
    let vms = program("fakecloud")
        .args(["vms", "-o", "json"])
        .current_dir(world.folder.path())
        .output()
        .unwrap();
    let vms: Vec<Value> =
        serde_json::from_slice(&vms.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(&vms)));
    assert_eq!(vms.len(), 20);
    let client = world.client().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 40);

    let api: Api<Node> = Api::all(client);
    for node in api.list(&ListParams::default()).await.unwrap() {
        let text = serde_json::to_string(&node.metadata).unwrap();
        assert!(
            !text.contains("machine.sapcloud.io"),
            "mcm claims a foreign node: {text}"
        );
    }
    let output = world.nodes(&[
        "break",
        "node-3",
        "--with",
        "partitioned",
        "--condition",
        "KernelDeadlock=True",
    ]);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(
        printed(&output).contains("partitioned, KernelDeadlock=True"),
        "{}",
        printed(&output)
    );
    becomes(&api, "node-3", "Ready", &["Unknown", "False"]).await;
    assert_eq!(world.broken(), ["node-3"]);

    let output = world.nodes(&["repair", "--all"]);
    assert!(
        printed(&output).contains("no longer partitioned, KernelDeadlock=True"),
        "{}",
        printed(&output)
    );
    becomes(&api, "node-3", "Ready", &["True"]).await;

    let output = world.nodes(&[
        "break",
        "node-*",
        "--random",
        "3",
        "--seed",
        "7",
        "--condition",
        "DiskPressure=True:Full",
    ]);
    assert_eq!(
        printed(&output).matches("DiskPressure=True").count(),
        3,
        "{}",
        printed(&output)
    );
    let drawn = world.broken();
    assert_eq!(drawn.len(), 3);
    for node in &drawn {
        becomes(&api, node, "DiskPressure", &["True"]).await;
    }

    let output = world.nodes(&["break", "nod-3", "--with", "stopped"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(printed(&output).contains("near it are: node-3"), "{}", printed(&output));

    assert_eq!(world.end(), Vec::<std::ffi::OsString>::new());
}

#[test]
fn a_world_whose_drydock_was_killed_is_reported() {
    let mut world = World::up(&[]);
    world.up.child.kill().unwrap();
    world.up.child.wait().unwrap();
    let output = world.nodes(&["list"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(
        printed(&output).contains("was killed and left .drydock/up.json"),
        "{}",
        printed(&output)
    );
}

#[rstest]
#[case::no_world(&["list"], "no `drydock up` runs in this folder: start one here, or say --cloud HOST:PORT")]
#[case::no_listener_at_the_address(
    &["list", "--cloud", "127.0.0.1:1"],
    "fakecloud does not answer at grpc://127.0.0.1:1"
)]
#[case::no_address(&["list", "--cloud", "nowhere"], "\"grpc://nowhere\" is not the address of a driver")]
#[case::half_of_the_files(
    &["list", "--cloud", "127.0.0.1:1", "--tls-ca", "x"],
    "--tls-ca, --tls-cert and --tls-key belong together"
)]
fn a_missing_world_fails_with_one_clear_line(#[case] arguments: &[&str], #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = nodes(folder.path(), arguments);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(printed(&output).contains(expected), "{}", printed(&output));
    assert_eq!(printed(&output).lines().count(), 1, "{}", printed(&output));
}

#[rstest]
#[case::an_unknown_fault(&["nodes", "break", "a", "--with", "broken"], "slowRecovery")]
#[case::a_fault_without_its_parameter(&["nodes", "break", "a", "--with", "slow"], "needs --delay")]
#[case::no_nodes(&["nodes", "break", "--with", "stopped"], "or say --random COUNT")]
#[case::nothing_to_repair(&["nodes", "repair"], "or say --all")]
#[case::too_many_nodes(&["up", "--nodes", "10001"], "10000")]
#[case::pods_without_nodes(&["up", "--pods-per-node", "2"], "--pods-per-node needs nodes")]
#[case::nodes_without_a_cloud(&["up", "--without", "fakecloud", "--nodes", "2"], "without fakecloud there are none")]
fn invalid_input_fails_with_status_2_and_the_valid_values(#[case] arguments: &[&str], #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = crate::drydock::drydock(folder.path(), arguments);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(printed(&output).contains(expected), "{}", printed(&output));
}
