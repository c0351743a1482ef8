use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::foundation::{Action, Caches};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Nodes `a` and `b`, a bound volume `pv` (driver `d`, handle `h`) and its claim `n/c`.
struct World {
    caches: Caches,
    controller: AttachDetach,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            caches: Caches::default(),
            controller: AttachDetach::default(),
        };
        world.put::<PersistentVolume>(json!({
            "metadata": { "name": "pv", "uid": "pv" },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "csi": { "driver": "d", "volumeHandle": "h" },
                "claimRef": { "namespace": "n", "name": "c", "uid": "claim" },
            },
        }));
        world.put::<PersistentVolumeClaim>(json!({
            "metadata": { "name": "c", "namespace": "n", "uid": "claim" },
            "spec": { "volumeName": "pv" }, "status": { "phase": "Bound" },
        }));
        for node in ["a", "b"] {
            world.node(node, "True", &[], json!([]));
        }
        world
    }

    fn put<K: crate::foundation::Cached>(&mut self, object: Value) {
        let change = self.caches.put(serde_json::from_value::<K>(object).unwrap()).unwrap();
        let view = View {
            caches: &self.caches,
            now: NOW,
        };
        self.controller.observe(&change, view, &mut Queue::default());
    }

    fn node(&mut self, name: &str, ready: &str, in_use: &[&str], taints: Value) {
        self.put::<Node>(json!({
            "metadata": {
                "name": name,
                "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
            },
            "spec": { "taints": taints },
            "status": { "conditions": [{ "type": "Ready", "status": ready }], "volumesInUse": in_use },
        }));
    }

    /// Sets the node's `volumesAttached`.
    fn reports(&mut self, node: &str, volumes: &[&str]) {
        let list: Vec<Value> = volumes
            .iter()
            .map(|name| json!({ "name": name, "devicePath": "" }))
            .collect();
        self.put::<Node>(json!({
            "metadata": {
                "name": node,
                "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
            },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }], "volumesAttached": list },
        }));
    }

    fn pod(&mut self, name: &str, node: &str) {
        self.put::<Pod>(json!({
            "metadata": { "name": name, "namespace": "n", "uid": name },
            "spec": { "nodeName": node, "containers": [], "volumes": [
                { "name": "v", "persistentVolumeClaim": { "claimName": "c" } },
            ] },
        }));
    }

    fn attachment(&mut self, node: &str, attached: bool) {
        self.put::<VolumeAttachment>(json!({
            "metadata": { "name": attachment_name("d", "h", node), "uid": node },
            "spec": { "attacher": "d", "nodeName": node, "source": { "persistentVolumeName": "pv" } },
            "status": { "attached": attached },
        }));
    }

    /// Deletes the attachment; the driver has not detached yet.
    fn going(&mut self, node: &str) {
        self.put::<VolumeAttachment>(json!({
            "metadata": { "name": attachment_name("d", "h", node), "uid": node, "deletionTimestamp": NOW.to_string(),
                "finalizers": ["external-attacher/d"] },
            "spec": { "attacher": "d", "nodeName": node, "source": { "persistentVolumeName": "pv" } },
            "status": { "attached": true },
        }));
    }

    fn decide(&mut self, node: &str, now: Timestamp) -> Plan<Reason> {
        let view = View {
            caches: &self.caches,
            now,
        };
        self.controller.decide(&node.to_owned(), view)
    }
}

fn verbs(plan: &Plan<Reason>) -> Vec<&'static str> {
    let verb = |action: &Action| match action {
        Action::Create { .. } => "attach",
        Action::Delete { .. } => "detach",
        Action::Patch { .. } => "report",
        Action::Event { .. } => "tell",
        _ => "other",
    };
    plan.actions.iter().map(verb).collect()
}

