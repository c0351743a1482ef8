//! Deployments: sets, revisions, status.

use std::time::Duration;

use serde_json::{Value, json};

use super::{condition, contract, end, name, path, pods, ready, with, workload};
use crate::contract::Site;

const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) fn sets_of(app: &str) -> String {
    format!("/apis/apps/v1/namespaces/{{ns}}/replicasets?labelSelector=app%3D{app}")
}

/// Waits for this number of sets; returns them by revision.
pub(super) async fn sets(site: &Site, app: &str, count: usize) -> Vec<Value> {
    let mut sets = site
        .until_all(&sets_of(app), &format!("{count} sets"), |sets| {
            sets.len() == count
                && sets
                    .iter()
                    .all(|set| !set["metadata"]["annotations"][REVISION].is_null())
        })
        .await;
    sets.sort_by_key(revision);
    sets
}

pub(super) fn revision(object: &Value) -> i64 {
    let text = object["metadata"]["annotations"][REVISION].as_str().unwrap_or_default();
    text.parse().unwrap_or_default()
}

pub(super) fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": image }] } } } })
}

/// Creates a deployment whose pods are all ready.
pub(super) async fn settled(site: &Site, replicas: usize, change: Value) -> String {
    site.create(workload(
        "Deployment",
        "web",
        with(json!({ "replicas": replicas }), change),
    ))
    .await;
    let pods = pods(site, "web", replicas).await;
    ready(site, &pods).await;
    let deployment = path(site, "Deployment", "web");
    site.until_it(&deployment, "complete", |deployment| {
        condition(deployment, "Progressing")["reason"] == "NewReplicaSetAvailable"
    })
    .await;
    deployment
}

#[test]
fn a_deployment_creates_a_set_named_after_its_template_hash() {
    contract!(async |site: &Site| {
        let deployment = site
            .create(workload(
                "Deployment",
                "web",
                json!({ "replicas": 2, "minReadySeconds": 1 }),
            ))
            .await;
        let set = sets(site, "web", 1).await.remove(0);
        let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
        assert_eq!(name(&set), format!("web-{hash}"));
        assert_eq!(
            set["spec"]["selector"]["matchLabels"],
            json!({ "app": "web", "pod-template-hash": hash })
        );
        assert_eq!(set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"], hash);
        assert_eq!(set["spec"]["replicas"], 2);
        assert_eq!(set["spec"]["minReadySeconds"], 1);
        let annotations = json!({
            "deployment.kubernetes.io/desired-replicas": "2", "deployment.kubernetes.io/max-replicas": "3",
            REVISION: "1",
        });
        assert_eq!(set["metadata"]["annotations"], annotations);
        let owner = json!([{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": deployment["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(set["metadata"]["ownerReferences"], owner);
        let event = site.until_event("web", "ScalingReplicaSet").await;
        assert_eq!(
            event["message"],
            format!("Scaled up replica set web-{hash} from 0 to 2")
        );
    });
}

#[test]
fn a_new_deployment_reports_unavailability() {
    contract!(async |site: &Site| {
        site.create(workload("Deployment", "web", json!({ "replicas": 2 })))
            .await;
        let deployment = path(site, "Deployment", "web");
        let seen = site
            .until_it(&deployment, "two replicas", |deployment| {
                deployment["status"]["replicas"] == 2
            })
            .await;
        let mut status = seen["status"].clone();
        status["conditions"].take();
        let expected = json!({
            "conditions": null, "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2,
            "unavailableReplicas": 2, "terminatingReplicas": 0,
        });
        assert_eq!(status, expected);
        let available = condition(&seen, "Available");
        assert_eq!(available["status"], "False");
        assert_eq!(available["reason"], "MinimumReplicasUnavailable");
        assert_eq!(available["message"], "Deployment does not have minimum availability.");
        assert_eq!(condition(&seen, "Progressing")["status"], "True");
        assert_eq!(revision(&seen), 1);
    });
}

#[test]
fn a_deployment_is_complete_when_all_its_pods_are_available() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 2, json!({})).await;
        let seen = site.get(&deployment).await;
        let set = sets(site, "web", 1).await.remove(0);
        let progressing = condition(&seen, "Progressing");
        assert_eq!(progressing["status"], "True");
        let message = format!("ReplicaSet \"{}\" has successfully progressed.", name(&set));
        assert_eq!(progressing["message"], message);
        assert_eq!(condition(&seen, "Available")["reason"], "MinimumReplicasAvailable");
        let mut status = seen["status"].clone();
        status["conditions"].take();
        let expected = json!({
            "conditions": null, "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
            "availableReplicas": 2, "terminatingReplicas": 0,
        });
        assert_eq!(status, expected);
    });
}

