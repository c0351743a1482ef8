//! Watches: their start, events and end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::Cluster;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn cluster_with_one() -> (Cluster, u64) {
    with_one(Cluster::new()).await
}

async fn with_one(cluster: Cluster) -> (Cluster, u64) {
    cluster
        .delete(&format!("{CONFIG_MAPS}/kube-root-ca.crt"), Value::Null)
        .await;
    cluster.post(CONFIG_MAPS, json!({ "metadata": { "name": "a" } })).await;
    let revision = cluster.server.revision();
    (cluster, revision)
}

fn brief(kind: &str, name: &str, revision: u64) -> Option<(String, String, String)> {
    Some((kind.to_owned(), name.to_owned(), revision.to_string()))
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_revision_begins_with_the_current_objects() {
    let (cluster, revision) = cluster_with_one().await;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    assert_eq!(watch.brief().await, brief("ADDED", "a", revision));
    cluster
        .merge(&format!("{CONFIG_MAPS}/a"), json!({ "data": { "k": "v" } }))
        .await;
    cluster.delete(&format!("{CONFIG_MAPS}/a"), Value::Null).await;
    assert_eq!(watch.brief().await, brief("MODIFIED", "a", revision + 1));
    assert_eq!(watch.brief().await, brief("DELETED", "a", revision + 2));
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_revision_sends_later_events() {
    let (cluster, revision) = cluster_with_one().await;
    let before = revision - 1;
    let mut watch = cluster
        .watch(&format!("{CONFIG_MAPS}?watch&resourceVersion={before}"))
        .await;
    assert_eq!(watch.brief().await, brief("ADDED", "a", revision));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fell_behind_gets_gone_as_an_event() {
    let (cluster, revision) = cluster_with_one().await;
    let mut open = cluster
        .watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={revision}"))
        .await;
    cluster
        .merge(&format!("{CONFIG_MAPS}/a"), json!({ "data": { "k": "v" } }))
        .await;
    cluster.server.compact();
    for watch in [
        &mut open,
        &mut cluster.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=5")).await,
    ] {
        let event = watch.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["code"]),
            (&json!("ERROR"), &json!(410))
        );
        assert_eq!(event["object"]["reason"], "Expired");
        assert_eq!(watch.next().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout_after_a_last_bookmark() {
    let (cluster, revision) = cluster_with_one().await;
    let clock = clock::Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let began = clock.now();
    let elapsed = || clock.now().duration_since(began).as_secs();
    let query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=100";
    let mut watch = cluster
        .watch(&format!("{CONFIG_MAPS}?{query}&resourceVersion={revision}"))
        .await;
    let mut bookmarks = Vec::new();
    while let Some((kind, _, at)) = watch.brief().await {
        assert_eq!((kind.as_str(), at), ("BOOKMARK", revision.to_string()));
        bookmarks.push(elapsed());
    }
    assert_eq!(bookmarks, [60, 98]);
    assert_eq!(elapsed(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_lasting_watch_continues_with_a_bookmark_per_timeout_until_a_fault_rule_exists() {
    let (cluster, revision) = with_one(Cluster::with(|options| options.lasting_watches = true)).await;
    let clock = clock::Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let began = clock.now();
    let elapsed = || clock.now().duration_since(began).as_secs();
    let query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=100";
    let mut watch = cluster
        .watch(&format!("{CONFIG_MAPS}?{query}&resourceVersion={revision}"))
        .await;
    for bookmark in [98, 198, 298] {
        assert_eq!(watch.brief().await, brief("BOOKMARK", "", revision));
        assert_eq!(elapsed(), bookmark);
    }
    let change = async {
        clock.sleep(Duration::from_secs(52)).await;
        cluster
            .merge(&format!("{CONFIG_MAPS}/a"), json!({ "data": { "k": "v" } }))
            .await;
    };
    let (event, ()) = tokio::join!(watch.brief(), change);
    assert_eq!(event, brief("MODIFIED", "a", revision + 1));
    assert_eq!(elapsed(), 350, "events arrive immediately");
    let rule = "{name: later, match: {verbs: [watch], window: {from: 1h, until: 2h}}, action: {freezeWatch: {}}}";
    let rule = apiserver::faults::parse(rule).unwrap();
    cluster.server.faults().add_all(rule).unwrap();
    let mut last = 0;
    while watch.brief().await.is_some() {
        last = elapsed();
    }
    assert_eq!((last, elapsed()), (398, 400), "the watch ends at its timeout");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_a_marked_bookmark() {
    let (cluster, revision) = cluster_with_one().await;
    let query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(watch.brief().await, brief("ADDED", "a", revision));
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], revision.to_string());
    let refused = cluster
        .get(&format!("{CONFIG_MAPS}?watch=true&sendInitialEvents=true"))
        .await;
    assert_eq!(refused.code, 422);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_ends_watches() {
    let (cluster, revision) = cluster_with_one().await;
    let mut watch = cluster
        .watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={revision}"))
        .await;
    let (event, ()) = tokio::join!(watch.next(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.server.shut_down();
    });
    assert_eq!(event, None);
}

#[tokio::test(start_paused = true)]
async fn an_observer_receives_deliveries() {
    let (cluster, revision) = cluster_with_one().await;
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=true")).await;
    watch.next().await;
    let last = cluster.seen.lines().pop().unwrap();
    assert_eq!(last, format!("delivery tester configmaps ADDED a {revision}"));
}
