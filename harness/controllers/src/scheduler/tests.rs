//! Placement and preemption over small clusters, written as JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use rstest::rstest;
use serde_json::{Value, json};

use super::cluster::{Cluster, World};
use super::place::{Diagnosis, Placement, place};
use super::pod::PodInfo;
use super::preempt::preempt;
use super::report;
use super::storage::Binding;
use crate::foundation::{Cached, Caches, ObjectKey};

/// A cluster under construction.
#[derive(Default)]
struct Setting {
    cluster: Cluster,
    caches: Caches,
}

impl Setting {
    /// Three nodes with 2 CPUs, 4 GiB and 10 pods, in zones a, b and b.
    fn three_nodes() -> Self {
        let mut setting = Self::default();
        for (name, zone) in [("n1", "a"), ("n2", "b"), ("n3", "b")] {
            setting.node(name, json!({ "metadata": { "labels": { "zone": zone } } }));
        }
        setting
    }

    fn node(&mut self, name: &str, change: Value) {
        let mut node = json!({
            "metadata": { "name": name, "labels": { "host": name } },
            "status": { "allocatable": { "cpu": "2", "memory": "4Gi", "pods": "10" } },
        });
        json_patch::merge(&mut node, &change);
        self.cluster
            .set_node(Arc::new(serde_json::from_value::<Node>(node).unwrap()));
    }

    fn put<K: Cached>(&mut self, object: Value) {
        self.caches.put(serde_json::from_value::<K>(object).unwrap());
    }

    fn on(&mut self, node: &str, pod: PodInfo) {
        self.cluster.place(Arc::new(pod), node);
    }

    fn world(&self) -> World<'_> {
        World {
            cluster: &self.cluster,
            caches: &self.caches,
        }
    }

    fn place(&self, pod: &PodInfo) -> Result<Placement, Diagnosis> {
        place(self.world(), pod)
    }

    fn node_of(&self, pod: &PodInfo) -> String {
        self.place(pod).unwrap().node
    }

    fn message(&self, pod: &PodInfo) -> String {
        let diagnosis = self.place(pod).unwrap_err();
        let preemption = preempt(self.world(), pod, &diagnosis);
        report::message(&diagnosis, &preemption)
    }

    fn victims(&self, pod: &PodInfo) -> Result<(String, Vec<String>), String> {
        let diagnosis = self.place(pod).unwrap_err();
        let preemption = preempt(self.world(), pod, &diagnosis).map_err(|why| why.to_string())?;
        let names = preemption.victims.iter().map(|victim| victim.name.name.clone());
        Ok((preemption.node, names.collect()))
    }
}

fn pod(name: &str, spec: Value) -> PodInfo {
    labelled(name, json!({}), spec)
}

fn labelled(name: &str, labels: Value, spec: Value) -> PodInfo {
    let mut whole = json!({ "containers": [] });
    json_patch::merge(&mut whole, &spec);
    let pod = json!({ "metadata": { "name": name, "namespace": "n", "uid": name, "labels": labels }, "spec": whole });
    PodInfo::new(Arc::new(serde_json::from_value::<Pod>(pod).unwrap()))
}

fn cpu(name: &str, cpu: &str, priority: i32) -> PodInfo {
    let container = json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } });
    pod(name, json!({ "containers": [container], "priority": priority }))
}

fn near(kind: &str, key: &str, app: &str) -> Value {
    json!({ "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } },
    ] } } })
}

fn spread(key: &str, when: &str) -> Value {
    json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] })
}

#[test]
fn the_emptiest_node_wins_and_the_first_name_among_equals() {
    let mut setting = Setting::three_nodes();
    assert_eq!(setting.node_of(&cpu("p", "1", 0)), "n1");
    setting.on("n1", cpu("a", "1", 0));
    assert_eq!(setting.node_of(&cpu("p", "1", 0)), "n2");
    setting.on("n2", cpu("b", "500m", 0));
    setting.on("n3", cpu("c", "1", 0));
    assert_eq!(setting.node_of(&cpu("p", "1", 0)), "n2");
}

#[test]
fn reasons_are_counted_as_kube_scheduler_counts_them() {
    let mut setting = Setting::three_nodes();
    setting.node(
        "n2",
        json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] } }),
    );
    setting.node("n3", json!({ "spec": { "unschedulable": true } }));
    let container = json!({ "name": "c", "resources": { "requests": { "cpu": "8", "memory": "8Gi" } } });
    assert_eq!(
        setting.message(&pod("p", json!({ "containers": [container] }))),
        "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) had untolerated taint(s), \
         1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption \
         is not helpful for scheduling."
    );
    assert_eq!(
        Setting::default().message(&cpu("p", "1", 0)),
        "no nodes available to schedule pods"
    );
}

