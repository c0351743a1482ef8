use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::foundation::Caches;

fn claim(change: Value) -> PersistentVolumeClaim {
    let mut claim = json!({
        "metadata": { "name": "c", "namespace": "n", "uid": "claim" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "resources": { "requests": { "storage": "1Gi" } },
        },
        "status": { "phase": "Pending" },
    });
    json_patch::merge(&mut claim, &change);
    serde_json::from_value(claim).unwrap()
}

fn volume(name: &str, change: Value) -> PersistentVolume {
    let mut volume = json!({
        "metadata": { "name": name, "uid": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
            "csi": { "driver": "d", "volumeHandle": name },
        },
        "status": { "phase": "Available" },
    });
    json_patch::merge(&mut volume, &change);
    serde_json::from_value(volume).unwrap()
}

/// A volume source without a driver.
fn files() -> Value {
    json!({ "spec": { "csi": null, "nfs": { "server": "s", "path": "/" } } })
}

fn provisioned_files() -> Value {
    let mut files = files();
    files["metadata"] = json!({ "annotations": { "pv.kubernetes.io/provisioned-by": "d" } });
    files
}

fn reserved(uid: &str) -> Value {
    json!({ "spec": { "claimRef": { "namespace": "n", "name": "c", "uid": uid } } })
}

fn completed(volume: &str) -> Value {
    json!({
        "metadata": { "annotations": { fit::BIND_COMPLETED: "yes" } },
        "spec": { "volumeName": volume },
    })
}

fn class(binding: &str, default: bool) -> StorageClass {
    serde_json::from_value(json!({
        "metadata": { "name": "fast", "annotations": { "storageclass.kubernetes.io/is-default-class": default.to_string() } },
        "provisioner": "p", "volumeBindingMode": binding,
    }))
    .unwrap()
}

fn caches(volumes: Vec<PersistentVolume>, classes: Vec<StorageClass>) -> Caches {
    let mut caches = Caches::default();
    for volume in volumes {
        caches.put(volume);
    }
    for class in classes {
        caches.put(class);
    }
    caches
}

fn fast() -> Value {
    json!({ "spec": { "storageClassName": "fast" } })
}

#[rstest]
#[case::smallest_match(
    claim(json!({})),
    vec![volume("a", json!({ "spec": { "capacity": { "storage": "5Gi" } } })), volume("b", json!({}))],
    vec![], Some(Reason::Reserve)
)]
#[case::too_small(
    claim(json!({})), vec![volume("a", json!({ "spec": { "capacity": { "storage": "1Mi" } } }))], vec![],
    Some(Reason::NoVolume)
)]
#[case::reserved_already(claim(json!({})), vec![volume("a", reserved("claim"))], vec![], Some(Reason::Name))]
#[case::reserved_by_name(claim(json!({})), vec![volume("a", reserved(""))], vec![], Some(Reason::Reserve))]
#[case::of_another(claim(json!({})), vec![volume("a", reserved("other"))], vec![], Some(Reason::NoVolume))]
#[case::named(claim(json!({ "spec": { "volumeName": "a" } })), vec![volume("a", json!({}))], vec![], Some(Reason::Reserve))]
#[case::named_and_missing(claim(json!({ "spec": { "volumeName": "a" } })), vec![], vec![], None)]
#[case::named_and_taken(
    claim(json!({ "spec": { "volumeName": "a" } })), vec![volume("a", reserved("other"))], vec![], None
)]
#[case::named_and_unfit(
    claim(json!({ "spec": { "volumeName": "a" } })),
    vec![volume("a", json!({ "spec": { "volumeMode": "Block" } }))], vec![],
    Some(Reason::Mismatch(fit::Mismatch::VolumeMode))
)]
#[case::name_known(claim(completed("a")), vec![volume("a", reserved("claim"))], vec![], Some(Reason::Bound))]
#[case::volume_gone(claim(completed("a")), vec![], vec![], Some(Reason::Lost))]
#[case::volume_of_another(claim(completed("a")), vec![volume("a", reserved("other"))], vec![], Some(Reason::Lost))]
#[case::no_such_class(claim(fast()), vec![], vec![], Some(Reason::NoVolume))]
#[case::provisioned(claim(fast()), vec![], vec![class("Immediate", false)], Some(Reason::Provision))]
#[case::waits_for_its_first_consumer(
    claim(fast()), vec![], vec![class("WaitForFirstConsumer", false)], Some(Reason::FirstConsumer)
)]
#[case::waits_despite_a_matching_volume(
    claim(fast()), vec![volume("a", fast())], vec![class("WaitForFirstConsumer", false)], Some(Reason::FirstConsumer)
)]
#[case::default_class(
    claim(json!({ "spec": { "storageClassName": null } })), vec![], vec![class("Immediate", true)],
    Some(Reason::DefaultClass)
)]
#[case::no_class_wanted(claim(json!({})), vec![], vec![class("Immediate", true)], Some(Reason::NoVolume))]
fn a_claim_gets_its_next_write(
    #[case] claim: PersistentVolumeClaim,
    #[case] volumes: Vec<PersistentVolume>,
    #[case] classes: Vec<StorageClass>,
    #[case] expected: Option<Reason>,
) {
    let plan = claims::decide(&caches(volumes, classes), &claim);
    assert_eq!(plan.reasons, expected.into_iter().collect::<Vec<_>>());
}

