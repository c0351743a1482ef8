//! How fast nodes of a zone get the taints that drive their pods away. Zones of a case are its own, so
//! cases can share a real cluster, which looks at its nodes every five seconds.

use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Site, contract};

/// Longer than two looks: what a look finds out holds by then.
const LOOKED: Duration = Duration::from_secs(11);

fn path(name: &str) -> String {
    format!("/api/v1/nodes/{name}-{{ns}}")
}

fn conditions(ready: &str) -> Value {
    json!({ "conditions": [{ "type": "Ready", "status": ready, "reason": "Said" }] })
}

/// Makes a node `NAME-{ns}` of zone `{ns}-ZONE`; without a status when `ready` is empty.
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

/// A healthy node of another zone, so that the cluster is not wholly down.
async fn elsewhere(site: &Site) {
    node(site, "elsewhere", "elsewhere", "True", json!({})).await;
}

async fn say(site: &Site, names: &[&str], ready: &str) {
    for name in names {
        site.set_status(&path(name), conditions(ready)).await;
    }
}

/// When the taint was set that drives pods away, if it was.
fn driven(node: &Value) -> Option<Timestamp> {
    let taints = node["spec"]["taints"].as_array()?;
    let ours = |taint: &&Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        taint["effect"] == "NoExecute" && key.starts_with("node.kubernetes.io/")
    };
    let added = taints.iter().find(ours)?["timeAdded"].as_str();
    Some(added.map_or(Timestamp::UNIX_EPOCH, |time| time.parse().unwrap()))
}

fn is_kept_off(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints
        .into_iter()
        .flatten()
        .any(|taint| taint["effect"] == "NoSchedule" && taint["key"] == "node.kubernetes.io/not-ready")
}

/// Waits until every node of `{ns}` is tainted, and returns when each was, in order.
async fn until_driven(site: &Site, names: &[&str]) -> Vec<Timestamp> {
    let mut times = Vec::new();
    for name in names {
        let node = site
            .until_it(&path(name), "pods are driven away", |node| driven(node).is_some())
            .await;
        times.push(driven(&node).unwrap());
    }
    times.sort();
    times
}

/// Asserts that nodes that are kept off get no other taint for a while.
async fn never_driven(site: &Site, names: &[&str], during: Duration) {
    for name in names {
        site.until_it(&path(name), "new pods are kept off", is_kept_off).await;
    }
    site.pass(during).await;
    for name in names {
        let node = site.get(&path(name)).await;
        assert_eq!(driven(&node), None, "{node:#}");
    }
}

#[test]
fn bad_nodes_of_a_zone_take_turns_ten_seconds_apart() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for name in ["a", "b", "c", "d"] {
            node(site, "a", name, "True", json!({})).await;
        }
        site.pass(LOOKED).await;
        say(site, &["a", "b"], "False").await;
        let times = until_driven(site, &["a", "b"]).await;
        let apart = times[1].duration_since(times[0]).as_secs();
        // Times are kept to the second.
        assert!((9..=12).contains(&apart), "{times:?}");
    });
}

#[test]
fn zones_do_not_wait_for_each_other() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for zone in ["a", "b"] {
            for number in 0..2 {
                node(site, zone, &format!("{zone}{number}"), "True", json!({})).await;
            }
        }
        site.pass(LOOKED).await;
        say(site, &["a0", "b0"], "Unknown").await;
        let times = until_driven(site, &["a0", "b0"]).await;
        // The two are written at one look, or at two when one comes in between.
        assert!(times[1].duration_since(times[0]).as_secs() <= 6, "{times:?}");
    });
}

#[test]
fn a_small_zone_that_is_partly_down_is_spared_until_it_has_recovered_enough() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        // Nodes that have said nothing count as bad and are not tainted, so the zone is partly down before one is.
        for name in ["a", "b", "c"] {
            node(site, "a", name, "", json!({})).await;
        }
        for name in ["d", "e"] {
            node(site, "a", name, "True", json!({})).await;
        }
        site.pass(LOOKED).await;
        say(site, &["a", "b", "c"], "False").await;
        never_driven(site, &["a", "b", "c"], LOOKED).await;
        say(site, &["a"], "True").await;
        until_driven(site, &["b", "c"]).await;
    });
}

#[test]
fn two_bad_nodes_of_three_are_too_few_to_spare_a_zone() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for name in ["a", "b", "c"] {
            node(site, "a", name, "True", json!({})).await;
        }
        site.pass(LOOKED).await;
        say(site, &["a", "b"], "False").await;
        until_driven(site, &["a", "b"]).await;
    });
}

#[test]
fn a_zone_that_is_wholly_down_goes_on_while_another_is_not() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for name in ["a", "b", "c"] {
            node(site, "a", name, "", json!({})).await;
        }
        site.pass(LOOKED).await;
        say(site, &["a", "b", "c"], "False").await;
        until_driven(site, &["a", "b", "c"]).await;
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
        say(site, &["a", "b", "c"], "False").await;
        // With the third the zone would be partly down, and nobody would be tainted.
        until_driven(site, &["a", "b"]).await;
    });
}

#[rstest]
#[case::healthy("True")]
#[case::silent("")]
fn a_new_node_loses_taints_that_drive_pods_away(#[case] ready: &str) {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        let taint = json!({ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" });
        node(site, "a", "a", ready, json!({ "spec": { "taints": [taint] } })).await;
        site.until_it(&path("a"), "is clean", |node| node["spec"]["taints"].is_null())
            .await;
    });
}

#[test]
fn a_taint_that_somebody_takes_away_comes_back() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for name in ["a", "b"] {
            node(site, "a", name, "True", json!({})).await;
        }
        say(site, &["a"], "False").await;
        until_driven(site, &["a"]).await;
        site.merge(&path("a"), json!({ "spec": { "taints": null } })).await;
        until_driven(site, &["a"]).await;
    });
}

#[test]
fn the_other_kind_of_badness_does_not_wait() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        for name in ["a", "b", "c"] {
            node(site, "a", name, "True", json!({})).await;
        }
        site.pass(LOOKED).await;
        say(site, &["a"], "False").await;
        until_driven(site, &["a"]).await;
        // The next turn of the zone is b's and ten seconds away; a changes over meanwhile.
        say(site, &["b"], "False").await;
        say(site, &["a"], "Unknown").await;
        let unreachable = |node: &Value| {
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let of = |key: &str| taints.iter().filter(|taint| taint["key"] == key).count();
            of("node.kubernetes.io/unreachable") == 2 && of("node.kubernetes.io/not-ready") == 0
        };
        let begun = site.now();
        site.until_it(&path("a"), "changed over", unreachable).await;
        let took = site.now().duration_since(begun).as_secs();
        assert!(took <= 8, "it took {took} s");
    });
}

#[test]
fn a_node_that_has_said_nothing_may_get_pods() {
    contract!(async |site: &Site| {
        elsewhere(site).await;
        node(site, "a", "a", "", json!({})).await;
        site.until_it(&path("a"), "without the taint of admission", |node| {
            node["spec"]["taints"].is_null()
        })
        .await;
    });
}
