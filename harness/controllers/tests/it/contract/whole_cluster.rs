//! What depends on every node of the cluster. On a real control plane these cases need it to
//! themselves: they run there when tests run one at a time (`RUST_TEST_THREADS=1`).

use std::time::Duration;

use serde_json::{Value, json};

use super::{Site, contract};

fn path(name: &str) -> String {
    format!("/api/v1/nodes/{name}-{{ns}}")
}

/// Whether the case has the cluster to itself.
async fn is_alone(site: &Site) -> bool {
    if site.is_simulated() {
        return true;
    }
    let alone = std::env::var("RUST_TEST_THREADS").is_ok_and(|threads| threads == "1");
    if alone {
        let nodes = site.list("/api/v1/nodes").await;
        assert!(nodes.is_empty(), "the cluster has other nodes: {nodes:#?}");
    } else {
        println!("not on the real control plane: that takes RUST_TEST_THREADS=1");
    }
    alone
}

/// Makes a node of a zone of its own.
async fn node(site: &Site, name: &str) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("{name}-{{ns}}"), "labels": { "topology.kubernetes.io/zone": format!("{{ns}}-{name}") },
        },
    });
    site.create(node).await;
    say(site, name, "True").await;
}

async fn say(site: &Site, name: &str, ready: &str) {
    let conditions = json!([{ "type": "Ready", "status": ready, "reason": "Said" }]);
    site.set_status(&path(name), json!({ "conditions": conditions })).await;
}

fn has(node: &Value, effect: &str) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints
        .into_iter()
        .flatten()
        .any(|taint| taint["effect"] == effect && taint["key"] == "node.kubernetes.io/not-ready")
}

#[test]
fn when_every_node_is_bad_no_pods_are_driven_away_and_those_to_be_are_spared() {
    contract!(async |site: &Site| {
        if !is_alone(site).await {
            return;
        }
        for name in ["a", "b"] {
            node(site, name).await;
        }
        site.pass(Duration::from_secs(11)).await;
        say(site, "a", "False").await;
        site.until_it(&path("a"), "pods are driven away", |node| has(node, "NoExecute"))
            .await;
        say(site, "b", "False").await;
        let spared = |node: &Value| has(node, "NoSchedule") && !has(node, "NoExecute");
        site.until_it(&path("a"), "spared", spared).await;
        site.pass(Duration::from_secs(11)).await;
        for name in ["a", "b"] {
            let node = site.get(&path(name)).await;
            assert!(spared(&node), "{node:#}");
        }
        say(site, "b", "True").await;
        site.until_it(&path("a"), "pods are driven away again", |node| has(node, "NoExecute"))
            .await;
    });
}

#[test]
fn the_only_node_of_a_cluster_keeps_its_pods() {
    contract!(async |site: &Site| {
        if !is_alone(site).await {
            return;
        }
        node(site, "a").await;
        site.pass(Duration::from_secs(11)).await;
        say(site, "a", "False").await;
        site.until_it(&path("a"), "new pods are kept off", |node| has(node, "NoSchedule"))
            .await;
        let driven = |node: Option<&Value>| node.is_some_and(|node| has(node, "NoExecute"));
        site.never(&path("a"), Duration::from_secs(20), "pods are driven away", driven)
            .await;
    });
}
