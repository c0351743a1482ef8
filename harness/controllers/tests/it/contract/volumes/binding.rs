//! Phases, binding, and protection.

use std::time::Duration;

use serde_json::{Value, json};

use super::{DRIVER, claim, claim_path, class, finalizers, in_phase, of_volumes, pair, using, volume, volume_path};
use crate::contract::Site;
use crate::contract::contract;
use crate::contract::scheduler::{node, node_of, pod};

fn annotation<'a>(object: &'a Value, key: &str) -> &'a Value {
    &object["metadata"]["annotations"][key]
}

#[test]
fn a_volume_is_available_until_a_claim_takes_it() {
    contract!(async |site: &Site| {
        volume(site, "v", json!({})).await;
        let free = in_phase(site, &volume_path("v"), "Available").await;
        assert_eq!(finalizers(&free), ["kubernetes.io/pv-protection"]);
        let claimed = claim(site, "c", of_volumes()).await;
        assert_eq!(finalizers(&claimed), ["kubernetes.io/pvc-protection"]);
        let claim = in_phase(site, &claim_path("c"), "Bound").await;
        assert_eq!(claim["spec"]["volumeName"], format!("v-{}", site.namespace()));
        assert_eq!(claim["status"]["capacity"]["storage"], "1Gi");
        assert_eq!(claim["status"]["accessModes"], json!(["ReadWriteOnce"]));
        for key in [
            "pv.kubernetes.io/bind-completed",
            "pv.kubernetes.io/bound-by-controller",
        ] {
            assert_eq!(annotation(&claim, key), "yes", "{key}");
        }
        let volume = in_phase(site, &volume_path("v"), "Bound").await;
        assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
        assert_eq!(annotation(&volume, "pv.kubernetes.io/bound-by-controller"), "yes");
    });
}

#[test]
fn the_smallest_matching_volume_is_chosen() {
    contract!(async |site: &Site| {
        for (name, size) in [("big", "10Gi"), ("right", "2Gi"), ("small", "1Mi")] {
            volume(site, name, json!({ "spec": { "capacity": { "storage": size } } })).await;
            in_phase(site, &volume_path(name), "Available").await;
        }
        claim(site, "c", of_volumes()).await;
        let claim = in_phase(site, &claim_path("c"), "Bound").await;
        assert_eq!(claim["spec"]["volumeName"], format!("right-{}", site.namespace()));
        assert_eq!(claim["status"]["capacity"]["storage"], "2Gi");
    });
}

#[test]
fn a_claim_gets_a_volume_that_matches_its_selector() {
    contract!(async |site: &Site| {
        volume(site, "a", json!({})).await;
        volume(site, "b", json!({ "metadata": { "labels": { "disk": "fast" } } })).await;
        for name in ["a", "b"] {
            in_phase(site, &volume_path(name), "Available").await;
        }
        let mut change = of_volumes();
        json_patch::merge(
            &mut change,
            &json!({ "spec": { "selector": { "matchLabels": { "disk": "fast" } } } }),
        );
        claim(site, "c", change).await;
        let claim = in_phase(site, &claim_path("c"), "Bound").await;
        assert_eq!(claim["spec"]["volumeName"], format!("b-{}", site.namespace()));
    });
}

#[test]
fn a_claim_that_names_a_volume_is_bound_to_it() {
    contract!(async |site: &Site| {
        for name in ["a", "b"] {
            volume(site, name, json!({})).await;
        }
        let mut change = of_volumes();
        json_patch::merge(&mut change, &json!({ "spec": { "volumeName": "b-{ns}" } }));
        claim(site, "c", change).await;
        let claim = in_phase(site, &claim_path("c"), "Bound").await;
        assert_eq!(annotation(&claim, "pv.kubernetes.io/bind-completed"), "yes");
        assert_eq!(annotation(&claim, "pv.kubernetes.io/bound-by-controller"), &Value::Null);
        in_phase(site, &volume_path("b"), "Bound").await;
        in_phase(site, &volume_path("a"), "Available").await;
    });
}

