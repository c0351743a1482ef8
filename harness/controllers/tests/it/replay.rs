//! Replay: two runs of an active world with one seed send the same requests at the same times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::observe::{Observer, RequestRecord};
use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use controllers::Settings;
use kube::Client;
use kube::api::Request;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const TICK: Duration = Duration::from_secs(5);
/// Twice the number of requests that the story needs.
const MOST: usize = 3000;
const PODS: &str = "/api/v1/namespaces/work/pods";

/// All requests, with their times and responses.
#[derive(Debug)]
struct Log {
    clock: Clock,
    lines: Mutex<Vec<String>>,
}

impl Observer for Log {
    fn request(&self, record: &RequestRecord<'_>) {
        let RequestRecord {
            client,
            verb,
            path,
            code,
            revision,
            ..
        } = record;
        let line = format!("{:.3} {client} {verb} {path} {code} {revision}", self.clock.now());
        let mut lines = self.lines.lock();
        assert!(lines.len() < MOST, "endless requests: {line}");
        lines.push(line);
    }
}

/// A client that sends requests and ignores refusals.
#[derive(Clone)]
struct Requests(Client);

impl Requests {
    async fn send(&self, method: &str, path: &str, body: Value) -> Option<Value> {
        let media_type = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .body(body)
            .unwrap();
        self.0.request::<Value>(request).await.ok()
    }

    async fn create(&self, path: &str, object: Value) {
        assert!(
            self.send("POST", path, object.clone()).await.is_some(),
            "{path} {object}"
        );
    }

    async fn merge(&self, path: &str, patch: Value) {
        self.send("PATCH", path, patch).await;
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        let request = Request::new(path).list(&kube::api::ListParams::default()).unwrap();
        let list = self.0.request::<Value>(request).await.unwrap();
        list["items"].as_array().cloned().unwrap_or_default()
    }
}

type Alive = Arc<Mutex<BTreeMap<String, bool>>>;

async fn join(requests: &Requests, alive: &Alive, name: &str) {
    let node = json!({
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": name, "kubernetes.io/hostname": name } },
        "status": {
            "capacity": { "cpu": "4", "memory": "8Gi", "pods": "20" },
            "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "20" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    requests.create("/api/v1/nodes", node).await;
    alive.lock().insert(name.to_owned(), true);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    requests
        .send("POST", leases, json!({ "metadata": { "name": name }, "spec": {} }))
        .await;
}

/// Simulates kubelets: renews leases, runs pods, removes terminating pods.
async fn kubelets(requests: Requests, clock: Clock, alive: Alive) {
    loop {
        let living: Vec<String> = {
            let alive = alive.lock();
            alive
                .iter()
                .filter(|(_, lives)| **lives)
                .map(|(name, _)| name.clone())
                .collect()
        };
        for name in &living {
            let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
            let renewal = json!({ "spec": { "renewTime": format!("{:.6}", clock.now()) } });
            requests.merge(&lease, renewal).await;
        }
        for pod in requests.list(PODS).await {
            let on = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if !living.iter().any(|name| name == on) {
                continue;
            }
            let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
            if pod["metadata"]["deletionTimestamp"].is_string() {
                requests.send("DELETE", &path, json!({ "gracePeriodSeconds": 0 })).await;
            } else if pod["status"]["phase"] == "Pending" {
                let status = json!({
                    "phase": "Running", "podIP": "10.0.0.1", "conditions": [{ "type": "Ready", "status": "True" }],
                });
                requests
                    .merge(&format!("{path}/status"), json!({ "status": status }))
                    .await;
            }
        }
        clock.sleep(TICK).await;
    }
}

fn template(app: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "500m" } } }] },
    })
}

