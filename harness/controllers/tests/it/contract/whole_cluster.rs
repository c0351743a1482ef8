//! Reactions that depend on all nodes of the cluster. On a real control plane these cases need an exclusive
//! cluster: they run there only when tests run one at a time (`RUST_TEST_THREADS=1`).

use std::time::Duration;

use serde_json::{Value, json};

use super::{Site, contract};

fn path(name: &str) -> String {
    format!("/api/v1/nodes/{name}-{{ns}}")
}

/// Whether the case has an exclusive cluster.
async fn is_alone(site: &Site) -> bool {
    if site.is_simulated() {
        return true;
    }
    let alone = std::env::var("RUST_TEST_THREADS").is_ok_and(|threads| threads == "1");
    if alone {
        let nodes = site.list("/api/v1/nodes").await;
        assert!(nodes.is_empty(), "the cluster has other nodes: {nodes:#?}");
    } else {
        println!("skipped on the real control plane: needs RUST_TEST_THREADS=1");
    }
    alone
}

/// Creates a node in a zone of its own.
async fn node(site: &Site, name: &str) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("{name}-{{ns}}"), "labels": { "topology.kubernetes.io/zone": format!("{{ns}}-{name}") },
        },
    });
    site.create(node).await;
    set_ready(site, name, "True").await;
}

async fn set_ready(site: &Site, name: &str, ready: &str) {
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
fn a_full_disruption_of_all_zones_stops_evictions() {
    contract!(async |site: &Site| {
        if !is_alone(site).await {
            return;
        }
        for name in ["a", "b"] {
            node(site, name).await;
        }
        site.pass(Duration::from_secs(11)).await;
        set_ready(site, "a", "False").await;
        site.until_it(&path("a"), "has a NoExecute taint", |node| has(node, "NoExecute"))
            .await;
        set_ready(site, "b", "False").await;
        let only_no_schedule = |node: &Value| has(node, "NoSchedule") && !has(node, "NoExecute");
        site.until_it(&path("a"), "spared", only_no_schedule).await;
        site.pass(Duration::from_secs(11)).await;
        for name in ["a", "b"] {
            let node = site.get(&path(name)).await;
            assert!(only_no_schedule(&node), "{node:#}");
        }
        set_ready(site, "b", "True").await;
        site.until_it(&path("a"), "has a NoExecute taint again", |node| has(node, "NoExecute"))
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
        set_ready(site, "a", "False").await;
        site.until_it(&path("a"), "has a NoSchedule taint", |node| has(node, "NoSchedule"))
            .await;
        let no_execute_since = |node: Option<&Value>| node.is_some_and(|node| has(node, "NoExecute"));
        site.never(
            &path("a"),
            Duration::from_secs(20),
            "has a NoExecute taint",
            no_execute_since,
        )
        .await;
    });
}
