//! The rate of NoExecute taints in a zone. Each case has its own zones, so that cases can share a real cluster,
//! which monitors its nodes every five seconds.

use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Site, contract};

/// Longer than two monitor rounds, so that the result of a round is visible.
const LOOKED: Duration = Duration::from_secs(11);

fn path(name: &str) -> String {
    format!("/api/v1/nodes/{name}-{{ns}}")
}

fn conditions(ready: &str) -> Value {
    json!({ "conditions": [{ "type": "Ready", "status": ready, "reason": "Said" }] })
}

/// Creates a node `NAME-{ns}` in zone `{ns}-ZONE`; without a status when `ready` is empty.
async fn node(site: &Site, zone: &str, name: &str, ready: &str, change: Value) {
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("{name}-{{ns}}"), "labels": { "topology.kubernetes.io/zone": format!("{{ns}}-{zone}") },
        },
    });
    if !ready.is_empty() {
        node["status"] = conditions(ready);
    }
    json_patch::merge(&mut node, &change);
    site.create(node).await;
}

/// Creates a healthy node in another zone, so that the cluster is not fully disrupted.
async fn elsewhere(site: &Site) {
    node(site, "elsewhere", "elsewhere", "True", json!({})).await;
}

async fn set_ready(site: &Site, names: &[&str], ready: &str) {
    for name in names {
        site.set_status(&path(name), conditions(ready)).await;
    }
}

/// When the NoExecute taint was set, if it was.
fn no_execute_since(node: &Value) -> Option<Timestamp> {
    let taints = node["spec"]["taints"].as_array()?;
    let ours = |taint: &&Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        taint["effect"] == "NoExecute" && key.starts_with("node.kubernetes.io/")
    };
    let added = taints.iter().find(ours)?["timeAdded"].as_str();
    Some(added.map_or(Timestamp::UNIX_EPOCH, |time| time.parse().unwrap()))
}

fn has_no_schedule_taint(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints
        .into_iter()
        .flatten()
        .any(|taint| taint["effect"] == "NoSchedule" && taint["key"] == "node.kubernetes.io/not-ready")
}

/// Waits until all these nodes have a NoExecute taint; returns the sorted times.
async fn until_tainted(site: &Site, names: &[&str]) -> Vec<Timestamp> {
    let mut times = Vec::new();
    for name in names {
        let node = site
            .until_it(&path(name), "has a NoExecute taint", |node| {
                no_execute_since(node).is_some()
            })
            .await;
        times.push(no_execute_since(&node).unwrap());
    }
    times.sort();
    times
}

/// Asserts that nodes with a NoSchedule taint get no NoExecute taint during this time.
async fn never_tainted(site: &Site, names: &[&str], during: Duration) {
    for name in names {
        site.until_it(&path(name), "has a NoSchedule taint", has_no_schedule_taint)
            .await;
    }
    site.pass(during).await;
    for name in names {
        let node = site.get(&path(name)).await;
        assert_eq!(no_execute_since(&node), None, "{node:#}");
    }
}

#[test]
fn unhealthy_nodes_of_a_zone_are_tainted_ten_seconds_apart() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for name in ["a", "b", "c", "d"] {
            node(site, "a", name, "True", json!({})).await;
        }
        site.pass(LOOKED).await;
        set_ready(site, &["a", "b"], "False").await;
        let times = until_tainted(site, &["a", "b"]).await;
        let interval = times[1].duration_since(times[0]).as_secs();
        // Times have a resolution of one second.
        assert!((9..=12).contains(&interval), "{times:?}");
    });
}

#[test]
fn zones_are_tainted_independently() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for zone in ["a", "b"] {
            for number in 0..2 {
                node(site, zone, &format!("{zone}{number}"), "True", json!({})).await;
            }
        }
        site.pass(LOOKED).await;
        set_ready(site, &["a0", "b0"], "Unknown").await;
        let times = until_tainted(site, &["a0", "b0"]).await;
        // The two taints are written in the same monitor round, or in two consecutive ones.
        assert!(times[1].duration_since(times[0]).as_secs() <= 6, "{times:?}");
    });
}

