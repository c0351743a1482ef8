//! ReplicaSets.

use std::time::Duration;

use serde_json::json;

use super::{
    condition, contract, end, is_deleting, name, node, path, path_of, pods, pods_of, ready, remove, run, workload,
};
use crate::contract::Site;

#[test]
fn a_replica_set_creates_its_pods_with_events() {
    contract!(async |site: &Site| {
        let set = site
            .create(workload("ReplicaSet", "web", json!({ "replicas": 2 })))
            .await;
        let pods = pods(site, "web", 2).await;
        for pod in &pods {
            assert!(name(pod).starts_with("web-"));
            assert_eq!(pod["metadata"]["generateName"], "web-");
            let owner = &pod["metadata"]["ownerReferences"][0];
            let expected = json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true,
            });
            assert_eq!(*owner, expected);
        }
        let event = site.until_event("web", "SuccessfulCreate").await;
        assert!(event["message"].as_str().unwrap().starts_with("Created pod: web-"));
    });
}

#[test]
fn the_status_of_a_replica_set_counts_pods_by_state() {
    contract!(async |site: &Site| {
        site.create(workload("ReplicaSet", "web", json!({ "replicas": 3 })))
            .await;
        let pods = pods(site, "web", 3).await;
        ready(site, &pods[..2]).await;
        run(site, &pods[2], false).await;
        let set = site
            .until_it(&path(site, "ReplicaSet", "web"), "two available", |set| {
                set["status"]["availableReplicas"] == 2
            })
            .await;
        let expected = json!({
            "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2, "availableReplicas": 2,
            "terminatingReplicas": 0, "observedGeneration": 1,
        });
        assert_eq!(set["status"], expected);
    });
}

#[test]
fn a_replica_set_scales_up_and_down() {
    contract!(async |site: &Site| {
        site.create(workload("ReplicaSet", "web", json!({ "replicas": 1 })))
            .await;
        pods(site, "web", 1).await;
        let set = path(site, "ReplicaSet", "web");
        site.merge(&set, json!({ "spec": { "replicas": 4 } })).await;
        pods(site, "web", 4).await;
        site.merge(&set, json!({ "spec": { "replicas": 2 } })).await;
        pods(site, "web", 2).await;
        let event = site.until_event("web", "SuccessfulDelete").await;
        assert!(event["message"].as_str().unwrap().starts_with("Deleted pod: web-"));
        site.until_it(&set, "observed", |set| {
            set["status"]["observedGeneration"] == 3 && set["status"]["replicas"] == 2
        })
        .await;
    });
}

#[test]
fn a_pod_that_is_deleted_is_replaced() {
    contract!(async |site: &Site| {
        site.create(workload("ReplicaSet", "web", json!({ "replicas": 2 })))
            .await;
        let before = pods(site, "web", 2).await;
        site.delete(&path_of(&before[0]), json!({})).await;
        site.until_gone(&path_of(&before[0])).await;
        let after = pods(site, "web", 2).await;
        assert!(after.iter().any(|pod| name(pod) == name(&before[1])));
    });
}

#[test]
fn a_failed_pod_is_replaced_and_kept() {
    contract!(async |site: &Site| {
        site.create(workload("ReplicaSet", "web", json!({ "replicas": 1 })))
            .await;
        let failed = pods(site, "web", 1).await.remove(0);
        end(site, &failed, "Failed").await;
        let both = pods(site, "web", 2).await;
        assert!(both.iter().any(|pod| name(pod) == name(&failed)));
        let set = path(site, "ReplicaSet", "web");
        site.until_it(&set, "one replica", |set| set["status"]["replicas"] == 1)
            .await;
    });
}

#[test]
fn a_terminating_pod_is_replaced_immediately_and_counted_separately() {
    contract!(async |site: &Site| {
        let node = node(site, "n", json!({})).await;
        let template = json!({ "spec": { "nodeName": node } });
        site.create(workload(
            "ReplicaSet",
            "web",
            json!({ "replicas": 1, "template": template }),
        ))
        .await;
        let old = pods(site, "web", 1).await.remove(0);
        run(site, &old, true).await;
        site.delete(&path_of(&old), json!({})).await;
        site.until_all(&pods_of("web"), "the old pod and a new one", |pods| {
            pods.len() == 2 && pods.iter().filter(|pod| is_deleting(pod)).count() == 1
        })
        .await;
        let set = path(site, "ReplicaSet", "web");
        site.until_it(&set, "one replica, one terminating", |set| {
            set["status"]["replicas"] == 1 && set["status"]["terminatingReplicas"] == 1
        })
        .await;
        remove(site, &old).await;
        site.until_it(&set, "none terminating", |set| {
            set["status"]["terminatingReplicas"] == 0
        })
        .await;
    });
}

#[test]
fn an_orphan_that_is_selected_is_adopted() {
    contract!(async |site: &Site| {
        let orphan = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "stray", "labels": { "app": "web" } },
            "spec": super::template("web")["spec"],
        });
        site.create(orphan).await;
        let set = site
            .create(workload("ReplicaSet", "web", json!({ "replicas": 1 })))
            .await;
        let stray = site
            .until_it("/api/v1/namespaces/{ns}/pods/stray", "adopted", |pod| {
                !pod["metadata"]["ownerReferences"].is_null()
            })
            .await;
        let owner = &stray["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], set["metadata"]["uid"]);
        assert_eq!(owner["controller"], true);
        assert_eq!(owner["blockOwnerDeletion"], true);
        pods(site, "web", 1).await;
    });
}