#[test]
fn a_deployment_that_is_scaled_scales_its_set() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 1, json!({})).await;
        site.merge(&deployment, json!({ "spec": { "replicas": 3 } })).await;
        pods(site, "web", 3).await;
        let set = sets(site, "web", 1).await.remove(0);
        let annotations = &set["metadata"]["annotations"];
        assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], "3");
        assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "4");
        assert_eq!(revision(&set), 1);
    });
}

#[test]
fn annotations_of_a_deployment_are_copied_to_its_set_with_exceptions() {
    contract!(async |site: &Site| {
        let mut object = workload("Deployment", "web", json!({ "replicas": 0 }));
        object["metadata"]["annotations"] = json!({
            "team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}",
        });
        site.create(object).await;
        let set = sets(site, "web", 1).await.remove(0);
        let annotations = &set["metadata"]["annotations"];
        assert_eq!(annotations["team"], "a");
        assert!(annotations["kubectl.kubernetes.io/last-applied-configuration"].is_null());
    });
}

#[test]
fn a_rollback_reuses_the_set_of_the_template() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 0, json!({})).await;
        let first = sets(site, "web", 1).await.remove(0);
        site.merge(&deployment, image("image:2")).await;
        let second = sets(site, "web", 2).await.remove(1);
        assert_eq!(revision(&second), 2);
        site.merge(&deployment, image("image:1")).await;
        let back = site
            .until_it(&path(site, "ReplicaSet", name(&first)), "revision 3", |set| {
                revision(set) == 3
            })
            .await;
        assert_eq!(
            back["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"],
            "1"
        );
        site.until_it(&deployment, "revision 3", |deployment| revision(deployment) == 3)
            .await;
        assert_eq!(sets(site, "web", 2).await.len(), 2);
    });
}

#[test]
fn old_sets_beyond_the_history_limit_are_deleted() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 0, json!({ "revisionHistoryLimit": 1 })).await;
        for (number, name) in ["image:2", "image:3", "image:4"].into_iter().enumerate() {
            site.merge(&deployment, image(name)).await;
            let wanted = i64::try_from(number).unwrap() + 2;
            site.until_it(&deployment, "next revision", |deployment| {
                revision(deployment) == wanted
            })
            .await;
        }
        let left = site
            .until_all(&sets_of("web"), "two sets", |sets| {
                sets.len() == 2 && sets.iter().all(|set| revision(set) >= 3)
            })
            .await;
        assert!(left.iter().any(|set| revision(set) == 4));
    });
}

#[test]
fn a_paused_deployment_does_not_roll() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 1, json!({})).await;
        site.merge(&deployment, json!({ "spec": { "paused": true } })).await;
        let paused = site
            .until_it(&deployment, "paused", |deployment| {
                condition(deployment, "Progressing")["reason"] == "DeploymentPaused"
            })
            .await;
        assert_eq!(condition(&paused, "Progressing")["status"], "Unknown");
        assert_eq!(condition(&paused, "Progressing")["message"], "Deployment is paused");
        site.merge(&deployment, image("image:2")).await;
        site.until_it(&deployment, "observed", |deployment| {
            deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
        })
        .await;
        let second = Duration::from_secs(1);
        site.never_all(&sets_of("web"), second, "a second set", |sets| sets.len() > 1)
            .await;
        site.merge(&deployment, json!({ "spec": { "paused": false } })).await;
        sets(site, "web", 2).await;
    });
}

