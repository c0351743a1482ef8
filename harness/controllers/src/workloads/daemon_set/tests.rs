use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use rstest::rstest;
use serde_json::{Value, json};

use super::eligible::{Eligibility, eligibility};
use super::{View, backoff, decide, pod};
use crate::workloads::pods;
use crate::workloads::world::World;

fn daemon(strategy: &Value) -> DaemonSet {
    serde_json::from_value(json!({
        "metadata": { "name": "d", "namespace": "n" },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "updateStrategy": strategy,
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{ "name": "c", "image": "1" }] },
            },
        },
    }))
    .unwrap()
}

fn node(change: &Value) -> Node {
    let mut node = json!({ "metadata": { "name": "x", "labels": { "zone": "a", "size": "5" } }, "spec": {} });
    for (field, value) in change.as_object().unwrap() {
        node[field] = value.clone();
    }
    serde_json::from_value(node).unwrap()
}

#[rstest]
#[case::plain(json!({}), json!({}), Eligibility::Wanted)]
#[case::cordoned(
    json!({}),
    json!({ "spec": { "taints": [{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }] } }),
    Eligibility::Wanted
)]
#[case::unreachable(
    json!({}),
    json!({ "spec": { "taints": [
        { "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" },
        { "key": "node.kubernetes.io/unreachable", "effect": "NoSchedule" },
    ] } }),
    Eligibility::Kept
)]
#[case::tainted(json!({}), json!({ "spec": { "taints": [{ "key": "t", "effect": "NoExecute" }] } }), Eligibility::Excluded)]
#[case::prefer_no_schedule(
    json!({}),
    json!({ "spec": { "taints": [{ "key": "t", "effect": "PreferNoSchedule" }] } }),
    Eligibility::Wanted
)]
#[case::tolerated(
    json!({ "tolerations": [{ "key": "t", "operator": "Equal", "value": "v" }] }),
    json!({ "spec": { "taints": [{ "key": "t", "value": "v", "effect": "NoExecute" }] } }),
    Eligibility::Wanted
)]
#[case::selected(json!({ "nodeSelector": { "zone": "a" } }), json!({}), Eligibility::Wanted)]
#[case::not_selected(json!({ "nodeSelector": { "zone": "b" } }), json!({}), Eligibility::Excluded)]
#[case::another_node_named(json!({ "nodeName": "y" }), json!({}), Eligibility::Excluded)]
#[case::by_affinity(
    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "size", "operator": "Gt", "values": ["4"] }] }]
    } } } }),
    json!({}),
    Eligibility::Wanted
)]
#[case::not_by_affinity(
    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["x"] }] }]
    } } } }),
    json!({}),
    Eligibility::Excluded
)]
fn taints_and_selectors_determine_node_eligibility(
    #[case] spec: Value,
    #[case] change: Value,
    #[case] expected: Eligibility,
) {
    let mut whole = json!({ "containers": [] });
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let template = serde_json::from_value(json!({ "spec": whole })).unwrap();
    assert_eq!(eligibility(&pod::spec_of(&template), &node(&change)), expected);
}

fn look(world: &mut World, nodes: &[Arc<Node>]) -> usize {
    let view = View {
        set: world.get("d"),
        pods: world.all(),
        revisions: world.all::<ControllerRevision>(),
        nodes: nodes.to_vec(),
        backoffs: BTreeMap::new(),
    };
    let plan = decide(&view, world.now).plan;
    world.perform(&plan);
    plan.actions.len()
}

fn settle(world: &mut World, nodes: &[Arc<Node>], check: impl Fn(&World)) {
    for _ in 0..1000 {
        let quiet = look(world, nodes) == 0;
        check(world);
        match world.any_pod(|pod| !pods::is_ready(pod)) {
            Some(pod) => world.run(&pod, true),
            None if quiet => return,
            None => {}
        }
        world.pass(1);
    }
    panic!("the world does not converge");
}

#[rstest]
#[case::two_missing(json!({ "rollingUpdate": { "maxUnavailable": 2 } }), 4, 6)]
#[case::half_missing(json!({ "rollingUpdate": { "maxUnavailable": "50%" } }), 3, 6)]
#[case::surging(json!({ "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 2 } }), 6, 8)]
fn an_update_keeps_its_bounds_and_reaches_every_node(
    #[case] strategy: Value,
    #[case] least: usize,
    #[case] most: usize,
) {
    let nodes: Vec<Arc<Node>> = (0..6)
        .map(|number| Arc::new(node(&json!({ "metadata": { "name": format!("n{number}") } }))))
        .collect();
    for seed in 0..25 {
        let mut world = World::new(seed);
        world.create(daemon(&strategy));
        settle(&mut world, &nodes, |_| {});
        assert_eq!(world.all::<Pod>().len(), 6);
        let mut set = DaemonSet::clone(&world.get::<DaemonSet>("d"));
        let template = &mut set.spec.as_mut().unwrap().template;
        template.spec.as_mut().unwrap().containers[0].image = Some("2".to_owned());
        world.update(set);
        settle(&mut world, &nodes, |world| {
            let all = world.all::<Pod>();
            let served: BTreeSet<_> = all
                .iter()
                .filter(|pod| pods::is_ready(pod))
                .filter_map(|pod| pod::node_of(pod).map(str::to_owned))
                .collect();
            assert!(served.len() >= least, "seed {seed}: {} served", served.len());
            assert!(all.len() <= most, "seed {seed}: {} pods", all.len());
        });
        let all = world.all::<Pod>();
        let is_new = |pod: &Arc<Pod>| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("2");
        assert!(all.len() == 6 && all.iter().all(is_new), "seed {seed}");
        assert_eq!(world.all::<ControllerRevision>().len(), 2);
        let status = world.get::<DaemonSet>("d").status.clone().unwrap();
        assert_eq!(
            (status.updated_number_scheduled, status.number_available),
            (Some(6), Some(6))
        );
    }
}

#[test]
fn failed_daemon_pods_are_replaced_with_backoff() {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let first = backoff(None, start);
    let second = backoff(Some(first), start);
    let waits = [first, second].map(|pause| pause.until().duration_since(start));
    assert_eq!(waits, [SignedDuration::from_secs(1), SignedDuration::from_secs(2)]);
    let after_an_hour = start + SignedDuration::from_hours(1);
    let reset = backoff(Some(second), after_an_hour);
    assert_eq!(
        reset.until().duration_since(after_an_hour),
        SignedDuration::from_secs(1)
    );
}
