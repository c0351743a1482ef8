//! StatefulSets.

use std::time::Duration;

use serde_json::{Value, json};

use super::deployments::image;
use super::{
    contract, end, is_deleting, name, names, node, path, path_of, pods, pods_of, ready, remove, run, with, workload,
};
use crate::contract::Site;

fn stateful(change: Value) -> Value {
    workload("StatefulSet", "db", with(json!({ "serviceName": "db" }), change))
}

fn claims() -> Value {
    json!([{
        "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    }])
}

const CLAIMS: &str = "/api/v1/namespaces/{ns}/persistentvolumeclaims";

fn pod(ordinal: usize) -> Value {
    json!({ "metadata": { "name": format!("db-{ordinal}") } })
}

/// Sets pods ready one after the other, as they are created.
async fn settle(site: &Site, count: usize) -> Vec<Value> {
    for present in 1..=count {
        let pods = pods(site, "db", present).await;
        ready(site, &pods[present - 1..]).await;
    }
    let set = path(site, "StatefulSet", "db");
    site.until_it(&set, "all ready", |set| set["status"]["readyReplicas"] == count)
        .await;
    pods(site, "db", count).await
}

#[test]
fn pods_are_created_one_after_the_other_by_ordinal() {
    contract!(async |site: &Site| {
        site.create(stateful(json!({ "replicas": 2 }))).await;
        let first = pods(site, "db", 1).await.remove(0);
        assert_eq!(name(&first), "db-0");
        let second = Duration::from_secs(1);
        site.never_all(&pods_of("db"), second, "another pod before it is ready", |pods| {
            pods.len() > 1
        })
        .await;
        run(site, &first, true).await;
        assert_eq!(names(&pods(site, "db", 2).await), ["db-0", "db-1"]);
        let event = site.until_event("db", "SuccessfulCreate").await;
        assert_eq!(event["message"], "Create Pod db-0 in StatefulSet db successful");
    });
}

#[test]
fn a_stateful_pod_has_its_identity_labels() {
    contract!(async |site: &Site| {
        let set = site.create(stateful(json!({}))).await;
        let pod = pods(site, "db", 1).await.remove(0);
        let labels = &pod["metadata"]["labels"];
        assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-0");
        assert_eq!(labels["apps.kubernetes.io/pod-index"], "0");
        assert_eq!(pod["metadata"]["generateName"], "db-");
        assert_eq!(pod["spec"]["hostname"], "db-0");
        assert_eq!(pod["spec"]["subdomain"], "db");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
        let set = site
            .until_it(&path(site, "StatefulSet", "db"), "counted", |set| {
                set["status"]["replicas"] == 1
            })
            .await;
        assert_eq!(labels["controller-revision-hash"], set["status"]["updateRevision"]);
    });
}

#[test]
fn a_parallel_set_creates_its_pods_together() {
    contract!(async |site: &Site| {
        site.create(stateful(json!({ "replicas": 3, "podManagementPolicy": "Parallel" })))
            .await;
        assert_eq!(names(&pods(site, "db", 3).await), ["db-0", "db-1", "db-2"]);
    });
}

#[test]
fn ordinals_begin_at_the_configured_start() {
    contract!(async |site: &Site| {
        let change = json!({ "replicas": 2, "podManagementPolicy": "Parallel", "ordinals": { "start": 5 } });
        site.create(stateful(change)).await;
        assert_eq!(names(&pods(site, "db", 2).await), ["db-5", "db-6"]);
    });
}

#[test]
fn the_highest_ordinal_is_deleted_first_and_the_next_waits_for_it() {
    contract!(async |site: &Site| {
        let node = node(site, "n", json!({})).await;
        let template = json!({ "spec": { "nodeName": node } });
        site.create(stateful(json!({ "replicas": 3, "template": template })))
            .await;
        let all = settle(site, 3).await;
        let set = path(site, "StatefulSet", "db");
        site.merge(&set, json!({ "spec": { "replicas": 1 } })).await;
        site.until_it(&path_of(&all[2]), "going", is_deleting).await;
        site.never(
            &path_of(&all[1]),
            Duration::from_secs(1),
            "terminating too early",
            |pod| pod.is_none_or(is_deleting),
        )
        .await;
        remove(site, &all[2]).await;
        site.until_it(&path_of(&all[1]), "going", is_deleting).await;
        remove(site, &all[1]).await;
        assert_eq!(names(&pods(site, "db", 1).await), ["db-0"]);
    });
}

#[test]
fn each_pod_gets_a_claim_that_outlives_it() {
    contract!(async |site: &Site| {
        site.create(stateful(json!({ "replicas": 2, "volumeClaimTemplates": claims() })))
            .await;
        let pods_made = settle(site, 2).await;
        let created = site.until_all(CLAIMS, "two claims", |claims| claims.len() == 2).await;
        assert_eq!(names(&created), ["data-db-0", "data-db-1"]);
        assert_eq!(created[0]["metadata"]["labels"], json!({ "app": "db" }));
        assert_eq!(created[0]["metadata"]["ownerReferences"], json!(null));
        let volume = &pods_made[0]["spec"]["volumes"][0];
        assert_eq!(volume["name"], "data");
        assert_eq!(volume["persistentVolumeClaim"]["claimName"], "data-db-0");
        site.merge(&path(site, "StatefulSet", "db"), json!({ "spec": { "replicas": 1 } }))
            .await;
        pods(site, "db", 1).await;
        assert_eq!(site.list(CLAIMS).await.len(), 2);
    });
}

#[test]
fn the_when_deleted_policy_makes_the_set_own_its_claims() {
    contract!(async |site: &Site| {
        let policy = json!({ "whenDeleted": "Delete" });
        let change = json!({
            "volumeClaimTemplates": claims(), "persistentVolumeClaimRetentionPolicy": policy,
        });
        let set = site.create(stateful(change)).await;
        settle(site, 1).await;
        let claim = site
            .until_it(&format!("{CLAIMS}/data-db-0"), "owned", |claim| {
                !claim["metadata"]["ownerReferences"].is_null()
            })
            .await;
        let owner = json!([{
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": set["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(claim["metadata"]["ownerReferences"], owner);
    });
}

#[test]
fn the_when_scaled_policy_makes_a_condemned_pod_own_its_claims() {
    contract!(async |site: &Site| {
        let node = node(site, "n", json!({})).await;
        let change = json!({
            "template": { "spec": { "nodeName": node } },
            "volumeClaimTemplates": claims(), "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete" },
        });
        site.create(stateful(change)).await;
        let pod = settle(site, 1).await.remove(0);
        site.merge(&path(site, "StatefulSet", "db"), json!({ "spec": { "replicas": 0 } }))
            .await;
        let claim = site
            .until_it(&format!("{CLAIMS}/data-db-0"), "owned", |claim| {
                !claim["metadata"]["ownerReferences"].is_null()
            })
            .await;
        let owner = &claim["metadata"]["ownerReferences"][0];
        assert_eq!(owner["kind"], "Pod");
        assert_eq!(owner["uid"], pod["metadata"]["uid"]);
        site.until_it(&path_of(&pod), "going", is_deleting).await;
    });
}

#[test]
fn a_stateful_pod_is_replaced_under_its_name_after_it_is_gone() {
    contract!(async |site: &Site| {
        let node = node(site, "n", json!({})).await;
        site.create(stateful(json!({ "template": { "spec": { "nodeName": node } } })))
            .await;
        let old = settle(site, 1).await.remove(0);
        site.delete(&path_of(&old), json!({})).await;
        let same = |pod: Option<&Value>| pod.is_none_or(|pod| pod["metadata"]["uid"] != old["metadata"]["uid"]);
        site.never(&path_of(&old), Duration::from_secs(1), "replaced too early", same)
            .await;
        remove(site, &old).await;
        site.until_it(&path_of(&old), "replaced", |pod| {
            pod["metadata"]["uid"] != old["metadata"]["uid"]
        })
        .await;
    });
}

#[test]
fn a_failed_stateful_pod_is_created_again() {
    contract!(async |site: &Site| {
        site.create(stateful(json!({}))).await;
        let old = settle(site, 1).await.remove(0);
        end(site, &old, "Failed").await;
        site.until(&path_of(&old), "replaced", |pod| {
            pod.is_some_and(|pod| pod["metadata"]["uid"] != old["metadata"]["uid"])
        })
        .await;
        let event = site.until_event("db", "SuccessfulDelete").await;
        assert_eq!(event["message"], "Delete Pod db-0 in StatefulSet db successful");
    });
}

#[test]
fn an_update_goes_from_the_highest_ordinal_down() {
    contract!(async |site: &Site| {
        site.create(stateful(json!({ "replicas": 2 }))).await;
        let old = settle(site, 2).await;
        let set = path(site, "StatefulSet", "db");
        site.merge(&set, image("image:2")).await;
        for ordinal in [1, 0] {
            let uid = &old[ordinal]["metadata"]["uid"];
            let new = site
                .until_it(&path_of(&old[ordinal]), "replaced", |pod| {
                    pod["metadata"]["uid"] != *uid
                })
                .await;
            assert_eq!(new["spec"]["containers"][0]["image"], "image:2");
            if ordinal == 1 {
                let first = site.get(&path_of(&old[0])).await;
                assert_eq!(first["metadata"]["uid"], old[0]["metadata"]["uid"]);
                let during = site
                    .until_it(&set, "one pod of each revision", |set| {
                        set["status"]["currentReplicas"] == 1
                    })
                    .await;
                assert_ne!(during["status"]["currentRevision"], during["status"]["updateRevision"]);
            }
            run(site, &new, true).await;
        }
        let done = site
            .until_it(&set, "done", |set| {
                set["status"]["currentRevision"] == set["status"]["updateRevision"]
                    && set["status"]["readyReplicas"] == 2
            })
            .await;
        assert_eq!(done["status"]["updatedReplicas"], 2);
        assert_eq!(done["status"]["currentReplicas"], 2);
    });
}

#[test]
fn an_update_stops_at_the_partition() {
    contract!(async |site: &Site| {
        let strategy = json!({ "updateStrategy": { "rollingUpdate": { "partition": 1 } } });
        site.create(stateful(with(json!({ "replicas": 2 }), strategy))).await;
        let old = settle(site, 2).await;
        site.merge(&path(site, "StatefulSet", "db"), image("image:2")).await;
        let new = site
            .until_it(&path_of(&old[1]), "replaced", |pod| {
                pod["metadata"]["uid"] != old[1]["metadata"]["uid"]
            })
            .await;
        run(site, &new, true).await;
        site.delete(&path_of(&old[0]), json!({})).await;
        let again = site
            .until_it(&path_of(&pod(0)), "created again", |pod| {
                pod["metadata"]["uid"] != old[0]["metadata"]["uid"]
            })
            .await;
        assert_eq!(again["spec"]["containers"][0]["image"], "image:1");
    });
}

#[test]
fn the_status_of_a_stateful_set_counts_pods_and_names_revisions() {
    contract!(async |site: &Site| {
        site.create(stateful(json!({ "replicas": 1 }))).await;
        settle(site, 1).await;
        let set = site
            .until_it(&path(site, "StatefulSet", "db"), "available", |set| {
                set["status"]["availableReplicas"] == 1
            })
            .await;
        let revision = set["status"]["currentRevision"].as_str().unwrap();
        assert!(revision.starts_with("db-"));
        let expected = json!({
            "availableReplicas": 1, "collisionCount": 0, "currentReplicas": 1, "currentRevision": revision,
            "observedGeneration": 1, "readyReplicas": 1, "replicas": 1, "updateRevision": revision,
            "updatedReplicas": 1,
        });
        assert_eq!(set["status"], expected);
        let kept = site
            .get(&format!(
                "/apis/apps/v1/namespaces/{{ns}}/controllerrevisions/{revision}"
            ))
            .await;
        let hash = kept["metadata"]["labels"]["controller.kubernetes.io/hash"]
            .as_str()
            .unwrap();
        assert_eq!(revision, format!("db-{hash}"));
        assert_eq!(kept["revision"], 1);
    });
}

#[test]
fn a_foreground_deletion_of_a_stateful_set_deletes_its_revisions() {
    const REVISIONS: &str = "/apis/apps/v1/namespaces/{ns}/controllerrevisions";
    contract!(async |site: &Site| {
        site.create(stateful(json!({ "replicas": 0 }))).await;
        let set = path(site, "StatefulSet", "db");
        site.until_it(&set, "observed", |set| set["status"]["updateRevision"].is_string())
            .await;
        assert_eq!(site.list(REVISIONS).await.len(), 1);
        site.delete(&set, json!({ "propagationPolicy": "Foreground" })).await;
        site.until_gone(&set).await;
        site.until_all(REVISIONS, "no revisions", <[Value]>::is_empty).await;
    });
}

#[test]
fn the_next_pod_waits_until_one_is_available_and_not_only_ready() {
    contract!(async |site: &Site| {
        site.create(stateful(json!({ "replicas": 2, "minReadySeconds": 8 })))
            .await;
        let first = pods(site, "db", 1).await;
        ready(site, &first).await;
        let set = path(site, "StatefulSet", "db");
        let seen = site
            .until_it(&set, "ready", |set| set["status"]["readyReplicas"] == 1)
            .await;
        assert_eq!(seen["status"]["availableReplicas"], 0);
        let second = Duration::from_secs(1);
        site.never_all(&pods_of("db"), second, "another pod too early", |pods| pods.len() > 1)
            .await;
        pods(site, "db", 2).await;
    });
}