#[test]
fn a_paused_deployment_is_scaled() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 1, json!({})).await;
        site.merge(&deployment, json!({ "spec": { "paused": true, "replicas": 2 } }))
            .await;
        pods(site, "web", 2).await;
    });
}

#[test]
fn a_stalled_rollout_times_out_after_its_deadline() {
    contract!(async |site: &Site| {
        site.create(workload("Deployment", "web", json!({ "progressDeadlineSeconds": 3 })))
            .await;
        let deployment = path(site, "Deployment", "web");
        let seen = site
            .until_it(&deployment, "overdue", |deployment| {
                condition(deployment, "Progressing")["reason"] == "ProgressDeadlineExceeded"
            })
            .await;
        assert_eq!(condition(&seen, "Progressing")["status"], "False");
        let set = sets(site, "web", 1).await.remove(0);
        let message = format!("ReplicaSet \"{}\" has timed out progressing.", name(&set));
        assert_eq!(condition(&seen, "Progressing")["message"], message);
        ready(site, &pods(site, "web", 1).await).await;
        site.until_it(&deployment, "complete after all", |deployment| {
            condition(deployment, "Progressing")["reason"] == "NewReplicaSetAvailable"
        })
        .await;
    });
}

#[test]
fn a_deployment_reports_the_failure_of_its_set() {
    contract!(async |site: &Site| {
        let template = json!({ "spec": { "priorityClassName": "none-of-{ns}" } });
        site.create(workload("Deployment", "web", json!({ "template": template })))
            .await;
        let deployment = path(site, "Deployment", "web");
        let seen = site
            .until_it(&deployment, "failing", |deployment| {
                !condition(deployment, "ReplicaFailure").is_null()
            })
            .await;
        let failure = condition(&seen, "ReplicaFailure");
        assert_eq!(failure["status"], "True");
        assert_eq!(failure["reason"], "FailedCreate");
    });
}

#[test]
fn a_set_without_an_owner_is_adopted_with_its_pods() {
    contract!(async |site: &Site| {
        let mut set = workload("ReplicaSet", "web", json!({}));
        set["metadata"]["labels"] = json!({ "app": "web" });
        let set = site.create(set).await;
        let pod = pods(site, "web", 1).await.remove(0);
        let mut deployment = workload("Deployment", "web", json!({}));
        deployment["metadata"]["name"] = json!("owner");
        site.create(deployment).await;
        let adopted = site
            .until_it(&path(site, "ReplicaSet", "web"), "adopted and numbered", |set| {
                !set["metadata"]["ownerReferences"].is_null() && revision(set) == 1
            })
            .await;
        assert_eq!(adopted["metadata"]["uid"], set["metadata"]["uid"]);
        assert_eq!(name(&pods(site, "web", 1).await[0]), name(&pod));
        let owner = path(site, "Deployment", "owner");
        let seen = site
            .until_it(&owner, "counted", |owner| owner["status"]["updatedReplicas"] == 1)
            .await;
        assert_eq!(seen["status"]["replicas"], 1);
    });
}

#[test]
fn a_failed_pod_makes_a_deployment_unavailable_until_it_is_replaced() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 1, json!({})).await;
        let failed = pods(site, "web", 1).await.remove(0);
        end(site, &failed, "Failed").await;
        site.until_it(&deployment, "unavailable", |deployment| {
            condition(deployment, "Available")["status"] == "False"
        })
        .await;
        let both = pods(site, "web", 2).await;
        let new: Vec<_> = both.into_iter().filter(|pod| name(pod) != name(&failed)).collect();
        ready(site, &new).await;
        let seen = site
            .until_it(&deployment, "available", |deployment| {
                condition(deployment, "Available")["status"] == "True"
            })
            .await;
        assert_eq!(condition(&seen, "Progressing")["reason"], "NewReplicaSetAvailable");
    });
}
