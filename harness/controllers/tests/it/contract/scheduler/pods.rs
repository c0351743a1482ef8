//! Affinity between pods, spreading, and which pods are scheduled at all.

use std::time::Duration;

use serde_json::{Value, json};

use super::{end, node, node_of, node_path, pod, pod_path, refused, scheduled};
use crate::contract::Site;
use crate::contract::contract;

const A_WHILE: Duration = Duration::from_secs(3);

/// Nodes `a` and `b` in zones a and b.
async fn two_zones(site: &Site) {
    for zone in ["a", "b"] {
        node(
            site,
            zone,
            json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone } } }),
        )
        .await;
    }
}

fn web(change: Value) -> Value {
    let mut pod = json!({ "metadata": { "labels": { "app": "web" } } });
    json_patch::merge(&mut pod, &change);
    pod
}

fn term(kind: &str, key: &str) -> Value {
    json!({ "spec": { "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": key, "labelSelector": { "matchLabels": { "app": "web" } } },
    ] } } } })
}

fn on(node: &str) -> Value {
    json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": format!("{node}-{{ns}}") } } })
}

#[test]
fn a_pod_is_scheduled_near_its_required_affinity() {
    contract!(async |site: &Site| {
        two_zones(site).await;
        pod(site, "p", term("podAffinity", "topology.kubernetes.io/zone")).await;
        refused(site, "p", "2 node(s) didn't match pod affinity rules").await;
        pod(site, "w", web(on("b"))).await;
        assert_eq!(node_of(site, "p").await, "b");
    });
}

#[test]
fn the_first_pod_of_a_self_affine_group_goes_anywhere() {
    contract!(async |site: &Site| {
        two_zones(site).await;
        let change = web(term("podAffinity", "kubernetes.io/hostname"));
        pod(site, "p", change.clone()).await;
        let first = node_of(site, "p").await;
        pod(site, "q", change).await;
        assert_eq!(node_of(site, "q").await, first);
    });
}

#[test]
fn pods_with_required_anti_affinity_are_separated() {
    contract!(async |site: &Site| {
        two_zones(site).await;
        let change = web(term("podAntiAffinity", "topology.kubernetes.io/zone"));
        pod(site, "p", change.clone()).await;
        let first = node_of(site, "p").await;
        pod(site, "q", change.clone()).await;
        assert_ne!(node_of(site, "q").await, first);
        pod(site, "r", change).await;
        refused(site, "r", "2 node(s) didn't match pod anti-affinity rules").await;
        end(site, "p").await;
        assert_eq!(node_of(site, "r").await, first);
    });
}

#[test]
fn an_existing_pod_with_anti_affinity_excludes_others() {
    contract!(async |site: &Site| {
        node(site, "a", json!({})).await;
        pod(site, "p", term("podAntiAffinity", "kubernetes.io/hostname")).await;
        node_of(site, "p").await;
        pod(site, "q", web(json!({}))).await;
        refused(site, "q", "1 node(s) didn't satisfy existing pods anti-affinity rules").await;
    });
}