#[rstest]
#[case::selector(json!({ "nodeSelector": { "zone": "b" } }), "n2")]
#[case::fields(json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n3"] }] }],
} } } }), "n3")]
#[case::preferred(json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
    { "weight": 1, "preference": { "matchExpressions": [{ "key": "host", "operator": "In", "values": ["n3"] }] } },
] } } }), "n3")]
fn node_affinity_chooses(#[case] spec: Value, #[case] expected: &str) {
    assert_eq!(Setting::three_nodes().node_of(&pod("p", spec)), expected);
}

#[test]
fn taints_exclude_a_node_or_lower_its_score() {
    let mut setting = Setting::three_nodes();
    setting.node(
        "n1",
        json!({ "spec": { "taints": [{ "key": "k", "effect": "PreferNoSchedule" }] } }),
    );
    setting.node(
        "n2",
        json!({ "spec": { "taints": [{ "key": "k", "effect": "NoExecute" }] } }),
    );
    assert_eq!(setting.node_of(&pod("p", json!({}))), "n3");
    let tolerant = pod("p", json!({ "tolerations": [{ "operator": "Exists" }] }));
    assert_eq!(setting.node_of(&tolerant), "n1");
}

#[test]
fn required_affinity_places_pods_together() {
    let mut setting = Setting::three_nodes();
    let spec = near("podAffinity", "zone", "web");
    assert!(setting.place(&pod("p", spec.clone())).is_err());
    assert_eq!(
        setting.node_of(&labelled("first", json!({ "app": "web" }), spec.clone())),
        "n1"
    );
    setting.on("n2", labelled("w", json!({ "app": "web" }), json!({})));
    assert_eq!(setting.node_of(&pod("p", spec)), "n2");
}

#[test]
fn required_anti_affinity_separates_pods() {
    let mut setting = Setting::three_nodes();
    let apart = near("podAntiAffinity", "zone", "web");
    setting.on("n2", labelled("w", json!({ "app": "web" }), apart.clone()));
    assert_eq!(setting.node_of(&pod("p", apart)), "n1");
    setting.node("n1", json!({ "spec": { "unschedulable": true } }));
    let like_it = labelled("q", json!({ "app": "web" }), json!({}));
    assert!(
        setting
            .message(&like_it)
            .contains("2 node(s) didn't satisfy existing pods anti-affinity rules")
    );
}

#[test]
fn spreading_keeps_domains_within_the_skew() {
    let mut setting = Setting::three_nodes();
    let web = |name: &str, when: &str| labelled(name, json!({ "app": "web" }), spread("zone", when));
    setting.on("n1", web("a", "DoNotSchedule"));
    assert_eq!(setting.node_of(&web("p", "DoNotSchedule")), "n2");
    assert_eq!(setting.node_of(&web("p", "ScheduleAnyway")), "n2");
    setting.on("n2", web("b", "DoNotSchedule"));
    setting.on("n3", web("c", "DoNotSchedule"));
    assert_eq!(setting.node_of(&web("p", "DoNotSchedule")), "n1");
    setting.node(
        "n1",
        json!({ "metadata": { "labels": { "zone": "a" } }, "spec": { "unschedulable": true } }),
    );
    let message = setting.message(&web("p", "DoNotSchedule"));
    assert!(
        message.contains("2 node(s) didn't match pod topology spread constraints"),
        "{message}"
    );
}

#[test]
fn ports_and_pod_counts_are_limited() {
    let mut setting = Setting::default();
    setting.node("n1", json!({ "status": { "allocatable": { "pods": "1" } } }));
    let port = json!({ "containers": [{ "name": "c", "ports": [{ "containerPort": 80, "hostPort": 80 }] }] });
    setting.on("n1", pod("a", port.clone()));
    assert!(setting.message(&pod("p", port)).contains("free ports"));
    assert!(setting.message(&pod("p", json!({}))).contains("1 Too many pods"));
}

fn with_claim(name: &str, claim: &str) -> PodInfo {
    let volume = json!({ "name": "v", "persistentVolumeClaim": { "claimName": claim } });
    pod(name, json!({ "volumes": [volume] }))
}