#[rstest]
#[case::free(volume("a", json!({ "status": { "phase": "Pending" } })), None, Some(Reason::Phase("Available")))]
#[case::prebound(volume("a", reserved("")), Some(claim(json!({}))), None)]
#[case::reserved(volume("a", reserved("claim")), Some(claim(json!({}))), None)]
#[case::bound(
    volume("a", reserved("claim")),
    Some(claim(completed("a"))),
    Some(Reason::Phase("Bound"))
)]
#[case::claim_gone(volume("a", reserved("claim")), None, Some(Reason::Phase("Released")))]
#[case::another_claim_of_the_name(volume("a", reserved("old")), Some(claim(json!({}))), Some(Reason::Phase("Released")))]
#[case::bound_elsewhere(volume("a", reserved("claim")), Some(claim(completed("b"))), Some(Reason::Release))]
fn a_volume_gets_its_next_write(
    #[case] volume: PersistentVolume,
    #[case] claim: Option<PersistentVolumeClaim>,
    #[case] expected: Option<Reason>,
) {
    let mut caches = Caches::default();
    caches.put(volume.clone());
    if let Some(claim) = claim {
        caches.put(claim);
    }
    let plan = volumes::decide(&caches, &volume, Timestamp::UNIX_EPOCH);
    assert_eq!(plan.reasons, expected.into_iter().collect::<Vec<_>>());
}

#[rstest]
#[case::kept("Retain", files(), None)]
#[case::left_to_its_driver("Delete", json!({}), None)]
#[case::left_to_its_provisioner("Delete", provisioned_files(), None)]
#[case::no_deleter("Delete", files(), Some(Reason::Phase("Failed")))]
#[case::no_recycler("Recycle", provisioned_files(), Some(Reason::Phase("Failed")))]
fn a_released_volume_follows_its_policy(#[case] policy: &str, #[case] source: Value, #[case] expected: Option<Reason>) {
    let mut volume = serde_json::to_value(volume("a", reserved("gone"))).unwrap();
    json_patch::merge(
        &mut volume,
        &json!({ "spec": { "persistentVolumeReclaimPolicy": policy }, "status": { "phase": "Released" } }),
    );
    json_patch::merge(&mut volume, &source);
    let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
    let plan = volumes::decide(&Caches::default(), &volume, Timestamp::UNIX_EPOCH);
    assert_eq!(plan.reasons, expected.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_reserved_volume_is_preferred_to_the_smallest_match() {
    let big = volume("a", json!({ "spec": { "capacity": { "storage": "5Gi" } } }));
    let small = volume("b", json!({ "spec": { "capacity": { "storage": "2Gi" } } }));
    let mine = volume("c", json!({ "spec": { "capacity": { "storage": "9Gi" } } }));
    let best = |volumes: Vec<PersistentVolume>| {
        let volumes: Vec<_> = volumes.into_iter().map(std::sync::Arc::new).collect();
        fit::best(&claim(json!({})), volumes.iter()).map(|volume| volume.metadata.name.clone().unwrap())
    };
    assert_eq!(best(vec![big.clone(), small.clone()]), Some("b".to_owned()));
    let mut mine = serde_json::to_value(mine).unwrap();
    json_patch::merge(&mut mine, &reserved("claim"));
    assert_eq!(
        best(vec![big, small, serde_json::from_value(mine).unwrap()]),
        Some("c".to_owned())
    );
}
