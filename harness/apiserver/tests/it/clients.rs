//! kube-rs as an in-process client on virtual time.

use std::time::Duration;

use apiserver::Identity;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client};
use serde_json::json;

use crate::cluster::Cluster;

fn client(cluster: &Cluster) -> Client {
    Client::new(cluster.server.service(Identity::user("kube")), "default")
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_changes_over_a_day_of_watches() {
    let cluster = Cluster::new();
    let nodes: Api<Node> = Api::all(client(&cluster));
    let (store, writer) = reflector::store();
    let stream = reflector(writer, watcher(nodes.clone(), watcher::Config::default())).applied_objects();
    let mut stream = std::pin::pin!(stream);
    let node: Node = serde_json::from_value(json!({ "metadata": { "name": "n" } })).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    assert_eq!(
        stream.try_next().await.unwrap().unwrap().metadata.name.as_deref(),
        Some("n")
    );
    for hour in 0..24 {
        let patch = json!({ "metadata": { "labels": { "hour": hour.to_string() } } });
        let change = async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            nodes
                .patch("n", &PatchParams::default(), &Patch::Merge(patch))
                .await
                .unwrap();
        };
        let (seen, ()) = tokio::join!(stream.next(), change);
        let labels = seen.unwrap().unwrap().metadata.labels.unwrap();
        assert_eq!(labels["hour"], hour.to_string());
    }
    assert_eq!(store.state().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn typed_objects_round_trip() {
    let cluster = Cluster::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&cluster));
    let data = [("k".to_owned(), "v".to_owned())].into();
    let mut map = ConfigMap {
        data: Some(data),
        ..ConfigMap::default()
    };
    map.metadata.name = Some("a".to_owned());
    let created = maps.create(&PostParams::default(), &map).await.unwrap();
    assert_eq!(created.data, map.data);
    let again = maps.create(&PostParams::default(), &map).await.unwrap_err();
    assert!(matches!(again, kube::Error::Api(status) if status.is_already_exists()));
    let list = maps
        .list(&ListParams::default().fields("metadata.name=a"))
        .await
        .unwrap();
    assert_eq!(list.items, [created]);
    let deleted = maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(deleted.is_right());
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_patched_with_a_strategic_patch_and_evicted() {
    let cluster = Cluster::new();
    let pods: Api<Pod> = Api::default_namespaced(client(&cluster));
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "nodeName": "n", "containers": [{ "name": "a", "image": "x" }, { "name": "b", "image": "x" }] },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
        .await
        .unwrap();
    let patch = json!({ "spec": { "containers": [{ "name": "b", "image": "y" }] } });
    let patched = pods
        .patch("p", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .unwrap();
    let images: Vec<_> = patched
        .spec
        .unwrap()
        .containers
        .into_iter()
        .filter_map(|container| container.image)
        .collect();
    assert_eq!(images, ["x", "y"]);
    pods.evict("p", &EvictParams::default()).await.unwrap();
    let pod = pods.get("p").await.unwrap();
    assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(30));
}
