//! The loop against an API server that stores Nodes, in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Seed};
use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use crate::model::{Reference, test_request as request};
use crate::{Config, Fakecloud};

#[derive(Default)]
struct Api {
    nodes: BTreeMap<String, Value>,
    requests: Vec<String>,
}

/// Lists and watches Nodes (a watch ends after ten seconds, which forces a relist), merges patches, deletes; all other
/// objects do not exist.
fn api_server(api: &Arc<Mutex<Api>>) -> Client {
    let api = Arc::clone(api);
    let service = service_fn(move |request: Request<Body>| {
        let api = Arc::clone(&api);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap().to_vec();
            let path = parts.uri.path().to_owned();
            if parts.uri.query().unwrap_or_default().contains("watch=true") {
                tokio::time::sleep(Duration::from_secs(10)).await;
                let expired = json!({"type": "ERROR", "object": {
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410,
                    "reason": "Expired", "message": "too old",
                }});
                return Ok::<_, std::convert::Infallible>(Response::new(Body::from(expired.to_string().into_bytes())));
            }
            let mut api = api.lock();
            let name = path.split('/').nth(4).unwrap_or_default().to_owned();
            let answer = match parts.method {
                Method::GET if name.is_empty() && path.ends_with("/nodes") => {
                    let items: Vec<&Value> = api.nodes.values().collect();
                    json!({"metadata": {"resourceVersion": "1"}, "items": items})
                }
                Method::GET => json!({"metadata": {"resourceVersion": "1"}, "items": []}),
                Method::PATCH if api.nodes.contains_key(&name) => {
                    api.requests.push(format!("PATCH {path}"));
                    let patch: Value = serde_json::from_slice(&body).unwrap();
                    let node = api.nodes.get_mut(&name).unwrap();
                    json_patch::merge(node, &patch);
                    let version = node["metadata"]["resourceVersion"]
                        .as_str()
                        .unwrap()
                        .parse::<u64>()
                        .unwrap()
                        + 1;
                    node["metadata"]["resourceVersion"] = json!(version.to_string());
                    node.clone()
                }
                Method::DELETE => {
                    api.requests.push(format!("DELETE {path}"));
                    api.nodes.remove(&name);
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
                }
                _ => json!({}),
            };
            Ok(Response::new(Body::from(answer.to_string().into_bytes())))
        }
    });
    Client::new(service, "default")
}

fn node(name: &str, provider_id: Option<&str>, taints: Value, cloud: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
            "creationTimestamp": "2027-01-15T08:00:00Z", "annotations": {"fakecloud.drydock.dev/cloud": cloud},
        },
        "spec": {"providerID": provider_id, "taints": taints},
    })
}

struct World {
    cloud: Fakecloud,
    api: Arc<Mutex<Api>>,
    token: CancellationToken,
}

impl World {
    /// A cloud with the running VM of machine `a`.
    async fn new() -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
        let cloud = Fakecloud::new(Config::default(), clock, Seed::new(1));
        let created = cloud.step(|cloud, now| cloud.create_machine(&request("a"), now));
        created.result.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        cloud.step(|cloud, now| cloud.advance(now));
        Self {
            cloud,
            api: Arc::default(),
            token: CancellationToken::new(),
        }
    }

    fn provider_id(&self) -> String {
        self.cloud
            .step(|cloud, _| cloud.vms().next().unwrap().provider_id.clone())
    }

    fn put(&self, node: Value) {
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        self.api.lock().nodes.insert(name, node);
    }

    fn node(&self, name: &str) -> Value {
        self.api.lock().nodes.get(name).cloned().unwrap_or_default()
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.api.lock().requests)
    }

    /// Runs the controller while `act` runs.
    async fn run(&self, act: impl Future<Output = ()>) {
        let act = async {
            act.await;
            self.token.cancel();
        };
        let settings = Config::default().settings().cloud_controller.unwrap();
        tokio::join!(
            super::run(self.cloud.clone(), settings, api_server(&self.api), self.token.clone()),
            act
        );
    }
}

fn a() -> Reference {
    Reference::Machine("a".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_node_is_initialized_tainted_untainted_and_deleted_with_its_vm() {
    let world = World::new().await;
    let uninitialized = json!([{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]);
    let mut fresh = node("a", None, uninitialized, &world.cloud.instance());
    fresh["status"] = json!({"nodeInfo": {
        "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
        "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": world.provider_id(),
    }});
    world.put(fresh);
    let act = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let node = world.node("a");
        assert_eq!(node["spec"]["providerID"], world.provider_id());
        assert_eq!(node["spec"]["taints"], json!([]));
        assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "local-1");
        assert_eq!(node["status"]["addresses"][0]["address"], "10.0.0.1");
        assert_eq!(
            world.requests(),
            ["PATCH /api/v1/nodes/a/status", "PATCH /api/v1/nodes/a"]
        );

        // The next list, 30 s later, shows the current Node.
        tokio::time::sleep(Duration::from_secs(30)).await;
        world
            .cloud
            .step(|cloud, now| drop(cloud.kill_vm(&a(), now).unwrap().id.clone()));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(world.requests(), [""; 0], "monitoring comes every five seconds");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(
            world.node("a")["spec"]["taints"][0]["key"],
            "node.cloudprovider.kubernetes.io/shutdown"
        );

        tokio::time::sleep(Duration::from_secs(30)).await;
        world
            .cloud
            .step(|cloud, now| drop(cloud.start_vm(&a(), now).unwrap().id.clone()));
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(world.node("a")["spec"]["taints"], json!([]));

        tokio::time::sleep(Duration::from_secs(30)).await;
        world.requests();
        world
            .cloud
            .step(|cloud, now| drop(cloud.delete_vm(&a(), now).unwrap().id.clone()));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(world.requests(), [""; 0]);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(world.requests(), ["DELETE /api/v1/nodes/a"]);
    };
    world.run(act).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_of_other_clouds_and_of_other_ledgers_are_never_touched() {
    let world = World::new().await;
    world.put(node("aws", Some("aws:///z/i-1"), json!([]), ""));
    world.put(node("bare", None, json!([]), ""));
    world.put(node("other", Some("fakecloud:///z/vm-0"), json!([]), "another-cloud"));
    world.put(node(
        "ours",
        Some("fakecloud:///z/vm-1"),
        json!([]),
        &world.cloud.instance(),
    ));
    let act = async {
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(world.requests(), ["DELETE /api/v1/nodes/ours"]);
    };
    world.run(act).await;
}

#[tokio::test(start_paused = true)]
async fn a_cloud_with_a_new_ledger_deletes_no_nodes_of_its_predecessor() {
    let world = World::new().await;
    world.put(node(
        "a",
        Some(&world.provider_id()),
        json!([]),
        &world.cloud.instance(),
    ));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let restarted = World {
        cloud: Fakecloud::new(Config::default(), world.cloud.clock().clone(), Seed::new(1)),
        api: Arc::clone(&world.api),
        token: CancellationToken::new(),
    };
    let act = async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(restarted.requests(), [""; 0]);
    };
    restarted.run(act).await;
}
