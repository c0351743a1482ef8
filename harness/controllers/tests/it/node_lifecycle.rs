//! Node lifecycle: which writes it sends and when, and that it sends no others.

use std::time::Duration;

use clock::{Clock, Seed};
use controllers::{Name, Settings};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::server::Server;

const NODE: &str = "/api/v1/nodes/a";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const POD: &str = "/api/v1/namespaces/default/pods/p";

fn epoch() -> Timestamp {
    Timestamp::from_second(1_893_456_000).unwrap()
}

/// Runs the controller until it is cancelled.
async fn run(server: &Server, clock: &Clock, cancelled: CancellationToken) {
    let alone = Settings::only([Name::NodeLifecycle]);
    controllers::run(server.client(), clock.clone(), Seed::new(0), alone, cancelled).await;
}

/// Runs the controller until `script` ends, then drops it. Another node keeps the cluster from being fully
/// disrupted.
async fn beside(server: &Server, clock: &Clock, script: impl Future<Output = ()>) {
    server.put(
        "/api/v1/nodes/well",
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "well", "uid": "2" },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        }),
    );
    let well = async {
        loop {
            put_renewed(server, clock, "well");
            clock.sleep(Duration::from_secs(10)).await;
        }
    };
    tokio::select! {
        biased;
        () = run(server, clock, CancellationToken::new()) => {}
        () = well => {}
        () = script => {}
    }
}

fn node(clock: &Clock, ready: &str) -> Value {
    let condition =
        |kind: &str, status: &str| json!({ "type": kind, "status": status, "lastHeartbeatTime": seconds(clock) });
    let conditions = [
        condition("Ready", ready),
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
    ];
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "a", "uid": "1", "creationTimestamp": epoch().to_string() },
        "spec": {}, "status": { "conditions": conditions },
    })
}

fn seconds(clock: &Clock) -> String {
    Timestamp::from_second(clock.now().as_second()).unwrap().to_string()
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default" },
        "spec": { "nodeName": "a", "containers": [] },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

/// The kubelet renews its lease every 10 s for `duration`.
async fn renew(server: &Server, clock: &Clock, duration: Duration) {
    for _ in 0..duration.as_secs() / 10 {
        put_renewed(server, clock, "a");
        clock.sleep(Duration::from_secs(10)).await;
    }
}

fn put_renewed(server: &Server, clock: &Clock, name: &str) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": name, "namespace": "kube-node-lease" },
        "spec": { "renewTime": format!("{:.6}", clock.now()) },
    });
    server.put(&format!("{LEASES}/{name}"), lease);
}

fn ready(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "Ready")
        .unwrap();
    format!(
        "{} {}",
        ready["status"].as_str().unwrap(),
        ready["reason"].as_str().unwrap_or_default()
    )
    .trim_end()
    .to_owned()
}

fn taints(server: &Server) -> Vec<String> {
    let taints = server.get(NODE)["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    taints
        .iter()
        .map(|taint| {
            format!(
                "{}:{}",
                taint["key"].as_str().unwrap(),
                taint["effect"].as_str().unwrap()
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_turns_unknown_is_tainted_and_recovers() {
    let (server, clock) = (Server::default(), Clock::simulated(epoch()));
    server.put(NODE, node(&clock, "True"));
    server.put(POD, pod());
    beside(&server, &clock, async {
        renew(&server, &clock, Duration::from_secs(600)).await;
        assert!(
            server.writes().is_empty(),
            "unexpected writes to a healthy node: {:?}",
            server.writes()
        );

        // The last renewal is 10 s old.
        clock.sleep(Duration::from_secs(39)).await;
        assert_eq!(ready(&server.get(NODE)), "True");
        clock.sleep(Duration::from_secs(6)).await;
        assert_eq!(ready(&server.get(NODE)), "Unknown NodeStatusUnknown");
        assert_eq!(
            taints(&server),
            [
                "node.kubernetes.io/unreachable:NoSchedule",
                "node.kubernetes.io/unreachable:NoExecute"
            ]
        );
        assert_eq!(ready(&server.get(POD)), "False");

        clock.sleep(Duration::from_secs(3600)).await;
        assert_eq!(server.writes().len(), 3, "{:?}", server.writes());

        let mut recovered = node(&clock, "True");
        recovered["spec"] = server.get(NODE)["spec"].clone();
        server.put(NODE, recovered);
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(taints(&server), Vec::<String>::new());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_conflicting_write_is_decided_again() {
    let (server, clock) = (Server::default(), Clock::simulated(epoch()));
    server.put(NODE, node(&clock, "False"));
    server.refuse_patches(2);
    beside(&server, &clock, async {
        clock.sleep(Duration::from_secs(6)).await;
        assert_eq!(taints(&server).len(), 2);
        assert_eq!(server.writes().len(), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_controller_completes_interrupted_writes() {
    let (server, clock) = (Server::default(), Clock::simulated(epoch()));
    server.put(NODE, node(&clock, "True"));
    server.put(POD, pod());
    beside(&server, &clock, async {
        while server.writes().is_empty() {
            clock.sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!(ready(&server.get(NODE)), "Unknown NodeStatusUnknown");
    beside(&server, &clock, clock.sleep(Duration::from_secs(6))).await;
    assert_eq!(taints(&server).len(), 2);
    assert_eq!(ready(&server.get(POD)), "False");
}

#[tokio::test(start_paused = true)]
async fn an_idle_day_causes_no_write() {
    let (server, clock) = (Server::default(), Clock::simulated(epoch()));
    server.put(NODE, node(&clock, "True"));
    beside(&server, &clock, renew(&server, &clock, Duration::from_secs(24 * 3600))).await;
    assert_eq!(clock.now(), epoch() + SignedDuration::from_hours(24));
    assert!(server.writes().is_empty(), "{:?}", server.writes());
}

#[tokio::test(start_paused = true)]
async fn it_stops_when_it_is_cancelled() {
    let (server, clock) = (Server::default(), Clock::simulated(epoch()));
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    run(&server, &clock, cancelled).await;
}