fn bound(setting: &mut Setting, name: &str, volume: Value) {
    let mut whole = json!({
        "metadata": { "name": name, "uid": name },
        "spec": {
            "csi": { "driver": "d", "volumeHandle": name }, "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": "1Gi" }, "claimRef": { "namespace": "n", "name": name, "uid": name },
        },
    });
    json_patch::merge(&mut whole, &volume);
    setting.put::<PersistentVolume>(whole);
    setting.put::<PersistentVolumeClaim>(json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": name,
            "annotations": { "pv.kubernetes.io/bind-completed": "yes" },
        },
        "spec": { "volumeName": name, "accessModes": ["ReadWriteOnce"] },
        "status": { "phase": "Bound" },
    }));
}

fn in_zone(zone: &str) -> Value {
    json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "zone", "operator": "In", "values": [zone] }] },
    ] } } } })
}

#[test]
fn pods_are_placed_where_their_volumes_are() {
    let mut setting = Setting::three_nodes();
    bound(&mut setting, "c", in_zone("b"));
    assert_eq!(setting.node_of(&with_claim("p", "c")), "n2");
    assert!(
        setting
            .message(&with_claim("p", "missing"))
            .starts_with("0/3 nodes are available: persistentvolumeclaim \"missing\" not found.")
    );
    bound(&mut setting, "far", in_zone("z"));
    assert!(
        setting
            .message(&with_claim("p", "far"))
            .contains("3 node(s) didn't match PersistentVolume's node affinity")
    );
    let label = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "z" } } });
    bound(&mut setting, "labelled", label);
    assert!(
        setting
            .message(&with_claim("p", "labelled"))
            .contains("3 node(s) had no available volume zone")
    );
}

#[test]
fn a_node_gets_no_pods_beyond_its_attach_limit() {
    let mut setting = Setting::default();
    setting.node("n1", json!({}));
    setting.put::<CSINode>(json!({
        "metadata": { "name": "n1" },
        "spec": { "drivers": [{ "name": "d", "nodeID": "n1", "allocatable": { "count": 1 } }] },
    }));
    for claim in ["a", "b"] {
        bound(&mut setting, claim, json!({}));
    }
    setting.on("n1", with_claim("first", "a"));
    assert_eq!(setting.node_of(&with_claim("shares", "a")), "n1");
    assert!(
        setting
            .message(&with_claim("p", "b"))
            .contains("1 node(s) exceed max volume count")
    );
}

fn waiting_claim(setting: &mut Setting, class: Value) {
    let mut whole = json!({
        "metadata": { "name": "wait" }, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer",
    });
    json_patch::merge(&mut whole, &class);
    setting.put::<StorageClass>(whole);
    setting.put::<PersistentVolumeClaim>(json!({
        "metadata": { "name": "c", "namespace": "n", "uid": "c" },
        "spec": {
            "storageClassName": "wait", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        },
    }));
}

