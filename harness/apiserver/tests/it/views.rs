//! What the server has sent to a client, and how far behind the view of its writes is.

use std::sync::Arc;
use std::time::Duration;

use apiserver::faults;
use apiserver::observe::Observer;
use apiserver::views::{Rule, WriteRecord};
use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::faults::world::{CONFIG_MAPS, create, event, get, is_disconnected, send, set, watch_from};

/// Collects the records of writes.
#[derive(Debug, Default)]
struct Records(Mutex<Vec<WriteRecord>>);

impl Observer for Records {
    fn write(&self, record: &WriteRecord) {
        self.0.lock().push(record.clone());
    }
}

/// A server that records the writes of user `mcm`.
struct World {
    clock: Clock,
    server: Server,
    mcm: Client,
    other: Client,
    records: Arc<Records>,
}

impl World {
    fn new() -> Self {
        Self::recording(Some("mcm".into()))
    }

    fn recording(users: Option<faults::Pattern>) -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let records = Arc::new(Records::default());
        let server = Server::new(Options {
            observer: Some(Arc::clone(&records) as Arc<dyn Observer>),
            recorded_users: users,
            ..Options::new(clock.clone(), Seed::new(7))
        });
        let server = server.unwrap();
        let client = |user| Client::new(server.service(Identity::user(user)), "default");
        Self {
            clock,
            mcm: client("mcm"),
            other: client("other"),
            server,
            records,
        }
    }

    /// The record of the last write.
    fn last(&self) -> WriteRecord {
        self.records.0.lock().last().cloned().expect("a write was recorded")
    }
}

