use std::time::Duration;

use clock::{Clock, Seed};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::Tasks;
use super::world::{Action, Task, World, this_finalizer};
use crate::model::later;
use crate::{CSI_DRIVER, Config, Fakecloud};

/// Nodes `a` and `b` in zones with their names, a class `c`, a claim `n/claim` and its volume `pv`.
fn world() -> World {
    let mut world = World::default();
    for name in ["a", "b"] {
        let node = json!({
            "metadata": { "name": name, "uid": name, "labels": { "topology.kubernetes.io/zone": name } },
            "spec": { "providerID": format!("fakecloud:///{name}/vm-{name}") },
        });
        world
            .nodes
            .insert(name.to_owned(), serde_json::from_value(node).unwrap());
    }
    world
}

fn class(world: &mut World, change: Value) {
    let mut class = json!({ "metadata": { "name": "c" }, "provisioner": CSI_DRIVER, "reclaimPolicy": "Delete" });
    json_patch::merge(&mut class, &change);
    world
        .classes
        .insert("c".to_owned(), serde_json::from_value(class).unwrap());
}

fn claim(world: &mut World, change: Value) -> Task {
    let mut claim = json!({
        "metadata": {
            "name": "claim", "namespace": "n", "uid": "u",
            "annotations": { "volume.kubernetes.io/storage-provisioner": CSI_DRIVER },
        },
        "spec": {
            "storageClassName": "c", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "3Gi" } },
        },
    });
    json_patch::merge(&mut claim, &change);
    let key = ("n".to_owned(), "claim".to_owned());
    world.claims.insert(key, serde_json::from_value(claim).unwrap());
    Task::Provision("n".to_owned(), "claim".to_owned())
}

fn volume(world: &mut World, change: Value) {
    let expression = json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"] });
    let mut volume = json!({
        "metadata": { "name": "pv", "uid": "pv", "annotations": { "pv.kubernetes.io/provisioned-by": CSI_DRIVER } },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
            "csi": { "driver": CSI_DRIVER, "volumeHandle": "vol" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } },
        },
        "status": { "phase": "Bound" },
    });
    json_patch::merge(&mut volume, &change);
    world
        .volumes
        .insert("pv".to_owned(), serde_json::from_value(volume).unwrap());
}

fn attachment(world: &mut World, node: &str, attached: bool, deleting: bool) -> String {
    let attachment = json!({
        "metadata": {
            "name": node, "uid": node, "finalizers": [this_finalizer()],
            "deletionTimestamp": deleting.then_some("2030-01-01T00:00:00Z"),
        },
        "spec": { "attacher": CSI_DRIVER, "nodeName": node, "source": { "persistentVolumeName": "pv" } },
        "status": { "attached": attached },
    });
    world
        .attachments
        .insert(node.to_owned(), serde_json::from_value(attachment).unwrap());
    node.to_owned()
}

fn all_run(_: &str) -> Option<bool> {
    Some(true)
}

fn created_object(action: Option<Action>) -> Value {
    match action {
        Some(Action::CreateVolume(volume)) => volume,
        other => panic!("{other:?}"),
    }
}

fn zone(volume: &Value) -> &Value {
    &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0]
}

#[test]
fn a_volume_is_created_in_the_zone_of_the_claims_node() {
    let mut world = world();
    class(&mut world, json!({ "volumeBindingMode": "WaitForFirstConsumer" }));
    let task = claim(&mut world, json!({}));
    assert_eq!(world.decide(&task, &all_run), None);
    let selected = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "b" } } });
    claim(&mut world, selected);
    let volume = created_object(world.decide(&task, &all_run));
    assert_eq!(volume["metadata"]["name"], "pvc-u");
    assert_eq!(volume["spec"]["claimRef"]["uid"], "u");
    assert_eq!(volume["spec"]["capacity"]["storage"], "3Gi");
    assert_eq!(zone(&volume), "b");
}

#[test]
fn a_claim_for_a_deleted_node_returns_to_the_scheduler() {
    let mut world = world();
    class(&mut world, json!({}));
    let selected = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "gone" } } });
    let task = claim(&mut world, selected);
    let Some(Action::Reschedule(_, _, patch)) = world.decide(&task, &all_run) else {
        panic!("nothing")
    };
    assert_eq!(
        patch["metadata"]["annotations"]["volume.kubernetes.io/selected-node"],
        Value::Null
    );
}

#[test]
fn a_volume_without_a_node_is_created_where_the_class_allows() {
    let mut world = world();
    let terms = json!([{ "matchLabelExpressions": [{ "key": "topology.kubernetes.io/zone", "values": ["z"] }] }]);
    class(&mut world, json!({ "allowedTopologies": terms }));
    let task = claim(&mut world, json!({}));
    assert_eq!(zone(&created_object(world.decide(&task, &all_run))), "z");
}

