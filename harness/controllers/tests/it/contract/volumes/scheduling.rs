//! Volumes and the scheduling of pods that use them.

use serde_json::{Value, json};

use super::{DRIVER, claim, claim_path, class, in_phase, pair, using, volume, volume_path};
use crate::contract::Site;
use crate::contract::contract;
use crate::contract::scheduler::{end, node, node_of, pod, pod_path, refused};

fn in_zone(zone: &str) -> Value {
    let expression = json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone] });
    json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } } } })
}

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

#[test]
fn a_pod_goes_to_the_zone_of_its_volume() {
    contract!(async |site: &Site| {
        two_zones(site).await;
        pair(site, "v", in_zone("b")).await;
        pod(site, "p", using("v")).await;
        assert_eq!(node_of(site, "p").await, "b");
        pair(site, "far", in_zone("z")).await;
        pod(site, "q", using("far")).await;
        refused(site, "q", "2 node(s) didn't match PersistentVolume's node affinity").await;
    });
}

#[test]
fn a_pod_goes_to_the_zone_on_its_volumes_label() {
    contract!(async |site: &Site| {
        two_zones(site).await;
        let labelled = |zone: &str| json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone } } });
        pair(site, "v", labelled("b")).await;
        pod(site, "p", using("v")).await;
        assert_eq!(node_of(site, "p").await, "b");
        pair(site, "far", labelled("z")).await;
        pod(site, "q", using("far")).await;
        refused(site, "q", "2 node(s) had no available volume zone").await;
    });
}

#[test]
fn a_pod_waits_for_its_claim() {
    contract!(async |site: &Site| {
        node(site, "n", json!({})).await;
        pod(site, "p", using("c")).await;
        let message = refused(site, "p", "persistentvolumeclaim \"c\" not found").await;
        assert!(
            message.ends_with("persistentvolumeclaim \"c\" not found. not found"),
            "{message}"
        );
        class(site, "now", json!({})).await;
        claim(site, "c", json!({ "spec": { "storageClassName": "now-{ns}" } })).await;
        refused(site, "p", "pod has unbound immediate PersistentVolumeClaims").await;
        volume(site, "v", json!({ "spec": { "storageClassName": "now-{ns}" } })).await;
        assert_eq!(node_of(site, "p").await, "n");
    });
}

#[test]
fn a_claim_is_provisioned_for_the_node_of_its_first_consumer() {
    contract!(async |site: &Site| {
        two_zones(site).await;
        let topologies =
            json!([{ "matchLabelExpressions": [{ "key": "topology.kubernetes.io/zone", "values": ["b"] }] }]);
        class(
            site,
            "late",
            json!({ "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topologies }),
        )
        .await;
        claim(site, "c", json!({ "spec": { "storageClassName": "late-{ns}" } })).await;
        site.until_event("c", "WaitForFirstConsumer").await;
        pod(site, "p", using("c")).await;
        let selected = format!("b-{}", site.namespace());
        let claim = site
            .until_it(&claim_path("c"), "with a node and a provisioner", |claim| {
                let annotations = &claim["metadata"]["annotations"];
                annotations["volume.kubernetes.io/selected-node"] == selected.as_str()
                    && annotations["volume.kubernetes.io/storage-provisioner"] == DRIVER
            })
            .await;
        let mut provisioned = in_zone("b");
        json_patch::merge(
            &mut provisioned,
            &json!({
                "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": DRIVER } },
                "spec": {
                    "storageClassName": "late-{ns}",
                    "claimRef": {
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "{ns}", "name": "c",
                        "uid": claim["metadata"]["uid"],
                    },
                },
            }),
        );
        assert_eq!(site.get(&pod_path("p")).await["spec"].get("nodeName"), None);
        volume(site, "made", provisioned).await;
        assert_eq!(node_of(site, "p").await, "b");
        in_phase(site, &claim_path("c"), "Bound").await;
    });
}

