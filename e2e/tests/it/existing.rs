//! An existing cluster: one session at a time, none beside another machine controller, and a clean end. The
//! cluster is a real control plane; the tests are skipped if its programs are not available, unless `make
//! real-test` requires them.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::await_condition;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::drydock::{drydock_program, printed};

/// Where a session might leave traces.
const LOOKED_AT: [&str; 12] = [
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/secrets",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/storage.k8s.io/v1/volumeattachments",
];

/// A control plane with its controllers; stopped when dropped.
pub(crate) struct Cluster {
    folder: TempDir,
    pub(crate) client: kube::Client,
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../scripts/kubernetes")
        .join(name)
}

impl Cluster {
    /// `None`: the programs are not available, and not required.
    pub(crate) async fn start() -> Option<Self> {
        let have = r#". "$0"; for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do [ -x "$BIN/$name" ] || { echo none; break; }; done"#;
        let found = Command::new("bash")
            .args(["-c", have])
            .arg(script("lib.sh"))
            .output()
            .unwrap();
        assert!(found.status.success(), "{}", printed(&found));
        if !found.stdout.is_empty() {
            assert_none_is_required("scripts/kubernetes/build has not made one");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new(script("up"))
            .arg(folder.path().join("plane"))
            .arg(five_ports().to_string())
            .env("CONTROLLERS", "1")
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", printed(&output));
        let kubeconfig = Kubeconfig::read_from(folder.path().join("plane/kubeconfig")).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = kube::Client::try_from(config.unwrap()).unwrap();
        Some(Self { folder, client })
    }

    fn run(&self, scenario: &str) -> Child {
        self.run_with(scenario, &["--stage", "kubeconfig", "--kubeconfig"])
    }

    /// The last of `flags` is followed by the cluster's kubeconfig.
    fn run_with(&self, scenario: &str, flags: &[&str]) -> Child {
        drydock_program()
            .args(["run", scenario, "--yes"])
            .args(flags)
            .arg(self.folder.path().join("plane/kubeconfig"))
            .current_dir(self.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The names of all objects that a session could leave, without those that Kubernetes creates itself.
    async fn objects(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for path in LOOKED_AT {
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            let list: Value = self.client.request(request).await.unwrap();
            for object in list["items"].as_array().unwrap() {
                let metadata = &object["metadata"];
                names.insert(format!("{path} {} {}", metadata["namespace"], metadata["name"]));
            }
        }
        let by_kubernetes = ["\"default\"", "\"kube-", "\"apiserver-", "\"system:"];
        names.retain(|name| {
            !by_kubernetes
                .iter()
                .any(|known| name.rsplit(' ').next().unwrap().starts_with(known))
        });
        names
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = Command::new(script("down"))
            .arg(self.folder.path().join("plane"))
            .status();
    }
}

/// If `DRYDOCK_NEEDS_CONTROL_PLANE` is set, a test that needs a real control plane fails without one.
pub(crate) fn assert_none_is_required(because: &str) {
    let needed = std::env::var_os("DRYDOCK_NEEDS_CONTROL_PLANE").is_some();
    assert!(!needed, "there is no control plane: {because}");
}

/// The first of five consecutive free ports that no other test of this process gets.
fn five_ports() -> u16 {
    const GROUPS: u32 = 2_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let group = std::process::id().wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % GROUPS;
        let first = 20_000 + 5 * u16::try_from(group).unwrap();
        if (first..first + 5).all(free) {
            return first;
        }
    }
}

/// Asserts one line and exit status 3: the stage is not available.
fn assert_refused(output: &Output, because: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{}", printed(output));
    assert!(stderr.contains(because), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[tokio::test]
#[ignore = "long: a real control plane"]
async fn a_cluster_has_one_session_at_a_time_and_sessions_leave_nothing_behind() {
    let Some(cluster) = Cluster::start().await else { return };
    let before = cluster.objects().await;

    let interrupted = cluster.run("vm_dies");
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let joined = await_condition(nodes, "m-1", |node: Option<&Node>| node.is_some());
    joined.await.unwrap();
    let second = cluster.run("lifecycle").wait_with_output().unwrap();
    assert_refused(&second, "another session of drydock uses this cluster");

    kill(Pid::from_raw(i32::try_from(interrupted.id()).unwrap()), Signal::SIGINT).unwrap();
    let output = interrupted.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", printed(&output));
    assert_eq!(cluster.objects().await, before);

    let output = cluster.run("lifecycle").wait_with_output().unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    assert_eq!(cluster.objects().await, before);
}

#[tokio::test]
#[ignore = "long: a real control plane"]
async fn an_existing_cluster_is_paired_with_an_embedded_one_and_left_unchanged() {
    let Some(cluster) = Cluster::start().await else { return };
    let before = cluster.objects().await;
    let its_nodes = [
        "--stage",
        "embedded",
        "--target-stage",
        "kubeconfig",
        "--target-kubeconfig",
    ];
    let its_machines = ["--target-stage", "embedded", "--stage", "kubeconfig", "--kubeconfig"];
    for flags in [its_nodes, its_machines] {
        let output = cluster.run_with("lifecycle", &flags).wait_with_output().unwrap();
        assert!(output.status.success(), "{flags:?}: {}", printed(&output));
        assert_eq!(cluster.objects().await, before, "{flags:?}");
    }
}

#[tokio::test]
#[ignore = "long: a real control plane"]
async fn a_session_does_not_start_beside_another_machine_controller() {
    let Some(cluster) = Cluster::start().await else { return };
    let held = Lease {
        metadata: ObjectMeta {
            name: Some("machine-controller-manager".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some("somebody".to_owned()),
            renew_time: Some(MicroTime(clock::Clock::wall().now())),
            ..LeaseSpec::default()
        }),
    };
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "default");
    leases.create(&PostParams::default(), &held).await.unwrap();
    let before = cluster.objects().await;
    let output = cluster.run("lifecycle").wait_with_output().unwrap();
    assert_refused(
        &output,
        "another machine controller runs in this cluster: the Lease default/machine-controller-manager is held",
    );
    assert_eq!(cluster.objects().await, before);
}

#[test]
fn a_silent_server_fails_within_ten_seconds() {
    let folder = tempfile::tempdir().unwrap();
    // The server accepts connections and never responds.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let server = format!("https://{}", silent.local_addr().unwrap());
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: silent\n\
         clusters: [{{name: silent, cluster: {{server: '{server}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: me, user: {{token: none}}}}]\n\
         contexts: [{{name: silent, context: {{cluster: silent, user: me}}}}]\n"
    );
    std::fs::write(folder.path().join("silent.kubeconfig"), kubeconfig).unwrap();
    let output = drydock_program()
        .args([
            "run",
            "lifecycle",
            "--stage",
            "kubeconfig",
            "--yes",
            "--kubeconfig",
            "silent.kubeconfig",
        ])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_refused(&output, &format!("the API server {server}"));
}
