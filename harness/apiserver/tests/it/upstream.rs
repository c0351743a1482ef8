//! Kubernetes' own kube-controller-manager and kube-scheduler with this server as their only server. Needs the programs
//! of `scripts/kubernetes/build`; skipped on machines without them, unless `DRYDOCK_REQUIRE_KUBERNETES` is set.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};

const REQUIRE: &str = "DRYDOCK_REQUIRE_KUBERNETES";
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The folder with the programs, if this machine has them.
fn programs() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("DRYDOCK_CACHE").map(PathBuf::from).or_else(|| {
        let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
        Some(caches.join("drydock"))
    })?;
    let folders = std::fs::read_dir(cache).ok()?.filter_map(Result::ok);
    let mut folders: Vec<PathBuf> = folders
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("kubernetes-v1.36."))
        .map(|entry| entry.path().join("bin"))
        .filter(|bin| bin.join("kube-controller-manager").is_file() && bin.join("kube-scheduler").is_file())
        .collect();
    folders.sort();
    folders.pop()
}

/// A program that ends with the test.
struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    fn start(bin: &Path, name: &str, folder: &Path, arguments: &[String]) -> Self {
        let log = folder.join(format!("{name}.log"));
        let output = std::fs::File::create(&log).unwrap();
        let child = Command::new(bin.join(name))
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Cluster {
    client: Client,
}

impl Cluster {
    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match kind {
            "Node" => Api::all_with(self.client.clone(), &resource),
            _ => Api::default_namespaced_with(self.client.clone(), &resource),
        }
    }

    async fn create(&self, object: Value) {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let api = self.api(&text("apiVersion"), &text("kind"));
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap();
    }

    /// Acts as the kubelets: pods that end succeed, all others become ready.
    async fn run_pods(&self) {
        let pods = self.api("v1", "Pod");
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            let (spec, status) = (&pod.data["spec"], &pod.data["status"]);
            if !spec["nodeName"].is_string() || status["phase"] != "Pending" {
                continue;
            }
            let name = pod.metadata.name.as_deref().unwrap();
            let ends = spec["restartPolicy"] != "Always";
            let ready = if ends { "False" } else { "True" };
            let time = "2026-01-01T00:00:00Z";
            let phase = if ends { "Succeeded" } else { "Running" };
            let status = json!({ "status": {
                "phase": phase, "startTime": time,
                "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": time }],
            } });
            let patched = pods
                .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
                .await;
            patched.unwrap();
        }
    }

    /// Runs the pods until the object has that value.
    async fn until(&self, api_version: &str, kind: &str, name: &str, pointer: &str, wanted: impl Into<Value>) {
        let (api, wanted) = (self.api(api_version, kind), wanted.into());
        let reached = async {
            loop {
                self.run_pods().await;
                let object = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
                if object.pointer(pointer) == Some(&wanted) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let in_time = tokio::time::timeout(TIME_LIMIT, reached).await;
        in_time.unwrap_or_else(|_| panic!("{kind} {name}: {pointer} does not become {wanted}"));
    }

    /// Waits for a Job of the CronJob.
    async fn until_ticked(&self, name: &str) {
        let jobs = self.api("batch/v1", "Job");
        let ticked = async {
            loop {
                let all = jobs.list(&ListParams::default()).await.unwrap();
                let owners = all
                    .iter()
                    .flat_map(|job| job.metadata.owner_references.iter().flatten());
                if owners.map(|owner| owner.name.as_str()).any(|owner| owner == name) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let in_time = tokio::time::timeout(TIME_LIMIT, ticked).await;
        in_time.expect("the CronJob creates a Job");
    }
}

fn node(name: &str) -> Value {
    let resources = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
    let time = "2026-01-01T00:00:00Z";
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "lastHeartbeatTime": time, "lastTransitionTime": time,
            }],
        },
    })
}

fn pod(labels: &Value, policy: &str) -> Value {
    json!({
        "metadata": { "labels": labels },
        "spec": { "containers": [{ "name": "c", "image": "i:1" }], "restartPolicy": policy },
    })
}

fn workload(kind: &str, name: &str, more: &Value) -> Value {
    let labels = json!({ "app": name });
    let mut spec = json!({ "replicas": 2, "selector": { "matchLabels": labels }, "template": pod(&labels, "Always") });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_own_controllers_and_scheduler_run_workloads() {
    let Some(bin) = programs() else {
        assert!(std::env::var_os(REQUIRE).is_none(), "run scripts/kubernetes/build");
        println!("skipped: run scripts/kubernetes/build");
        return;
    };
    let server = Server::new(Options::new(Clock::wall(), Seed::new(7))).unwrap();
    let serving = server.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let text = serving.kubeconfig(&Identity::admin()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, &text).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::from_yaml(&text).unwrap(), &options);
    let cluster = Cluster {
        client: Client::try_from(config.await.unwrap()).unwrap(),
    };
    let who = ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"];
    let mut arguments: Vec<String> = who
        .iter()
        .map(|name| format!("--{name}={}", kubeconfig.display()))
        .collect();
    arguments.extend(["--leader-elect=false", "--secure-port=0"].map(str::to_owned));
    let scheduler = Program::start(&bin, "kube-scheduler", folder.path(), &arguments);
    arguments.push("--use-service-account-credentials=false".to_owned());
    // The nodes of this test send no heartbeats.
    arguments.push("--controllers=*,-node-lifecycle-controller".to_owned());
    let controllers = Program::start(&bin, "kube-controller-manager", folder.path(), &arguments);
    for name in ["n-1", "n-2"] {
        cluster.create(node(name)).await;
        let untaint = json!({ "spec": { "taints": null } });
        let nodes = cluster.api("v1", "Node");
        nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(untaint))
            .await
            .unwrap();
    }
    let job = json!({ "template": pod(&json!({}), "Never") });
    cluster.create(workload("Deployment", "web", &json!({}))).await;
    cluster
        .create(workload("StatefulSet", "db", &json!({ "serviceName": "db" })))
        .await;
    cluster
        .create(json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "once" }, "spec": job }))
        .await;
    let schedule = json!({ "schedule": "* * * * *", "jobTemplate": { "spec": job } });
    cluster
        .create(
            json!({ "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "tick" }, "spec": schedule }),
        )
        .await;
    cluster
        .until("apps/v1", "Deployment", "web", "/status/readyReplicas", 2)
        .await;
    cluster
        .until("apps/v1", "StatefulSet", "db", "/status/readyReplicas", 2)
        .await;
    cluster.until("batch/v1", "Job", "once", "/status/succeeded", 1).await;
    // The next minute begins within the time limit.
    cluster.until_ticked("tick").await;
    for program in [&scheduler, &controllers] {
        let log = program.log();
        let refused: Vec<&str> = log
            .lines()
            .filter(|line| {
                ["failed to list", "failed to watch"]
                    .iter()
                    .any(|word| line.to_lowercase().contains(word))
            })
            .collect();
        assert_eq!(refused, Vec::<&str>::new());
    }
}
