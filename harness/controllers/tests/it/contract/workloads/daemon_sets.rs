//! DaemonSets.

use std::time::Duration;

use serde_json::{Value, json};

use super::deployments::image;
use super::{contract, end, is_deleting, name, node, path, path_of, pods, pods_of, ready, workload};
use crate::contract::Site;

/// The node that a daemon pod targets.
fn meant_for(pod: &Value) -> &str {
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let field = &terms["nodeSelectorTerms"][0]["matchFields"][0];
    assert_eq!(field["key"], "metadata.name");
    field["values"][0].as_str().unwrap()
}

fn rolling(strategy: Value) -> Value {
    json!({ "updateStrategy": { "rollingUpdate": strategy } })
}

#[test]
fn a_daemon_has_a_pod_for_every_node_that_it_selects() {
    contract!(async |site: &Site| {
        let one = node(site, "one", json!({})).await;
        let two = node(site, "two", json!({})).await;
        node(site, "other", json!({ "metadata": { "labels": { "case": "other" } } })).await;
        site.create(workload("DaemonSet", "agent", json!({}))).await;
        let pods = pods(site, "agent", 2).await;
        let mut nodes: Vec<&str> = pods.iter().map(meant_for).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, [one, two]);
        let set = site
            .until_it(&path(site, "DaemonSet", "agent"), "two scheduled", |set| {
                set["status"]["currentNumberScheduled"] == 2
            })
            .await;
        let expected = json!({
            "currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 0,
            "numberUnavailable": 2, "observedGeneration": 1, "updatedNumberScheduled": 2,
        });
        assert_eq!(set["status"], expected);
    });
}

#[test]
fn a_daemon_pod_has_the_default_tolerations() {
    contract!(async |site: &Site| {
        node(site, "one", json!({})).await;
        site.create(workload("DaemonSet", "agent", json!({}))).await;
        let pod = pods(site, "agent", 1).await.remove(0);
        let exists = |key: &str, effect: &str| json!({ "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect });
        let expected = json!([
            exists("not-ready", "NoExecute"),
            exists("unreachable", "NoExecute"),
            exists("disk-pressure", "NoSchedule"),
            exists("memory-pressure", "NoSchedule"),
            exists("pid-pressure", "NoSchedule"),
            exists("unschedulable", "NoSchedule"),
        ]);
        assert_eq!(pod["spec"]["tolerations"], expected);
        assert_eq!(pod["metadata"]["generateName"], "agent-");
        assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "1");
    });
}

#[test]
fn a_new_node_gets_a_daemon_pod_and_a_deselected_node_loses_it() {
    contract!(async |site: &Site| {
        let one = node(site, "one", json!({})).await;
        site.create(workload("DaemonSet", "agent", json!({}))).await;
        let first = pods(site, "agent", 1).await.remove(0);
        node(site, "two", json!({})).await;
        ready(site, &pods(site, "agent", 2).await).await;
        site.merge(
            &format!("/api/v1/nodes/{one}"),
            json!({ "metadata": { "labels": { "case": "none" } } }),
        )
        .await;
        site.until(&path_of(&first), "deleted", |pod| pod.is_none_or(is_deleting))
            .await;
        let set = path(site, "DaemonSet", "agent");
        site.until_it(&set, "one wanted", |set| set["status"]["desiredNumberScheduled"] == 1)
            .await;
    });
}

#[test]
fn a_cordoned_node_keeps_and_gets_daemon_pods() {
    contract!(async |site: &Site| {
        let one = node(site, "one", json!({})).await;
        site.merge(
            &format!("/api/v1/nodes/{one}"),
            json!({ "spec": { "unschedulable": true } }),
        )
        .await;
        site.create(workload("DaemonSet", "agent", json!({}))).await;
        pods(site, "agent", 1).await;
    });
}

#[test]
fn a_no_schedule_taint_excludes_new_daemon_pods_and_keeps_old_ones() {
    contract!(async |site: &Site| {
        let one = node(site, "one", json!({})).await;
        site.create(workload("DaemonSet", "agent", json!({}))).await;
        pods(site, "agent", 1).await;
        let taint = json!({ "spec": { "taints": [{ "key": "own", "effect": "NoSchedule" }] } });
        site.merge(&format!("/api/v1/nodes/{one}"), taint).await;
        let set = path(site, "DaemonSet", "agent");
        let seen = site
            .until_noticed(&set, "misscheduled", |set| set["status"]["numberMisscheduled"] == 1)
            .await;
        assert_eq!(seen["status"]["desiredNumberScheduled"], 0);
        let pod = pods(site, "agent", 1).await.remove(0);
        site.delete(&path_of(&pod), json!({ "gracePeriodSeconds": 0 })).await;
        let second = Duration::from_secs(1);
        site.never_all(&pods_of("agent"), second, "another pod", |pods| {
            pods.iter().any(|other| name(other) != name(&pod))
        })
        .await;
    });
}

#[test]
fn a_no_execute_taint_evicts_the_pod() {
    contract!(async |site: &Site| {
        let one = node(site, "one", json!({})).await;
        site.create(workload("DaemonSet", "agent", json!({}))).await;
        let pod = pods(site, "agent", 1).await.remove(0);
        let taint = json!({ "spec": { "taints": [{ "key": "own", "effect": "NoExecute" }] } });
        site.merge(&format!("/api/v1/nodes/{one}"), taint).await;
        site.until(&path_of(&pod), "deleted", |pod| pod.is_none_or(is_deleting))
            .await;
    });
}

#[test]
fn a_failed_daemon_pod_is_deleted_and_replaced() {
    contract!(async |site: &Site| {
        node(site, "one", json!({})).await;
        site.create(workload("DaemonSet", "agent", json!({}))).await;
        let failed = pods(site, "agent", 1).await.remove(0);
        end(site, &failed, "Failed").await;
        site.until_all(&pods_of("agent"), "another pod", |pods| {
            pods.iter().any(|pod| name(pod) != name(&failed) && !is_deleting(pod))
        })
        .await;
        let event = site.until_event("agent", "FailedDaemonPod").await;
        assert_eq!(event["type"], "Warning");
    });
}

#[test]
fn a_revision_records_the_template_of_a_daemon_set() {
    contract!(async |site: &Site| {
        node(site, "one", json!({})).await;
        let set = site.create(workload("DaemonSet", "agent", json!({}))).await;
        let pod = pods(site, "agent", 1).await.remove(0);
        let revisions = "/apis/apps/v1/namespaces/{ns}/controllerrevisions";
        let revision = site
            .until_all(revisions, "a revision", |all| all.len() == 1)
            .await
            .remove(0);
        let hash = revision["metadata"]["labels"]["controller-revision-hash"]
            .as_str()
            .unwrap();
        assert_eq!(name(&revision), format!("agent-{hash}"));
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], hash);
        assert_eq!(revision["revision"], 1);
        assert_eq!(
            revision["metadata"]["ownerReferences"][0]["uid"],
            set["metadata"]["uid"]
        );
        let template = &revision["data"]["spec"]["template"];
        assert_eq!(template["$patch"], "replace");
        assert_eq!(template["spec"]["containers"][0]["image"], "image:1");
    });
}