#[test]
fn a_volume_that_is_reserved_for_a_claim_is_kept_for_it() {
    contract!(async |site: &Site| {
        let reserved = json!({ "spec": { "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "{ns}", "name": "mine",
        } } });
        volume(site, "v", reserved).await;
        in_phase(site, &volume_path("v"), "Available").await;
        claim(site, "other", of_volumes()).await;
        claim(site, "mine", of_volumes()).await;
        let volume = in_phase(site, &volume_path("v"), "Bound").await;
        assert_eq!(
            annotation(&volume, "pv.kubernetes.io/bound-by-controller"),
            &Value::Null
        );
        in_phase(site, &claim_path("mine"), "Bound").await;
        in_phase(site, &claim_path("other"), "Pending").await;
    });
}

#[test]
fn a_volume_outlives_its_claim_and_is_released() {
    contract!(async |site: &Site| {
        pair(site, "v", json!({})).await;
        site.delete(&claim_path("v"), json!({})).await;
        site.until_gone(&claim_path("v")).await;
        let volume = in_phase(site, &volume_path("v"), "Released").await;
        assert!(volume["spec"]["claimRef"]["uid"].is_string());
    });
}

#[test]
fn a_released_volume_becomes_available_when_its_claim_reference_is_removed() {
    contract!(async |site: &Site| {
        pair(site, "v", json!({})).await;
        site.delete(&claim_path("v"), json!({})).await;
        in_phase(site, &volume_path("v"), "Released").await;
        site.merge(&volume_path("v"), json!({ "spec": { "claimRef": null } }))
            .await;
        in_phase(site, &volume_path("v"), "Available").await;
    });
}

#[test]
fn a_volume_without_a_deleter_fails() {
    contract!(async |site: &Site| {
        pair(
            site,
            "v",
            json!({ "spec": {
                "persistentVolumeReclaimPolicy": "Delete",
                "csi": null, "nfs": { "server": "files.example.com", "path": "/" },
            } }),
        )
        .await;
        site.delete(&claim_path("v"), json!({})).await;
        let volume = in_phase(site, &volume_path("v"), "Failed").await;
        let message = volume["status"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("error getting deleter volume plugin for volume"),
            "{message}"
        );
        site.until_event("v-{ns}", "VolumeFailedDelete").await;
    });
}

#[test]
fn a_csi_volume_is_left_to_its_driver() {
    contract!(async |site: &Site| {
        pair(
            site,
            "v",
            json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } }),
        )
        .await;
        site.delete(&claim_path("v"), json!({})).await;
        in_phase(site, &volume_path("v"), "Released").await;
        site.never(&volume_path("v"), Duration::from_secs(2), "failed", |volume| {
            volume.is_none_or(|volume| volume["status"]["phase"] == "Failed")
        })
        .await;
    });
}

#[test]
fn a_provisioned_volume_is_left_to_its_provisioner() {
    contract!(async |site: &Site| {
        let provisioned = json!({
            "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": DRIVER } },
            "spec": { "persistentVolumeReclaimPolicy": "Delete" },
        });
        pair(site, "v", provisioned).await;
        site.delete(&claim_path("v"), json!({})).await;
        in_phase(site, &volume_path("v"), "Released").await;
        site.never(&volume_path("v"), Duration::from_secs(2), "failed", |volume| {
            volume.is_none_or(|volume| volume["status"]["phase"] == "Failed")
        })
        .await;
    });
}

#[test]
fn a_claim_whose_volume_is_gone_is_lost() {
    contract!(async |site: &Site| {
        pair(site, "v", json!({})).await;
        // In this order: the protection controller adds the finalizer again to a volume that is not being
        // deleted.
        site.delete(&volume_path("v"), json!({})).await;
        site.merge(&volume_path("v"), json!({ "metadata": { "finalizers": null } }))
            .await;
        in_phase(site, &claim_path("v"), "Lost").await;
        site.until_event("v", "ClaimLost").await;
    });
}

#[test]
fn a_bound_volume_stays_until_its_claim_is_gone() {
    contract!(async |site: &Site| {
        pair(site, "v", json!({})).await;
        site.delete(&volume_path("v"), json!({})).await;
        site.never(&volume_path("v"), Duration::from_secs(2), "gone", |volume| {
            volume.is_none()
        })
        .await;
        site.delete(&claim_path("v"), json!({})).await;
        site.until_gone(&volume_path("v")).await;
    });
}