#[rstest]
#[case::of_another_provisioner(
    json!({ "metadata": { "annotations": { "volume.kubernetes.io/storage-provisioner": "x" } } })
)]
#[case::bound(json!({ "spec": { "volumeName": "pv" } }))]
#[case::deleted(json!({ "metadata": { "deletionTimestamp": "2030-01-01T00:00:00Z" } }))]
#[case::of_no_class(json!({ "spec": { "storageClassName": "none" } }))]
fn no_volume_is_created_for_a_claim(#[case] change: Value) {
    let mut world = world();
    class(&mut world, json!({}));
    let task = claim(&mut world, change);
    assert_eq!(world.decide(&task, &all_run), None);
}

#[rstest]
#[case::released(json!({ "status": { "phase": "Released" } }), true)]
#[case::bound(json!({}), false)]
#[case::kept(
    json!({ "status": { "phase": "Released" }, "spec": { "persistentVolumeReclaimPolicy": "Retain" } }),
    false
)]
#[case::created_by_hand(
    json!({ "status": { "phase": "Released" }, "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": null } } }),
    false
)]
fn a_released_volume_is_removed(#[case] mut change: Value, #[case] expected: bool) {
    let mut world = world();
    if change["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"].is_null() && change["metadata"].is_object()
    {
        change["metadata"]["annotations"] = json!({ "pv.kubernetes.io/provisioned-by": "other" });
    }
    volume(&mut world, change);
    let task = Task::Delete("pv".to_owned());
    let action = expected.then(|| Action::DeleteVolume("pv".to_owned(), "pv".to_owned()));
    assert_eq!(world.decide(&task, &all_run), action);
    attachment(&mut world, "a", true, true);
    assert_eq!(world.decide(&task, &all_run), None, "it is still attached");
}