#[test]
fn a_failed_provisioning_reschedules_the_pod() {
    contract!(async |site: &Site| {
        node(site, "a", json!({})).await;
        class(site, "late", json!({ "volumeBindingMode": "WaitForFirstConsumer" })).await;
        claim(site, "c", json!({ "spec": { "storageClassName": "late-{ns}" } })).await;
        pod(site, "p", using("c")).await;
        let selected = |name: &str| {
            let node = format!("{name}-{}", site.namespace());
            move |claim: &Value| claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == node.as_str()
        };
        site.until_it(&claim_path("c"), "for node a", selected("a")).await;
        site.merge(
            &crate::contract::scheduler::node_path("a"),
            json!({ "spec": { "unschedulable": true } }),
        )
        .await;
        node(site, "b", json!({})).await;
        site.merge(
            &claim_path("c"),
            json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": null } } }),
        )
        .await;
        site.until_it(&claim_path("c"), "for node b", selected("b")).await;
    });
}

#[test]
fn an_existing_volume_is_bound_for_the_first_consumer() {
    contract!(async |site: &Site| {
        two_zones(site).await;
        let change = json!({
            "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
        });
        class(site, "local", change).await;
        claim(site, "c", json!({ "spec": { "storageClassName": "local-{ns}" } })).await;
        pod(site, "p", using("c")).await;
        refused(site, "p", "2 node(s) didn't find available persistent volumes to bind").await;
        let mut local = in_zone("b");
        json_patch::merge(&mut local, &json!({ "spec": { "storageClassName": "local-{ns}" } }));
        volume(site, "v", local).await;
        assert_eq!(node_of(site, "p").await, "b");
        in_phase(site, &claim_path("c"), "Bound").await;
        in_phase(site, &volume_path("v"), "Bound").await;
    });
}

#[test]
fn a_node_gets_no_more_volumes_than_it_can_attach() {
    contract!(async |site: &Site| {
        node(site, "n", json!({})).await;
        site.create(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": "n-{ns}" },
            "spec": { "drivers": [{ "name": DRIVER, "nodeID": "n", "topologyKeys": [], "allocatable": { "count": 1 } }] },
        }))
        .await;
        for name in ["a", "b"] {
            pair(site, name, json!({})).await;
        }
        pod(site, "p", using("a")).await;
        node_of(site, "p").await;
        pod(site, "shares", using("a")).await;
        node_of(site, "shares").await;
        pod(site, "q", using("b")).await;
        refused(site, "q", "1 node(s) exceed max volume count").await;
    });
}

#[test]
fn only_one_pod_uses_a_read_write_once_pod_claim() {
    contract!(async |site: &Site| {
        node(site, "n", json!({})).await;
        let once = json!({ "spec": { "accessModes": ["ReadWriteOncePod"] } });
        volume(site, "v", once.clone()).await;
        let mut change = json!({ "spec": { "storageClassName": "static-{ns}", "volumeName": "v-{ns}" } });
        json_patch::merge(&mut change, &once);
        claim(site, "v", change).await;
        in_phase(site, &claim_path("v"), "Bound").await;
        pod(site, "p", using("v")).await;
        node_of(site, "p").await;
        pod(site, "q", using("v")).await;
        let why =
            "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
        refused(site, "q", why).await;
        end(site, "p").await;
        node_of(site, "q").await;
    });
}

#[test]
fn an_ephemeral_volume_gets_a_claim() {
    contract!(async |site: &Site| {
        node(site, "n", json!({})).await;
        class(site, "now", json!({})).await;
        let template = json!({ "spec": {
            "storageClassName": "now-{ns}", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        } });
        let change =
            json!({ "spec": { "volumes": [{ "name": "own", "ephemeral": { "volumeClaimTemplate": template } }] } });
        pod(site, "p", change).await;
        let claim = site.until_it(&claim_path("p-own"), "there", |_| true).await;
        let pod = site.get(&pod_path("p")).await;
        let owner = &claim["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], pod["metadata"]["uid"]);
        assert_eq!(
            (&owner["controller"], &owner["blockOwnerDeletion"]),
            (&json!(true), &json!(true))
        );
    });
}