#[test]
fn no_node_of_a_small_partly_disrupted_zone_is_tainted_until_the_zone_is_normal() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        // Nodes without a status count as unhealthy and are not tainted, so the zone is partly disrupted before
        // one is tainted.
        for name in ["a", "b", "c"] {
            node(site, "a", name, "", json!({})).await;
        }
        for name in ["d", "e"] {
            node(site, "a", name, "True", json!({})).await;
        }
        site.pass(LOOKED).await;
        set_ready(site, &["a", "b", "c"], "False").await;
        never_tainted(site, &["a", "b", "c"], LOOKED).await;
        set_ready(site, &["a"], "True").await;
        until_tainted(site, &["b", "c"]).await;
    });
}

#[test]
fn two_unhealthy_nodes_do_not_disrupt_a_zone() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for name in ["a", "b", "c"] {
            node(site, "a", name, "True", json!({})).await;
        }
        site.pass(LOOKED).await;
        set_ready(site, &["a", "b"], "False").await;
        until_tainted(site, &["a", "b"]).await;
    });
}

#[test]
fn a_fully_disrupted_zone_is_tainted_at_the_normal_rate_while_another_is_healthy() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for name in ["a", "b", "c"] {
            node(site, "a", name, "", json!({})).await;
        }
        site.pass(LOOKED).await;
        set_ready(site, &["a", "b", "c"], "False").await;
        until_tainted(site, &["a", "b", "c"]).await;
    });
}

#[test]
fn an_excluded_node_does_not_count() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        let excluded = json!({ "metadata": { "labels": { "node.kubernetes.io/exclude-disruption": "" } } });
        for (name, change) in [("a", json!({})), ("b", json!({})), ("c", excluded)] {
            node(site, "a", name, "", change).await;
        }
        for name in ["d", "e"] {
            node(site, "a", name, "True", json!({})).await;
        }
        site.pass(LOOKED).await;
        set_ready(site, &["a", "b", "c"], "False").await;
        // With the third the zone would be partly disrupted, and no node would be tainted.
        until_tainted(site, &["a", "b"]).await;
    });
}

#[rstest]
#[case::healthy("True")]
#[case::silent("")]
fn a_new_node_loses_no_execute_taints(#[case] ready: &str) {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        let taint = json!({ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" });
        node(site, "a", "a", ready, json!({ "spec": { "taints": [taint] } })).await;
        site.until_it(&path("a"), "has no taints", |node| node["spec"]["taints"].is_null())
            .await;
    });
}

#[test]
fn a_removed_taint_is_set_again() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for name in ["a", "b"] {
            node(site, "a", name, "True", json!({})).await;
        }
        set_ready(site, &["a"], "False").await;
        until_tainted(site, &["a"]).await;
        site.merge(&path("a"), json!({ "spec": { "taints": null } })).await;
        until_tainted(site, &["a"]).await;
    });
}

#[test]
fn a_change_between_not_ready_and_unknown_does_not_wait() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for name in ["a", "b", "c"] {
            node(site, "a", name, "True", json!({})).await;
        }
        site.pass(LOOKED).await;
        set_ready(site, &["a"], "False").await;
        until_tainted(site, &["a"]).await;
        // The zone's next taint is for b, ten seconds from now; meanwhile a changes its condition.
        set_ready(site, &["b"], "False").await;
        set_ready(site, &["a"], "Unknown").await;
        let unreachable = |node: &Value| {
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let of = |key: &str| taints.iter().filter(|taint| taint["key"] == key).count();
            of("node.kubernetes.io/unreachable") == 2 && of("node.kubernetes.io/not-ready") == 0
        };
        let begun = site.now();
        site.until_it(&path("a"), "has the unreachable taint", unreachable)
            .await;
        let took = site.now().duration_since(begun).as_secs();
        assert!(took <= 8, "it took {took} s");
    });
}

#[test]
fn a_node_without_conditions_may_get_pods() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        node(site, "a", "a", "", json!({})).await;
        site.until_it(&path("a"), "without the taint of the admission plugin", |node| {
            node["spec"]["taints"].is_null()
        })
        .await;
    });
}