async fn list(client: &Client) -> u64 {
    let list = get(client, CONFIG_MAPS).await.unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

async fn delete(client: &Client, name: &str) {
    send(client, "DELETE", &format!("{CONFIG_MAPS}/{name}"), &Value::Null)
        .await
        .unwrap();
}

/// Creates a config map with a controller owner.
async fn create_part(client: &Client, name: &str, owner: &str) -> Value {
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true,
    });
    let metadata = json!({ "name": name, "ownerReferences": [owner] });
    let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    send(client, "POST", CONFIG_MAPS, &body).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_write_to_an_object_that_changed_after_its_list_is_stale_and_contradicted() {
    let world = World::new();
    create(&world.other, "a").await.unwrap();
    let listed = list(&world.mcm).await;
    let changed = revision(&set(&world.other, "a", "1").await.unwrap());
    delete(&world.mcm, "a").await;
    let record = world.last();
    assert!(record.is_stale() && record.is_done());
    let object = record.object.unwrap();
    assert_eq!(
        (object.sent, object.newest, object.behind),
        (Some(listed), Some(changed), 1)
    );
    let rules: Vec<(Rule, u64)> = record.contradictions.iter().map(|c| (c.rule, c.revision)).collect();
    assert_eq!(rules, [(Rule::Object, changed)]);
    assert_eq!(
        record.to_string(),
        format!(
            "write 1 (delete configmaps default/a) was based on a view of configmaps 1 revision old and contradicts \
             revision {changed} (configmaps default/a changed)"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_of_the_object_or_an_own_write_makes_the_view_of_it_current() {
    let world = World::new();
    create(&world.other, "a").await.unwrap();
    list(&world.mcm).await;
    set(&world.other, "a", "1").await.unwrap();
    get(&world.mcm, &format!("{CONFIG_MAPS}/a")).await.unwrap();
    set(&world.mcm, "a", "2").await.unwrap();
    let record = world.last();
    assert_eq!(record.object.unwrap().behind, 0);
    assert_eq!(record.contradictions, []);
    set(&world.mcm, "a", "3").await.unwrap();
    let record = world.last();
    assert_eq!((record.number, record.contradictions.len()), (2, 0));
    // The list has not shown the change by the other client, and not the first own write.
    let kind = record.oldest_view().unwrap();
    assert_eq!((kind.resource.as_str(), kind.behind, kind.own), ("configmaps", 2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_never_sent_is_not_contradicted() {
    let world = World::new();
    create(&world.other, "a").await.unwrap();
    set(&world.mcm, "a", "1").await.unwrap();
    let record = world.last();
    assert_eq!(record.object.unwrap().sent, None);
    assert_eq!(record.contradictions, []);
}

#[tokio::test(start_paused = true)]
async fn a_lagging_watch_makes_writes_stale_until_its_events_arrive() {
    let world = World::new();
    create(&world.other, "a").await.unwrap();
    let rule = "{name: lag, match: {client: mcm}, action: {lagWatch: {by: 30s}}}";
    world.server.faults().add_all(faults::parse(rule).unwrap()).unwrap();
    let mut events = watch_from(&world.mcm, list(&world.mcm).await, "").await;
    let changed = revision(&set(&world.other, "a", "1").await.unwrap());
    set(&world.mcm, "a", "2").await.unwrap();
    assert!(world.last().is_stale());
    let rules: Vec<(Rule, u64)> = world
        .last()
        .contradictions
        .iter()
        .map(|c| (c.rule, c.revision))
        .collect();
    assert_eq!(rules, [(Rule::Object, changed)]);
    for _ in 0..2 {
        assert_eq!(event(&mut events).await, "MODIFIED a");
    }
    set(&world.mcm, "a", "3").await.unwrap();
    let record = world.last();
    assert!(!record.is_stale(), "{record:?}");
    assert_eq!(record.kinds, []);
    assert!(world.clock.now() >= "2026-01-01T00:00:30Z".parse().unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_initial_events_of_a_watch_count_when_all_are_sent() {
    let world = World::new();
    create(&world.other, "a").await.unwrap();
    create(&world.other, "z").await.unwrap();
    let mut events = watch_from(
        &world.mcm,
        0,
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    )
    .await;
    assert_eq!(event(&mut events).await, "ADDED a");
    set(&world.other, "z", "1").await.unwrap();
    set(&world.mcm, "z", "2").await.unwrap();
    assert_eq!(world.last().object.unwrap().sent, None);
    while event(&mut events).await != "ADDED z" {}
    set(&world.mcm, "z", "3").await.unwrap();
    let kind = world.last().oldest_view().cloned().unwrap();
    assert_eq!((kind.behind, kind.own), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn another_part_of_the_same_owner_contradicts_a_creation_unless_it_is_the_clients_own() {
    let world = World::new();
    list(&world.mcm).await;
    create_part(&world.mcm, "own", "set").await;
    create_part(&world.mcm, "second", "set").await;
    assert_eq!(world.last().contradictions, []);
    create_part(&world.other, "of-other-owner", "set-2").await;
    let sibling = revision(&create_part(&world.other, "sibling", "set").await);
    create_part(&world.mcm, "third", "set").await;
    let record = world.last();
    let found: Vec<String> = record.contradictions.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [format!("revision {sibling} (configmaps default/sibling was created)")]
    );
    assert_eq!(record.contradictions[0].rule, Rule::Sibling);
    assert_eq!((record.name.as_str(), record.object), ("third", None));
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_changes_nothing_and_one_without_a_response_may() {
    let world = World::new();
    create(&world.mcm, "a").await.unwrap();
    create(&world.mcm, "a").await.unwrap_err();
    let refused = world.last();
    assert_eq!((refused.code, refused.revision), (Some(409), None));
    assert!(!refused.is_done());
    let rule = "{name: lost, match: {client: mcm}, action: {drop: {at: afterCommit}}}";
    world.server.faults().add_all(faults::parse(rule).unwrap()).unwrap();
    assert!(is_disconnected(&create(&world.mcm, "b").await));
    let lost = world.last();
    assert_eq!((lost.code, lost.name.as_str()), (None, "b"));
    assert!(lost.is_done());
    // Its revision was not sent.
    assert!(is_disconnected(&set(&world.mcm, "b", "1").await));
    assert_eq!(world.last().object.unwrap().sent, None);
}

#[tokio::test(start_paused = true)]
async fn writes_of_other_users_and_of_a_server_that_records_none_are_not_reported() {
    let world = World::new();
    create(&world.other, "a").await.unwrap();
    assert_eq!(world.records.0.lock().len(), 0);
    let world = World::recording(None);
    create(&world.mcm, "a").await.unwrap();
    world.clock.sleep(Duration::from_secs(1)).await;
    assert_eq!(world.records.0.lock().len(), 0);
}