fn error(action: Option<Action>) -> Option<String> {
    match action {
        Some(Action::AttachmentStatus(_, patch)) => {
            let status = &patch["status"];
            assert_eq!(status["attached"] == true, status["attachError"].is_null());
            status["attachError"]["message"].as_str().map(str::to_owned)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_volume_is_attached_if_the_cloud_allows_it() {
    let mut world = world();
    volume(&mut world, json!({}));
    let here = Task::Attach(attachment(&mut world, "a", false, false));
    let there = Task::Attach(attachment(&mut world, "b", false, false));
    assert_eq!(error(world.decide(&here, &all_run)), None);
    assert_eq!(
        error(world.decide(&there, &all_run)).unwrap(),
        "volume \"pv\" is in zone \"a\", node \"b\" in \"b\""
    );
    let stopped = |_: &str| Some(false);
    assert_eq!(
        error(world.decide(&here, &stopped)).unwrap(),
        "the VM of node \"a\" does not run"
    );
    let absent = |_: &str| None;
    assert_eq!(
        error(world.decide(&here, &absent)).unwrap(),
        "the VM of node \"a\" does not exist"
    );
    world.settings.volumes_per_node = 0;
    assert!(
        error(world.decide(&here, &all_run))
            .unwrap()
            .contains("which is its maximum")
    );
}

#[test]
fn a_volume_is_attached_to_one_node_at_a_time() {
    let mut world = world();
    volume(&mut world, json!({ "spec": { "nodeAffinity": null } }));
    attachment(&mut world, "a", true, false);
    let other = Task::Attach(attachment(&mut world, "b", false, false));
    assert_eq!(
        error(world.decide(&other, &all_run)).unwrap(),
        "volume \"pv\" is attached to node \"a\""
    );
    volume(
        &mut world,
        json!({ "spec": { "nodeAffinity": null, "accessModes": ["ReadWriteMany"] } }),
    );
    assert_eq!(error(world.decide(&other, &all_run)), None);
}

#[test]
fn an_attachment_is_kept_until_it_is_detached() {
    let mut world = world();
    volume(&mut world, json!({}));
    let name = attachment(&mut world, "a", true, true);
    assert_eq!(world.decide(&Task::Attach(name.clone()), &all_run), None);
    let Some(Action::PatchAttachment(_, patch)) = world.decide(&Task::Detach(name.clone()), &all_run) else {
        panic!("nothing")
    };
    assert_eq!(patch["metadata"]["finalizers"], json!([]));
    if let Some(attachment) = world.attachments.get_mut(&name) {
        attachment.metadata.deletion_timestamp = None;
        attachment.metadata.finalizers = None;
        attachment.status = None;
    }
    let Some(Action::PatchAttachment(_, patch)) = world.decide(&Task::Attach(name), &all_run) else {
        panic!("nothing")
    };
    assert_eq!(
        patch["metadata"]["finalizers"],
        json!(["external-attacher/csi-fakecloud-drydock"])
    );
}

#[test]
fn simulated_nodes_publish_their_volume_limit() {
    let mut world = world();
    let task = Task::Register("a".to_owned());
    let Some(Action::CreateNode(node)) = world.decide(&task, &all_run) else {
        panic!("nothing")
    };
    let driver = &node["spec"]["drivers"][0];
    assert_eq!(
        (&driver["name"], &driver["allocatable"]["count"]),
        (&json!(CSI_DRIVER), &json!(25))
    );
    world
        .csi_nodes
        .insert("a".to_owned(), serde_json::from_value(node).unwrap());
    assert_eq!(world.decide(&task, &all_run), None);
    let other = json!({ "metadata": { "name": "real", "uid": "r" }, "spec": { "providerID": "kind://real" } });
    world
        .nodes
        .insert("real".to_owned(), serde_json::from_value(other).unwrap());
    assert_eq!(world.decide(&Task::Register("real".to_owned()), &all_run), None);
}

/// The garbage collector deletes it because its Node was deleted, which this cache has not observed yet.
#[test]
fn a_reverted_registration_is_not_repeated_at_once() {
    let mut tasks = Tasks {
        world: world(),
        ..Tasks::default()
    };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let task = || Task::Register("a".to_owned());
    tasks.review(task(), now);
    assert_eq!(tasks.next_due(), Some(now), "a new node is registered at once");
    tasks.due.clear();
    tasks.busy.insert(task());
    let registered =
        json!({ "metadata": { "name": "a" }, "spec": { "drivers": [{ "name": CSI_DRIVER, "nodeID": "a" }] } });
    let registered = serde_json::from_value(registered).unwrap();
    tasks.world.csi_nodes.insert("a".to_owned(), registered);
    tasks.done(task(), true, now);
    assert_eq!(tasks.next_due(), None);
    tasks.world.csi_nodes.clear();
    tasks.review(task(), now);
    let rest = tasks.world.settings.retry_delay;
    assert_eq!(tasks.next_due(), now.checked_add(rest).ok());
}

#[tokio::test(start_paused = true)]
async fn the_storage_of_a_cluster_attaches_a_volume_after_the_delay_of_a_rule() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let cloud = Fakecloud::new(Config::default(), Clock::simulated(now), Seed::new(1));
    let rule = "{match: {call: attachVolume, machine: a}, action: {effectDelay: 30s}}";
    let rule = serde_saphyr::from_str(rule).unwrap();
    cloud.step(|cloud, now| cloud.add_fault(rule, now)).unwrap();
    let mut tasks = Tasks {
        world: world(),
        ..Tasks::default()
    };
    volume(&mut tasks.world, json!({ "spec": { "nodeAffinity": null } }));
    for name in ["a", "b"] {
        // VMs of another cloud: this one does not know whether they run.
        let node = json!({ "metadata": { "name": name }, "spec": { "providerID": format!("other://{name}") } });
        let node = serde_json::from_value(node).unwrap();
        tasks.world.nodes.insert(name.to_owned(), node);
    }
    let due = later(now, tasks.world.settings.attach_delay);
    let slow = Task::Attach(attachment(&mut tasks.world, "a", false, false));
    tasks.review(slow.clone(), now);
    assert_eq!(tasks.next_due(), Some(due));
    assert_eq!(tasks.next(&cloud, due), None);
    let delayed = later(due, Duration::from_secs(30));
    assert_eq!(tasks.next_due(), Some(delayed));
    // Another change of the attachment neither repeats the call nor moves its effect.
    tasks.review(slow.clone(), due);
    assert_eq!(tasks.next_due(), Some(delayed));
    let (task, action) = tasks.next(&cloud, delayed).expect("it is due");
    assert_eq!((task, error(Some(action))), (slow.clone(), None));
    // A failed write is repeated without another call.
    tasks.done(slow.clone(), false, delayed);
    let repeated = tasks.next_due().expect("it is repeated");
    assert_eq!(tasks.next(&cloud, repeated).map(|(task, _)| task), Some(slow.clone()));
    assert_eq!(cloud.step(|cloud, _| cloud.faults().list()[0].hits), 1);
    tasks.done(slow.clone(), true, repeated);
    tasks.world.attachments.clear();
    tasks.review(slow.clone(), repeated);
    // A machine that the rule does not match.
    let fast = Task::Attach(attachment(&mut tasks.world, "b", false, false));
    tasks.review(fast.clone(), now);
    assert_eq!(tasks.next(&cloud, due).map(|(task, _)| task), Some(fast));
    // A task that is no longer needed is forgotten: a later one makes a new call.
    tasks.busy.clear();
    tasks.world.attachments.clear();
    attachment(&mut tasks.world, "a", false, false);
    tasks.review(slow.clone(), now);
    assert_eq!(tasks.next(&cloud, due), None);
    tasks.world.attachments.clear();
    tasks.review(slow, due);
    assert_eq!((tasks.next_due(), tasks.accepted.len()), (None, 0));
}