#[test]
fn a_claim_stays_while_a_pod_uses_it() {
    contract!(async |site: &Site| {
        node(site, "n", json!({})).await;
        pair(site, "v", json!({})).await;
        pod(site, "p", using("v")).await;
        node_of(site, "p").await;
        site.delete(&claim_path("v"), json!({})).await;
        site.never(&claim_path("v"), Duration::from_secs(2), "gone", |claim| {
            claim.is_none()
        })
        .await;
        crate::contract::scheduler::end(site, "p").await;
        site.until_gone(&claim_path("v")).await;
    });
}

#[test]
fn a_claim_used_only_by_an_unscheduled_pod_may_be_deleted() {
    contract!(async |site: &Site| {
        pair(site, "v", json!({})).await;
        let mut change = using("v");
        json_patch::merge(
            &mut change,
            &json!({ "spec": { "schedulingGates": [{ "name": "example.com/g" }] } }),
        );
        pod(site, "p", change).await;
        site.delete(&claim_path("v"), json!({})).await;
        site.until_gone(&claim_path("v")).await;
    });
}

#[test]
fn a_claim_without_class_and_volume_stays_pending() {
    contract!(async |site: &Site| {
        claim(site, "c", json!({})).await;
        let event = site.until_event("c", "FailedBinding").await;
        assert_eq!(
            event["message"],
            "no persistent volumes available for this claim and no storage class is set"
        );
    });
}

#[test]
fn a_claim_with_a_missing_class_gets_an_event() {
    contract!(async |site: &Site| {
        claim(site, "c", json!({ "spec": { "storageClassName": "none-{ns}" } })).await;
        let event = site.until_event("c", "ProvisioningFailed").await;
        let expected = format!("storageclass.storage.k8s.io \"none-{}\" not found", site.namespace());
        assert_eq!(event["message"], expected);
    });
}

#[test]
fn a_claim_gets_the_annotation_of_its_provisioner() {
    contract!(async |site: &Site| {
        class(site, "now", json!({})).await;
        claim(site, "c", json!({ "spec": { "storageClassName": "now-{ns}" } })).await;
        site.until_it(&claim_path("c"), "has its provisioner's annotation", |claim| {
            annotation(claim, "volume.kubernetes.io/storage-provisioner") == DRIVER
                && annotation(claim, "volume.beta.kubernetes.io/storage-provisioner") == DRIVER
        })
        .await;
        site.until_event("c", "ExternalProvisioning").await;
    });
}

#[test]
fn a_provisioned_volume_is_bound() {
    contract!(async |site: &Site| {
        class(site, "now", json!({})).await;
        let claim = claim(site, "c", json!({ "spec": { "storageClassName": "now-{ns}" } })).await;
        let provisioned = json!({
            "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": DRIVER } },
            "spec": {
                "storageClassName": "now-{ns}", "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "{ns}", "name": "c",
                    "uid": claim["metadata"]["uid"],
                },
            },
        });
        volume(site, "made", provisioned).await;
        in_phase(site, &claim_path("c"), "Bound").await;
        in_phase(site, &volume_path("made"), "Bound").await;
    });
}

#[test]
fn a_claim_without_a_class_gets_a_later_default_class() {
    contract!(async |site: &Site| {
        // A default class affects the whole cluster, and a real cluster is shared with other cases.
        if !site.is_simulated() {
            return;
        }
        claim(site, "early", json!({ "spec": { "storageClassName": null } })).await;
        let default =
            json!({ "metadata": { "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } } });
        class(site, "default", default).await;
        let late = claim(site, "late", json!({ "spec": { "storageClassName": null } })).await;
        let name = format!("default-{}", site.namespace());
        assert_eq!(late["spec"]["storageClassName"], name);
        site.until_it(&claim_path("early"), "has the default class", |claim| {
            claim["spec"]["storageClassName"] == name
        })
        .await;
    });
}