#[test]
fn a_daemon_is_updated_one_node_after_the_other() {
    contract!(async |site: &Site| {
        for suffix in ["one", "two"] {
            node(site, suffix, json!({})).await;
        }
        site.create(workload("DaemonSet", "agent", json!({}))).await;
        let old = pods(site, "agent", 2).await;
        ready(site, &old).await;
        let set = path(site, "DaemonSet", "agent");
        site.until_it(&set, "two available", |set| set["status"]["numberAvailable"] == 2)
            .await;
        site.merge(&set, image("image:2")).await;
        let is_new = |pod: &Value| pod["spec"]["containers"][0]["image"] == "image:2";
        let left = |pods: &[Value]| {
            pods.iter()
                .filter(|pod| old.iter().any(|old| name(old) == name(pod)))
                .count()
        };
        for round in 1..=2 {
            // Simulates the kubelet after the pods are bound.
            let going = site
                .until_all(&pods_of("agent"), "an old pod going", |pods| {
                    left(pods) == 2 - round || pods.iter().any(is_deleting)
                })
                .await;
            for pod in going.iter().filter(|pod| is_deleting(pod)) {
                super::remove(site, pod).await;
            }
            let now = site
                .until_all(&pods_of("agent"), "a new pod", |pods| {
                    pods.len() == 2 && pods.iter().filter(|pod| is_new(pod)).count() == round
                })
                .await;
            let fresh: Vec<Value> = now.into_iter().filter(is_new).collect();
            ready(site, &fresh).await;
        }
        site.until_it(&set, "updated", |set| {
            set["status"]["updatedNumberScheduled"] == 2 && set["status"]["numberAvailable"] == 2
        })
        .await;
    });
}

#[test]
fn a_daemon_that_surges_keeps_the_old_pod_until_the_new_one_is_available() {
    contract!(async |site: &Site| {
        node(site, "one", json!({})).await;
        let strategy = rolling(json!({ "maxSurge": 1, "maxUnavailable": 0 }));
        site.create(workload("DaemonSet", "agent", strategy)).await;
        let old = pods(site, "agent", 1).await;
        ready(site, &old).await;
        let set = path(site, "DaemonSet", "agent");
        site.until_it(&set, "available", |set| set["status"]["numberAvailable"] == 1)
            .await;
        site.merge(&set, image("image:2")).await;
        let both = pods(site, "agent", 2).await;
        let new: Vec<Value> = both.into_iter().filter(|pod| name(pod) != name(&old[0])).collect();
        ready(site, &new).await;
        site.until(&path_of(&old[0]), "deleted", |pod| pod.is_none_or(is_deleting))
            .await;
    });
}

#[test]
fn an_on_delete_daemon_set_waits_for_deletions() {
    contract!(async |site: &Site| {
        node(site, "one", json!({})).await;
        let strategy = json!({ "updateStrategy": { "type": "OnDelete" } });
        site.create(workload("DaemonSet", "agent", strategy)).await;
        let old = pods(site, "agent", 1).await.remove(0);
        let set = path(site, "DaemonSet", "agent");
        site.merge(&set, image("image:2")).await;
        site.until_it(&set, "observed", |set| {
            set["status"]["observedGeneration"] == 2 && set["status"]["updatedNumberScheduled"].is_null()
        })
        .await;
        site.never(&path_of(&old), Duration::from_secs(1), "deleted", |pod| {
            pod.is_none_or(is_deleting)
        })
        .await;
        site.delete(&path_of(&old), json!({ "gracePeriodSeconds": 0 })).await;
        let new = site
            .until_all(&pods_of("agent"), "a new pod", |pods| {
                pods.iter().any(|pod| name(pod) != name(&old))
            })
            .await;
        assert!(new.iter().any(|pod| pod["spec"]["containers"][0]["image"] == "image:2"));
    });
}