#[test]
fn a_volume_is_attached_to_the_node_of_its_pod() {
    let mut world = World::new();
    assert_eq!(world.decide("a", NOW), Plan::nothing());
    world.pod("p", "a");
    let plan = world.decide("a", NOW);
    assert_eq!(plan.reasons, [Reason::Attach("pv".to_owned())]);
    let Action::Create { object, .. } = &plan.actions[0] else {
        panic!("{plan:?}")
    };
    assert_eq!(object["metadata"]["name"], attachment_name("d", "h", "a"));
    assert_eq!(object["spec"]["attacher"], "d");
    world.attachment("a", false);
    assert_eq!(world.decide("a", NOW), Plan::nothing());
}

#[test]
fn an_attached_volume_is_reported_with_one_event_on_its_pods() {
    let mut world = World::new();
    world.pod("p", "a");
    world.attachment("a", false);
    world.attachment("a", true);
    let plan = world.decide("a", NOW);
    assert_eq!(verbs(&plan), ["report", "tell"]);
    let Action::Patch { patch, .. } = &plan.actions[0] else {
        panic!("{plan:?}")
    };
    let list = json!([{ "name": "kubernetes.io/csi/d^h", "devicePath": "" }]);
    assert_eq!(
        *patch,
        crate::foundation::Patch::Merge(json!({ "status": { "volumesAttached": list } }))
    );
    assert_eq!(verbs(&world.decide("a", NOW)), ["report"]);
}

#[test]
fn a_volume_stays_in_volumes_attached_unless_this_controller_deletes_its_attachment() {
    let list = ["kubernetes.io/csi/d^h"];
    let mut world = World::new();
    world.attachment("a", true);
    world.reports("a", &list);
    world.going("a");
    assert_eq!(
        world.decide("a", NOW),
        Plan::nothing(),
        "another client deleted the attachment"
    );
    let mut world = World::new();
    world.attachment("a", true);
    world.reports("a", &list);
    assert_eq!(verbs(&world.decide("a", NOW)), ["report", "detach"]);
    world.going("a");
    assert_eq!(
        verbs(&world.decide("a", NOW)),
        ["report"],
        "the volume is still in volumesAttached"
    );
    world.reports("a", &[]);
    assert_eq!(world.decide("a", NOW), Plan::nothing());
}

#[test]
fn foreign_entries_of_volumes_attached_stay() {
    let mut world = World::new();
    world.reports("a", &["somebody/volume", "kubernetes.io/csi/d^gone"]);
    let plan = world.decide("a", NOW);
    let Action::Patch { patch, .. } = &plan.actions[0] else {
        panic!("{plan:?}")
    };
    let list = json!([{ "name": "somebody/volume", "devicePath": "" }]);
    assert_eq!(
        *patch,
        crate::foundation::Patch::Merge(json!({ "status": { "volumesAttached": list } }))
    );
    world.reports("a", &["somebody/volume"]);
    assert_eq!(world.decide("a", NOW), Plan::nothing());
}

#[test]
fn a_volume_that_no_pod_needs_waits_until_the_kubelet_has_unmounted_it() {
    let mut world = World::new();
    world.attachment("a", true);
    world.node("a", "True", &["kubernetes.io/csi/d^h"], json!([]));
    assert_eq!(world.decide("a", NOW).reasons, [Reason::Report]);
    world.node("a", "True", &[], json!([]));
    let plan = world.decide("a", NOW);
    assert_eq!(plan.reasons, [Reason::Detach("pv".to_owned())]);
    assert_eq!(verbs(&plan), ["detach"]);
}

#[rstest]
#[case::unhealthy("Unknown", json!([]), 359, false)]
#[case::unhealthy_for_six_minutes("Unknown", json!([]), 360, true)]
#[case::healthy_for_an_hour("True", json!([]), 3600, false)]
#[case::out_of_service("Unknown", json!([{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }]), 0, true)]
fn a_volume_in_use_is_detached_by_force_from_a_dead_node(
    #[case] ready: &str,
    #[case] taints: Value,
    #[case] after: i64,
    #[case] expected: bool,
) {
    let mut world = World::new();
    world.attachment("a", true);
    world.node("a", ready, &["kubernetes.io/csi/d^h"], taints);
    world.decide("a", NOW);
    let plan = world.decide("a", NOW + SignedDuration::from_secs(after));
    assert_eq!(
        plan.reasons.contains(&Reason::ForceDetach("pv".to_owned())),
        expected,
        "{plan:?}"
    );
}