#[test]
fn a_surplus_orphan_is_adopted_and_deleted() {
    contract!(async |site: &Site| {
        site.create(workload("ReplicaSet", "web", json!({ "replicas": 1 })))
            .await;
        let own = pods(site, "web", 1).await;
        ready(site, &own).await;
        let orphan = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "stray", "labels": { "app": "web" } },
            "spec": super::template("web")["spec"],
        });
        site.create(orphan).await;
        site.until_gone("/api/v1/namespaces/{ns}/pods/stray").await;
        assert_eq!(name(&pods(site, "web", 1).await[0]), name(&own[0]));
    });
}

#[test]
fn a_pod_that_is_no_longer_selected_is_released_and_replaced() {
    contract!(async |site: &Site| {
        site.create(workload("ReplicaSet", "web", json!({ "replicas": 1 })))
            .await;
        let pod = pods(site, "web", 1).await.remove(0);
        site.merge(&path_of(&pod), json!({ "metadata": { "labels": { "app": "other" } } }))
            .await;
        let released = site
            .until_it(&path_of(&pod), "released", |pod| {
                pod["metadata"]["ownerReferences"].is_null()
            })
            .await;
        assert_eq!(released["metadata"]["labels"]["app"], "other");
        pods(site, "web", 1).await;
    });
}

#[test]
fn pods_that_are_not_ready_are_deleted_first() {
    contract!(async |site: &Site| {
        site.create(workload("ReplicaSet", "web", json!({ "replicas": 3 })))
            .await;
        let before = pods(site, "web", 3).await;
        run(site, &before[0], true).await;
        run(site, &before[1], false).await;
        run(site, &before[2], true).await;
        let set = path(site, "ReplicaSet", "web");
        site.until_it(&set, "two ready", |set| set["status"]["readyReplicas"] == 2)
            .await;
        site.merge(&set, json!({ "spec": { "replicas": 2 } })).await;
        let after = pods(site, "web", 2).await;
        assert!(after.iter().all(|pod| name(pod) != name(&before[1])));
    });
}

#[test]
fn among_equals_the_cheapest_pod_goes_first() {
    contract!(async |site: &Site| {
        site.create(workload("ReplicaSet", "web", json!({ "replicas": 3 })))
            .await;
        let before = pods(site, "web", 3).await;
        ready(site, &before).await;
        let cost = |cost: &str| json!({ "metadata": { "annotations": { "controller.kubernetes.io/pod-deletion-cost": cost } } });
        site.merge(&path_of(&before[0]), cost("10")).await;
        site.merge(&path_of(&before[2]), cost("-10")).await;
        let set = path(site, "ReplicaSet", "web");
        site.until_it(&set, "all ready", |set| set["status"]["readyReplicas"] == 3)
            .await;
        site.merge(&set, json!({ "spec": { "replicas": 1 } })).await;
        let after = pods(site, "web", 1).await;
        assert_eq!(name(&after[0]), name(&before[0]));
    });
}

#[test]
fn a_ready_pod_is_available_after_a_while() {
    contract!(async |site: &Site| {
        site.create(workload(
            "ReplicaSet",
            "web",
            json!({ "replicas": 1, "minReadySeconds": 8 }),
        ))
        .await;
        let pods = pods(site, "web", 1).await;
        ready(site, &pods).await;
        let set = path(site, "ReplicaSet", "web");
        let first = site
            .until_it(&set, "ready", |set| set["status"]["readyReplicas"] == 1)
            .await;
        assert_eq!(first["status"]["availableReplicas"], json!(null));
        site.until_it(&set, "available", |set| set["status"]["availableReplicas"] == 1)
            .await;
    });
}

#[test]
fn a_replica_set_reports_why_it_cannot_create_pods() {
    contract!(async |site: &Site| {
        let template = json!({ "spec": { "priorityClassName": "none-of-{ns}" } });
        site.create(workload("ReplicaSet", "web", json!({ "template": template })))
            .await;
        let set = path(site, "ReplicaSet", "web");
        let failing = site
            .until_it(&set, "failing", |set| {
                condition(set, "ReplicaFailure")["status"] == "True"
            })
            .await;
        assert_eq!(condition(&failing, "ReplicaFailure")["reason"], "FailedCreate");
        assert_eq!(failing["status"]["replicas"], 0);
        let event = site.until_event("web", "FailedCreate").await;
        assert_eq!(event["type"], "Warning");
        assert!(event["message"].as_str().unwrap().starts_with("Error creating: "));
    });
}

#[test]
fn a_replica_set_recovers_from_failures() {
    contract!(async |site: &Site| {
        let template = json!({ "spec": { "priorityClassName": "later-{ns}" } });
        site.create(workload("ReplicaSet", "web", json!({ "template": template })))
            .await;
        let set = path(site, "ReplicaSet", "web");
        site.until_it(&set, "failing", |set| !condition(set, "ReplicaFailure").is_null())
            .await;
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": { "name": "later-{ns}" }, "value": 7,
        });
        site.create(class).await;
        pods(site, "web", 1).await;
        site.until_it(&set, "not failing", |set| condition(set, "ReplicaFailure").is_null())
            .await;
    });
}

#[test]
fn a_replica_set_with_zero_replicas_has_no_pods() {
    contract!(async |site: &Site| {
        site.create(workload("ReplicaSet", "web", json!({ "replicas": 0 })))
            .await;
        let set = path(site, "ReplicaSet", "web");
        site.until_it(&set, "observed", |set| set["status"]["observedGeneration"] == 1)
            .await;
        site.never_all(&pods_of("web"), Duration::from_secs(1), "a pod", |pods| {
            !pods.is_empty()
        })
        .await;
    });
}