#[test]
fn an_unbound_claim_is_provisioned_in_an_allowed_topology() {
    let mut setting = Setting::three_nodes();
    let topologies =
        json!({ "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "zone", "values": ["b"] }] }] });
    waiting_claim(&mut setting, topologies);
    let placement = setting.place(&with_claim("p", "c")).unwrap();
    let claim = ObjectKey::new("n", "c");
    assert_eq!(placement.node, "n2");
    assert_eq!(placement.bindings, [Binding::Provision { claim }]);
}

#[test]
fn an_unbound_claim_gets_an_existing_volume() {
    let mut setting = Setting::three_nodes();
    waiting_claim(&mut setting, json!({ "provisioner": "kubernetes.io/no-provisioner" }));
    assert!(
        setting
            .message(&with_claim("p", "c"))
            .contains("3 node(s) didn't find available persistent volumes to bind")
    );
    let mut volume = json!({
        "metadata": { "name": "pv", "uid": "pv" },
        "spec": {
            "csi": { "driver": "d", "volumeHandle": "h" }, "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": "1Gi" }, "storageClassName": "wait",
        },
        "status": { "phase": "Available" },
    });
    json_patch::merge(&mut volume, &in_zone("b"));
    setting.put::<PersistentVolume>(volume);
    let placement = setting.place(&with_claim("p", "c")).unwrap();
    let claim = ObjectKey::new("n", "c");
    let volume = "pv".to_owned();
    assert_eq!(
        (placement.node.as_str(), placement.bindings),
        ("n2", vec![Binding::Static { volume, claim }])
    );
}

#[test]
fn preemption_chooses_the_fewest_and_least_important_victims() {
    let mut setting = Setting::three_nodes();
    for (node, name, amount, priority) in [
        ("n1", "a1", "1", 5),
        ("n1", "a2", "1", 5),
        ("n2", "b1", "2", 3),
        ("n3", "c1", "2", 4),
    ] {
        setting.on(node, cpu(name, amount, priority));
    }
    let victims = |pod: PodInfo| setting.victims(&pod);
    assert_eq!(victims(cpu("p", "1", 10)), Ok(("n2".to_owned(), vec!["b1".to_owned()])));
    assert_eq!(
        victims(cpu("p", "1", 3)),
        Err("0/3 nodes are available: 3 No preemption victims found for incoming pod.".to_owned())
    );
    assert_eq!(
        victims(cpu("p", "3", 10)),
        Err("0/3 nodes are available: 3 Preemption is not helpful for scheduling.".to_owned())
    );
    let mut never = cpu("p", "1", 10).pod.as_ref().clone();
    never.spec.as_mut().unwrap().preemption_policy = Some("Never".to_owned());
    assert_eq!(
        victims(PodInfo::new(Arc::new(never))),
        Err("not eligible due to preemptionPolicy=Never.".to_owned())
    );
}

#[test]
fn preemption_evicts_only_necessary_victims() {
    let mut setting = Setting::default();
    setting.node("n1", json!({}));
    for (name, amount, priority) in [("low", "500m", 1), ("high", "500m", 2), ("big", "1", 3)] {
        setting.on("n1", cpu(name, amount, priority));
    }
    assert_eq!(
        setting.victims(&cpu("p", "500m", 9)),
        Ok(("n1".to_owned(), vec!["low".to_owned()]))
    );
    assert_eq!(
        setting.victims(&cpu("p", "1", 9)),
        Ok(("n1".to_owned(), vec!["high".to_owned(), "low".to_owned()]))
    );
}

#[test]
fn disruption_budgets_are_respected_where_possible() {
    let mut setting = Setting::three_nodes();
    setting.node("n3", json!({ "spec": { "unschedulable": true } }));
    let guarded = |name: &str, priority: i32| {
        let mut pod = cpu(name, "2", priority).pod.as_ref().clone();
        pod.metadata.labels = Some(BTreeMap::from([("app".to_owned(), "web".to_owned())]));
        PodInfo::new(Arc::new(pod))
    };
    setting.on("n1", guarded("a", 1));
    setting.on("n2", cpu("b", "2", 5));
    setting.put::<PodDisruptionBudget>(json!({
        "metadata": { "name": "b", "namespace": "n" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
        "status": { "disruptionsAllowed": 0 },
    }));
    assert_eq!(
        setting.victims(&cpu("p", "1", 9)),
        Ok(("n2".to_owned(), vec!["b".to_owned()]))
    );
    setting.node("n2", json!({ "spec": { "unschedulable": true } }));
    assert_eq!(
        setting.victims(&cpu("p", "1", 9)),
        Ok(("n1".to_owned(), vec!["a".to_owned()]))
    );
}

#[test]
fn a_nominated_pod_keeps_its_room_while_victims_terminate() {
    let mut setting = Setting::default();
    setting.node("n1", json!({}));
    setting.cluster.nominate(Arc::new(cpu("important", "2", 9)), "n1");
    assert!(setting.place(&cpu("p", "1", 1)).is_err());
    assert_eq!(setting.node_of(&cpu("more", "1", 10)), "n1");
    setting.cluster.withdraw(&ObjectKey::new("n", "important"));
    assert_eq!(setting.node_of(&cpu("p", "1", 1)), "n1");
}

/// Property: the free resources of a node never become negative.
#[test]
fn placing_never_overfills_a_node() {
    let mut stream = clock::Seed::new(5).stream("pods");
    let mut setting = Setting::three_nodes();
    let mut there: Vec<(ObjectKey, String)> = Vec::new();
    for number in 0..2_000 {
        if stream.chance(0.4) && !there.is_empty() {
            let index = usize::try_from(stream.below(there.len() as u64)).unwrap();
            let (name, node) = there.swap_remove(index);
            assert_eq!(setting.cluster.unplace(&name).unwrap().0, node);
            continue;
        }
        let pod = cpu(&format!("p{number}"), &format!("{}m", 100 + stream.below(900)), 0);
        if let Ok(placement) = setting.place(&pod) {
            there.push((pod.name.clone(), placement.node.clone()));
            setting.on(&placement.node, pod);
        }
        for node in setting.cluster.nodes() {
            assert!(node.requested.milli_cpu <= node.allocatable.milli_cpu);
            let sum: i64 = node.pods.values().map(|pod| pod.requests.milli_cpu).sum();
            assert_eq!(sum, node.requested.milli_cpu);
        }
    }
    for (name, _) in there {
        setting.cluster.unplace(&name);
    }
    assert!(
        setting
            .cluster
            .nodes()
            .all(|node| node.requested == Default::default() && node.pods.is_empty())
    );
}