fn spread(key: &str, when: &str) -> Value {
    web(json!({ "spec": { "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] } }))
}

#[test]
fn pods_are_spread_over_zones() {
    contract!(async |site: &Site| {
        two_zones(site).await;
        let mut nodes = Vec::new();
        for name in ["p", "q", "r", "s"] {
            pod(site, name, spread("topology.kubernetes.io/zone", "DoNotSchedule")).await;
            nodes.push(node_of(site, name).await);
        }
        nodes.sort();
        assert_eq!(nodes, ["a", "a", "b", "b"]);
    });
}

#[test]
fn required_spreading_keeps_a_pod_pending() {
    contract!(async |site: &Site| {
        two_zones(site).await;
        pod(site, "w", web(on("a"))).await;
        node_of(site, "w").await;
        site.merge(&node_path("b"), json!({ "spec": { "unschedulable": true } }))
            .await;
        site.until_it(&node_path("b"), "tainted", |node| node["spec"]["taints"].is_array())
            .await;
        pod(site, "p", spread("topology.kubernetes.io/zone", "DoNotSchedule")).await;
        refused(site, "p", "1 node(s) didn't match pod topology spread constraints").await;
    });
}

#[test]
fn spreading_over_a_missing_node_label_keeps_a_pod_pending() {
    contract!(async |site: &Site| {
        node(site, "a", json!({})).await;
        pod(site, "p", spread("example.com/rack", "DoNotSchedule")).await;
        let why = "1 node(s) didn't match pod topology spread constraints (missing required label)";
        refused(site, "p", why).await;
    });
}

#[test]
fn preferred_spreading_does_not_block_a_pod() {
    contract!(async |site: &Site| {
        two_zones(site).await;
        pod(site, "w", web(on("a"))).await;
        node_of(site, "w").await;
        pod(site, "p", spread("topology.kubernetes.io/zone", "ScheduleAnyway")).await;
        assert_eq!(node_of(site, "p").await, "b");
    });
}

#[test]
fn a_host_port_is_used_by_one_pod() {
    contract!(async |site: &Site| {
        node(site, "a", json!({})).await;
        let port = json!({ "spec": { "containers": [{
            "name": "c", "image": "example.com/i:1", "ports": [{ "containerPort": 80, "hostPort": 8080 }],
        }] } });
        pod(site, "p", port.clone()).await;
        node_of(site, "p").await;
        pod(site, "q", port).await;
        refused(
            site,
            "q",
            "1 node(s) didn't have free ports for the requested pod ports",
        )
        .await;
        end(site, "p").await;
        assert_eq!(node_of(site, "q").await, "a");
    });
}

#[test]
fn a_gated_pod_waits_until_its_gates_are_gone() {
    contract!(async |site: &Site| {
        node(site, "a", json!({})).await;
        pod(
            site,
            "p",
            json!({ "spec": { "schedulingGates": [{ "name": "example.com/g" }] } }),
        )
        .await;
        let gated = site.get(&pod_path("p")).await;
        let condition = scheduled(&gated);
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("False"), &json!("SchedulingGated"))
        );
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "p" },
            "target": { "kind": "Node", "name": "a-{ns}" },
        });
        let refusal = site
            .post(&format!("{}/binding", pod_path("p")), binding)
            .await
            .unwrap_err();
        assert_eq!(refusal.code, 409, "{refusal:?}");
        site.never(&pod_path("p"), A_WHILE, "scheduled", |pod| {
            pod.is_some_and(|pod| pod["spec"]["nodeName"].is_string())
        })
        .await;
        site.merge(&pod_path("p"), json!({ "spec": { "schedulingGates": null } }))
            .await;
        assert_eq!(node_of(site, "p").await, "a");
    });
}

#[test]
fn pods_of_other_schedulers_are_ignored() {
    contract!(async |site: &Site| {
        node(site, "a", json!({})).await;
        pod(site, "p", json!({ "spec": { "schedulerName": "mine" } })).await;
        site.never(&pod_path("p"), A_WHILE, "touched", |pod| {
            pod.is_some_and(|pod| pod["spec"]["nodeName"].is_string() || scheduled(pod) != &Value::Null)
        })
        .await;
    });
}

#[test]
fn a_pod_that_gets_a_toleration_is_evaluated_again() {
    contract!(async |site: &Site| {
        node(
            site,
            "a",
            json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] } }),
        )
        .await;
        pod(site, "p", json!({})).await;
        refused(site, "p", "node(s) had untolerated taint(s)").await;
        let pod = site.get(&pod_path("p")).await;
        let mut tolerations = pod["spec"]["tolerations"].as_array().unwrap().clone();
        tolerations.push(json!({ "key": "k", "operator": "Exists" }));
        site.merge(&pod_path("p"), json!({ "spec": { "tolerations": tolerations } }))
            .await;
        assert_eq!(node_of(site, "p").await, "a");
    });
}
