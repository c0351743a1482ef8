//! Deployments: rollouts from one template to the next.

use serde_json::{Value, json};

use super::deployments::{image, revision, sets, sets_of, settled};
use super::{contract, is_deleting, name, node, pods, pods_of, ready, remove, run};
use crate::contract::Site;

/// The desired sizes of the sets, by revision.
fn sizes(sets: &[Value]) -> Vec<i64> {
    let mut sets: Vec<&Value> = sets.iter().collect();
    sets.sort_by_key(|set| revision(set));
    sets.iter()
        .map(|set| set["spec"]["replicas"].as_i64().unwrap())
        .collect()
}

/// Waits until the sets have these desired sizes.
async fn sized(site: &Site, expected: &[i64]) {
    let what = format!("sets of {expected:?}");
    site.until_all(&sets_of("web"), &what, |sets| sizes(sets) == expected)
        .await;
}

/// Waits for this number of pods of the latest set.
async fn new_pods(site: &Site, count: usize) -> Vec<Value> {
    let sets = site.list(&sets_of("web")).await;
    let newest = sets.iter().max_by_key(|set| revision(set)).unwrap();
    let hash = newest["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    let path = format!("{}%2Cpod-template-hash%3D{hash}", pods_of("web"));
    site.until_all(&path, &format!("{count} new pods"), |pods| pods.len() == count)
        .await
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({ "strategy": { "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } } })
}

#[test]
fn a_rollout_surges_and_shrinks_by_a_quarter() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 4, json!({})).await;
        site.merge(&deployment, image("image:2")).await;
        sets(site, "web", 2).await;
        sized(site, &[3, 2]).await;
        ready(site, &new_pods(site, 2).await).await;
        sized(site, &[1, 4]).await;
        ready(site, &new_pods(site, 4).await).await;
        sized(site, &[0, 4]).await;
        pods(site, "web", 4).await;
        site.until_it(&deployment, "complete", |deployment| {
            revision(deployment) == 2 && deployment["status"]["updatedReplicas"] == 4
        })
        .await;
    });
}

#[test]
fn without_unavailability_old_pods_wait_for_new_ones() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 2, rolling(json!(1), json!(0))).await;
        site.merge(&deployment, image("image:2")).await;
        sets(site, "web", 2).await;
        sized(site, &[2, 1]).await;
        ready(site, &new_pods(site, 1).await).await;
        sized(site, &[1, 2]).await;
        ready(site, &new_pods(site, 2).await).await;
        sized(site, &[0, 2]).await;
    });
}

#[test]
fn without_surge_old_pods_go_first() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 2, rolling(json!(0), json!(1))).await;
        site.merge(&deployment, image("image:2")).await;
        sets(site, "web", 2).await;
        sized(site, &[1, 1]).await;
        ready(site, &new_pods(site, 1).await).await;
        sized(site, &[0, 2]).await;
    });
}

#[test]
fn all_pods_are_replaced_at_once_if_all_may_be_unavailable() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 3, rolling(json!(0), json!("100%"))).await;
        site.merge(&deployment, image("image:2")).await;
        sets(site, "web", 2).await;
        sized(site, &[0, 3]).await;
    });
}

#[test]
fn unavailable_old_pods_go_before_available_ones() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 3, rolling(json!(1), json!(1))).await;
        let old = pods(site, "web", 3).await;
        run(site, &old[1], false).await;
        site.until_it(&deployment, "one unavailable", |deployment| {
            deployment["status"]["unavailableReplicas"] == 1
        })
        .await;
        site.merge(&deployment, image("image:2")).await;
        sets(site, "web", 2).await;
        sized(site, &[2, 2]).await;
        let path = super::path_of(&old[1]);
        site.until_gone(&path).await;
    });
}

#[test]
fn scaling_up_during_a_rollout_grows_every_set_in_proportion() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 10, rolling(json!(3), json!(2))).await;
        site.merge(&deployment, image("image:2")).await;
        sets(site, "web", 2).await;
        sized(site, &[8, 5]).await;
        site.merge(&deployment, json!({ "spec": { "replicas": 15 } })).await;
        sized(site, &[11, 7]).await;
    });
}

#[test]
fn scaling_down_during_a_rollout_shrinks_every_set_in_proportion() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 10, rolling(json!(3), json!(2))).await;
        site.merge(&deployment, image("image:2")).await;
        sets(site, "web", 2).await;
        sized(site, &[8, 5]).await;
        site.merge(&deployment, json!({ "spec": { "replicas": 5 } })).await;
        sized(site, &[5, 3]).await;
    });
}

#[test]
fn a_superseded_rollout_is_scaled_down() {
    contract!(async |site: &Site| {
        let deployment = settled(site, 4, rolling(json!(1), json!(1))).await;
        site.merge(&deployment, image("image:2")).await;
        sets(site, "web", 2).await;
        sized(site, &[3, 2]).await;
        site.merge(&deployment, image("image:3")).await;
        sets(site, "web", 3).await;
        sized(site, &[3, 0, 2]).await;
    });
}

#[test]
fn recreate_waits_until_all_old_pods_are_gone() {
    contract!(async |site: &Site| {
        let node = node(site, "n", json!({})).await;
        let template = json!({ "spec": { "nodeName": node } });
        let recreate = json!({ "strategy": { "type": "Recreate" }, "template": template });
        let deployment = settled(site, 2, recreate).await;
        let old = pods(site, "web", 2).await;
        site.merge(&deployment, image("image:2")).await;
        let going = site
            .until_all(&pods_of("web"), "all terminating", |pods| pods.iter().all(is_deleting))
            .await;
        assert_eq!(going.len(), 2);
        remove(site, &old[0]).await;
        let second = std::time::Duration::from_secs(1);
        site.never_all(&sets_of("web"), second, "a second set", |sets| sets.len() > 1)
            .await;
        remove(site, &old[1]).await;
        sets(site, "web", 2).await;
        let new = pods(site, "web", 2).await;
        assert!(new.iter().all(|pod| old.iter().all(|old| name(old) != name(pod))));
    });
}