/// Twenty minutes in which nodes become silent, join and leave, and workloads and budgets react.
async fn story(requests: &Requests, clock: &Clock, alive: &Alive) {
    let wait = |seconds: u64| clock.sleep(Duration::from_secs(seconds));
    for name in ["a", "b", "c"] {
        join(requests, alive, name).await;
    }
    requests
        .create("/api/v1/namespaces", json!({ "metadata": { "name": "work" } }))
        .await;
    wait(1).await;
    let apps = "/apis/apps/v1/namespaces/work";
    let selector = |app: &str| json!({ "matchLabels": { "app": app } });
    let web = json!({ "metadata": { "name": "web" }, "spec": { "replicas": 6, "selector": selector("web"), "template": template("web") } });
    requests.create(&format!("{apps}/deployments"), web).await;
    let db = json!({ "metadata": { "name": "db" }, "spec": { "replicas": 2, "serviceName": "db", "selector": selector("db"), "template": template("db") } });
    requests.create(&format!("{apps}/statefulsets"), db).await;
    let each = json!({ "metadata": { "name": "each" }, "spec": { "selector": selector("each"), "template": template("each") } });
    requests.create(&format!("{apps}/daemonsets"), each).await;
    let budget = json!({ "metadata": { "name": "web" }, "spec": { "maxUnavailable": 1, "selector": selector("web") } });
    requests
        .create("/apis/policy/v1/namespaces/work/poddisruptionbudgets", budget)
        .await;
    let service =
        json!({ "metadata": { "name": "web" }, "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } });
    requests.create("/api/v1/namespaces/work/services", service).await;
    wait(60).await;
    for pod in requests.list(PODS).await {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
        requests
            .send("POST", &format!("{PODS}/{name}/eviction"), eviction)
            .await;
    }
    wait(60).await;
    alive.lock().insert("b".to_owned(), false);
    wait(400).await;
    join(requests, alive, "d").await;
    requests
        .merge(&format!("{apps}/deployments/web"), json!({ "spec": { "replicas": 9 } }))
        .await;
    wait(60).await;
    alive.lock().insert("b".to_owned(), true);
    wait(60).await;
    requests.send("DELETE", "/api/v1/nodes/c", Value::Null).await;
    alive.lock().remove("c");
    let image = json!({ "spec": { "template": { "metadata": { "annotations": { "example.com/version": "2" } } } } });
    requests.merge(&format!("{apps}/deployments/web"), image).await;
    wait(120).await;
    requests
        .send(
            "DELETE",
            &format!("{apps}/statefulsets/db"),
            json!({ "propagationPolicy": "Foreground" }),
        )
        .await;
    wait(60).await;
    requests.send("DELETE", "/api/v1/namespaces/work", Value::Null).await;
    wait(120).await;
    let gone = requests.send("GET", "/api/v1/namespaces/work", Value::Null).await;
    assert!(gone.is_none(), "the namespace still exists: {gone:#?}");
}

/// Returns the requests of one run.
fn run(seed: u64) -> Vec<String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(async {
            let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
            let log = Arc::new(Log {
                clock: clock.clone(),
                lines: Mutex::default(),
            });
            let server = Server::new(Options {
                garbage_collector: true,
                namespace_controllers: true,
                observer: Some(Arc::clone(&log) as Arc<dyn Observer>),
                ..Options::new(clock.clone(), Seed::new(seed))
            })
            .unwrap();
            let client = |user: &str| {
                let identity = Identity {
                    user: user.to_owned(),
                    ..Identity::admin()
                };
                Client::new(server.service(identity), "default")
            };
            let (requests, alive) = (Requests(client("hand")), Alive::default());
            let controllers = controllers::run(
                client("controllers"),
                clock.clone(),
                Seed::new(seed).child("controllers"),
                Settings::default(),
                CancellationToken::new(),
            );
            tokio::select! {
                biased;
                () = story(&requests, &clock, &alive) => {}
                () = controllers => panic!("the controllers ended"),
                () = kubelets(Requests(client("kubelets")), clock.clone(), Arc::clone(&alive)) => {}
            }
            std::mem::take(&mut *log.lines.lock())
        })
}

/// The number of controller writes by kind, without names: equal in every run, whatever the seed.
fn writes(log: &[String]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in log {
        let words: Vec<&str> = line.split(' ').collect();
        let &[_, "controllers", verb @ ("create" | "delete"), path, code, _] = words.as_slice() else {
            continue;
        };
        let kind = path.split('/').find(|part| {
            [
                "pods",
                "replicasets",
                "nodes",
                "endpointslices",
                "controllerrevisions",
                "leases",
            ]
            .contains(part)
        });
        if let Some(kind) = kind {
            *counts.entry(format!("{verb} {kind} {code}")).or_default() += 1;
        }
    }
    counts
}

#[test]
fn the_same_seed_gives_the_same_log_and_another_seed_only_other_names() {
    let (first, second) = (run(1), run(1));
    let parting = first.iter().zip(&second).position(|(one, other)| one != other);
    if let Some(line) = parting {
        panic!("line {line}: {} / {}", first[line], second[line]);
    }
    assert_eq!(first.len(), second.len());
    let of_controllers = first.iter().filter(|line| line.contains(" controllers ")).count();
    println!("{} requests, {of_controllers} of the controllers", first.len());
    assert!(of_controllers > 500, "{of_controllers}");

    let other = run(2);
    assert_ne!(first, other, "names come from the seed");
    assert_eq!(writes(&first), writes(&other));
}