#[test]
fn the_forced_detachment_is_due_after_six_minutes() {
    let mut world = World::new();
    world.attachment("a", true);
    world.node("a", "Unknown", &["kubernetes.io/csi/d^h"], json!([]));
    assert_eq!(
        world.decide("a", NOW).deadline,
        Some(NOW + SignedDuration::from_mins(6))
    );
}

#[test]
fn an_exclusive_volume_waits_until_it_is_detached_from_another_node() {
    let mut world = World::new();
    world.attachment("a", true);
    world.pod("old", "a");
    world.pod("new", "b");
    let plan = world.decide("b", NOW);
    assert_eq!(plan.reasons, [Reason::MultiAttach("pv".to_owned())]);
    let Action::Event { message, .. } = &plan.actions[0] else {
        panic!("{plan:?}")
    };
    assert_eq!(
        message,
        "Multi-Attach error for volume \"pv\" Volume is already used by pod(s) old"
    );
    assert_eq!(world.decide("b", NOW), Plan::nothing());
    let attachment = world
        .caches
        .volume_attachments
        .get(&ObjectKey::cluster(attachment_name("d", "h", "a")))
        .unwrap();
    let attachment = VolumeAttachment::clone(attachment);
    let change = world.caches.take(&attachment).unwrap();
    let mut queue = Queue::default();
    let view = View {
        caches: &world.caches,
        now: NOW,
    };
    world.controller.observe(&change, view, &mut queue);
    let keys: BTreeSet<&str> = queue.keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["a", "b"]));
    assert_eq!(world.decide("b", NOW).reasons, [Reason::Attach("pv".to_owned())]);
}

#[test]
fn used_volumes_of_a_deleted_node_are_detached_after_six_minutes() {
    let mut world = World::new();
    world.attachment("gone", true);
    let six_minutes_later = NOW + SignedDuration::from_mins(6);
    let plan = world.decide("gone", NOW);
    assert_eq!((plan.reasons, plan.deadline), (vec![], Some(six_minutes_later)));
    assert_eq!(
        world.decide("gone", six_minutes_later).reasons,
        [Reason::ForceDetach("pv".to_owned())]
    );
}

#[test]
fn unused_volumes_of_a_deleted_node_are_detached_immediately() {
    let mut world = World::new();
    world.attachment("a", true);
    world.pod("p", "a");
    world.node("a", "True", &[], json!([]));
    assert_eq!(world.decide("a", NOW).reasons, [Reason::Report]);
    let node = Node::clone(world.caches.nodes.get(&ObjectKey::cluster("a")).unwrap());
    world.caches.take(&node).unwrap();
    let pod = world.caches.pods.get(&ObjectKey::new("n", "p")).unwrap();
    let pod = Pod::clone(pod);
    world.caches.take(&pod).unwrap();
    assert_eq!(world.decide("a", NOW).reasons, [Reason::Detach("pv".to_owned())]);
}

#[test]
fn an_attachment_of_a_missing_volume_stays() {
    let mut world = World::new();
    world.put::<VolumeAttachment>(json!({
        "metadata": { "name": "foreign", "uid": "foreign" },
        "spec": { "attacher": "d", "nodeName": "a", "source": { "persistentVolumeName": "nowhere" } },
    }));
    assert_eq!(verbs(&world.decide("a", NOW)), [""; 0]);
    world.attachment("a", false);
    assert_eq!(verbs(&world.decide("a", NOW)), ["detach"]);
}

#[test]
fn an_attachment_is_named_after_volume_driver_and_node() {
    // sha256 of `handledrivernode`, as all CSI attachers expect.
    assert_eq!(
        attachment_name("driver", "handle", "node"),
        "csi-fdef298eb16db6fa42906ef1ff09a93a7f3028f8290cc9d71628ff91c237bfa7"
    );
}
