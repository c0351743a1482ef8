//! VolumeAttachments, and volumes in node statuses.

use std::time::Duration;

use serde_json::{Value, json};

use super::{DRIVER, claim, claim_path, in_phase, pair, using, volume};
use crate::contract::Site;
use crate::contract::contract;
use crate::contract::scheduler::{end, node, node_of, node_path, pod};

const A_WHILE: Duration = Duration::from_secs(2);

/// The name of a volume in node statuses.
fn unique(site: &Site, volume: &str) -> String {
    format!("kubernetes.io/csi/{DRIVER}^{volume}-{}", site.namespace())
}

/// Waits until a volume has attachments to these nodes; returns their paths.
async fn attached_to(site: &Site, volume: &str, nodes: &[&str]) -> Vec<String> {
    let volume = format!("{volume}-{}", site.namespace());
    let mut wanted: Vec<String> = nodes
        .iter()
        .map(|node| format!("{node}-{}", site.namespace()))
        .collect();
    wanted.sort();
    let of_volume = |item: &&Value| item["spec"]["source"]["persistentVolumeName"] == volume.as_str();
    let items = site
        .until_all(
            "/apis/storage.k8s.io/v1/volumeattachments",
            &format!("{volume} on {wanted:?}"),
            |items| {
                let mut found: Vec<&str> = items
                    .iter()
                    .filter(of_volume)
                    .filter_map(|item| item["spec"]["nodeName"].as_str())
                    .collect();
                found.sort_unstable();
                found == wanted
            },
        )
        .await;
    let path = |item: &Value| {
        format!(
            "/apis/storage.k8s.io/v1/volumeattachments/{}",
            item["metadata"]["name"].as_str().unwrap()
        )
    };
    items.iter().filter(of_volume).map(path).collect()
}

/// Simulates the driver's attacher.
async fn attach(site: &Site, path: &str) {
    site.set_status(path, json!({ "attached": true })).await;
}

async fn reports(site: &Site, name: &str, volumes: &[String]) {
    site.until_it(&node_path(name), &format!("with {volumes:?}"), |node| {
        let listed = node["status"]["volumesAttached"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let names: Vec<&str> = listed.iter().filter_map(|volume| volume["name"].as_str()).collect();
        names == volumes
    })
    .await;
}

async fn in_use(site: &Site, name: &str, volumes: &[String]) {
    site.set_status(&node_path(name), json!({ "volumesInUse": volumes }))
        .await;
}

/// A node with a pod that uses the attached volume `v`.
async fn attached(site: &Site) -> String {
    node(site, "n", json!({})).await;
    pair(site, "v", json!({})).await;
    pod(site, "p", using("v")).await;
    node_of(site, "p").await;
    let path = attached_to(site, "v", &["n"]).await.remove(0);
    attach(site, &path).await;
    reports(site, "n", &[unique(site, "v")]).await;
    path
}

#[test]
fn the_volume_of_a_pod_is_attached_to_its_node_and_reported() {
    contract!(async |site: &Site| {
        let path = attached(site).await;
        let attachment = site.get(&path).await;
        assert_eq!(attachment["spec"]["attacher"], DRIVER);
        let name = attachment["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("csi-") && name.len() == 68, "{name}");
        let event = site.until_event("p", "SuccessfulAttachVolume").await;
        let message = format!("AttachVolume.Attach succeeded for volume \"v-{}\" ", site.namespace());
        assert_eq!(event["message"], message);
    });
}

#[test]
fn a_volume_is_detached_when_its_pod_is_gone() {
    contract!(async |site: &Site| {
        let path = attached(site).await;
        end(site, "p").await;
        reports(site, "n", &[]).await;
        site.until_gone(&path).await;
    });
}

#[test]
fn a_volume_in_use_stays_attached_until_it_is_unmounted() {
    contract!(async |site: &Site| {
        let path = attached(site).await;
        in_use(site, "n", &[unique(site, "v")]).await;
        end(site, "p").await;
        site.never(&path, A_WHILE, "detached", |attachment| attachment.is_none())
            .await;
        in_use(site, "n", &[]).await;
        site.until_gone(&path).await;
    });
}

#[test]
fn an_attachment_is_gone_after_its_attacher_detached() {
    contract!(async |site: &Site| {
        let path = attached(site).await;
        let finalizer = format!("external-attacher/{DRIVER}");
        site.merge(&path, json!({ "metadata": { "finalizers": [finalizer] } }))
            .await;
        end(site, "p").await;
        site.until_it(&path, "going", |attachment| {
            attachment["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
        reports(site, "n", &[]).await;
        site.merge(&path, json!({ "metadata": { "finalizers": null } })).await;
        site.until_gone(&path).await;
    });
}

/// Drains also delete attachments; the node has the volume until its driver has detached it.
#[test]
fn a_volume_stays_in_volumes_attached_until_it_is_detached() {
    contract!(async |site: &Site| {
        let path = attached(site).await;
        let finalizer = format!("external-attacher/{DRIVER}");
        site.merge(&path, json!({ "metadata": { "finalizers": [finalizer] } }))
            .await;
        site.delete(&path, Value::Null).await;
        let gone = |node: Option<&Value>| {
            let volumes = node.and_then(|node| node["status"]["volumesAttached"].as_array());
            volumes.is_none_or(Vec::is_empty)
        };
        site.never(&node_path("n"), A_WHILE, "without the volume", gone).await;
        end(site, "p").await;
        site.merge(&path, json!({ "metadata": { "finalizers": null } })).await;
        reports(site, "n", &[]).await;
    });
}

#[test]
fn the_volume_of_a_finished_pod_is_detached() {
    contract!(async |site: &Site| {
        let path = attached(site).await;
        site.set_status("/api/v1/namespaces/{ns}/pods/p", json!({ "phase": "Succeeded" }))
            .await;
        site.until_gone(&path).await;
    });
}

#[test]
fn a_read_write_once_volume_is_attached_to_one_node() {
    contract!(async |site: &Site| {
        let path = attached(site).await;
        in_use(site, "n", &[unique(site, "v")]).await;
        node(site, "m", json!({})).await;
        let mut change = using("v");
        json_patch::merge(
            &mut change,
            &json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": "m-{ns}" } } }),
        );
        pod(site, "q", change).await;
        node_of(site, "q").await;
        let event = site.until_event("q", "FailedAttachVolume").await;
        let message = event["message"].as_str().unwrap();
        let expected = format!(
            "Multi-Attach error for volume \"v-{}\" Volume is already used by pod(s) p",
            site.namespace()
        );
        assert_eq!(message, expected);
        end(site, "p").await;
        in_use(site, "n", &[]).await;
        site.until_gone(&path).await;
        attached_to(site, "v", &["m"]).await;
    });
}

#[test]
fn a_read_write_many_volume_is_attached_to_each_node() {
    contract!(async |site: &Site| {
        let many = json!({ "spec": { "accessModes": ["ReadWriteMany"] } });
        for name in ["n", "m"] {
            node(site, name, json!({})).await;
        }
        volume(site, "v", many.clone()).await;
        let mut change = json!({ "spec": { "storageClassName": "static-{ns}", "volumeName": "v-{ns}" } });
        json_patch::merge(&mut change, &many);
        claim(site, "v", change).await;
        in_phase(site, &claim_path("v"), "Bound").await;
        for (name, host) in [("p", "n"), ("q", "m")] {
            let mut change = using("v");
            let host = format!("{host}-{{ns}}");
            json_patch::merge(
                &mut change,
                &json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": host } } }),
            );
            pod(site, name, change).await;
        }
        attached_to(site, "v", &["n", "m"]).await;
    });
}

#[test]
fn volumes_of_an_out_of_service_node_are_detached_immediately() {
    contract!(async |site: &Site| {
        let path = attached(site).await;
        in_use(site, "n", &[unique(site, "v")]).await;
        let taint =
            json!({ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" });
        site.merge(&node_path("n"), json!({ "spec": { "taints": [taint] } }))
            .await;
        // Evicted by the taint, or deleted by hand if that has already happened.
        let _ = site
            .try_delete("/api/v1/namespaces/{ns}/pods/p", json!({ "gracePeriodSeconds": 0 }))
            .await;
        site.until_gone(&path).await;
    });
}

#[test]
fn volumes_of_an_unhealthy_node_are_detached_after_six_minutes() {
    contract!(async |site: &Site| {
        // Six minutes are too long in real time.
        if !site.is_simulated() {
            return;
        }
        let path = attached(site).await;
        in_use(site, "n", &[unique(site, "v")]).await;
        let unknown = json!({ "conditions": [{ "type": "Ready", "status": "Unknown" }] });
        site.set_status(&node_path("n"), unknown).await;
        end(site, "p").await;
        let since = site.now();
        site.never(&path, Duration::from_secs(355), "detached", |attachment| {
            attachment.is_none()
        })
        .await;
        site.until_gone(&path).await;
        assert!(site.now().duration_since(since).as_secs() < 365);
    });
}

/// Its kubelet can no longer report the unmount.
#[test]
fn used_volumes_of_a_deleted_node_stay_attached_for_six_minutes() {
    contract!(async |site: &Site| {
        let path = attached(site).await;
        in_use(site, "n", &[unique(site, "v")]).await;
        site.delete(&node_path("n"), Value::Null).await;
        end(site, "p").await;
        let since = site.now();
        let still = |time| {
            site.never(&path, time, "detached", |attachment: Option<&Value>| {
                attachment.is_none_or(|attachment| attachment["metadata"]["deletionTimestamp"].is_string())
            })
        };
        // Six minutes are too long in real time.
        if !site.is_simulated() {
            return still(A_WHILE).await;
        }
        still(Duration::from_secs(355)).await;
        site.until_gone(&path).await;
        assert!(site.now().duration_since(since).as_secs() < 365);
    });
}

#[test]
fn a_node_without_controller_managed_attachment_is_ignored() {
    contract!(async |site: &Site| {
        node(site, "n", json!({ "metadata": { "annotations": null } })).await;
        pair(site, "v", json!({})).await;
        pod(site, "p", using("v")).await;
        node_of(site, "p").await;
        let volume = format!("v-{}", site.namespace());
        site.never_all(
            "/apis/storage.k8s.io/v1/volumeattachments",
            A_WHILE,
            "attached",
            |items| {
                items
                    .iter()
                    .any(|item| item["spec"]["source"]["persistentVolumeName"] == volume.as_str())
            },
        )
        .await;
    });
}
