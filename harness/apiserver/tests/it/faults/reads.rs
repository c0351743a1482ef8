//! Stale reads, and compaction.

use std::time::Duration;

use rstest::rstest;
use serde_json::Value;

use super::world::{CONFIG_MAPS, Transport, World, create, event, get, names, run_story, send, set, watch_from};

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_list_from_a_cache_shows_the_past_and_others_do_not(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        for name in ["a", "b", "c"] {
            create(&world.other, name).await.unwrap();
        }
        send(&world.other, "DELETE", &format!("{CONFIG_MAPS}/a"), &Value::Null)
            .await
            .unwrap();
        let newest = world.server.revision();
        world.rules("{name: stale, match: {client: mcm}, action: {staleList: {by: {revisions: 2}}}}");
        let cached = format!("{CONFIG_MAPS}?resourceVersion=0");
        let list = get(&world.mcm, &cached).await.unwrap();
        assert_eq!(names(&list), ["a", "b"]);
        assert_eq!(list["metadata"]["resourceVersion"], (newest - 2).to_string());
        // Never older than the client requires.
        let recent = get(&world.mcm, &format!("{CONFIG_MAPS}?resourceVersion={}", newest - 1))
            .await
            .unwrap();
        assert_eq!(names(&recent), ["a", "b", "c"]);
        assert_eq!(names(&get(&world.mcm, CONFIG_MAPS).await.unwrap()), ["b", "c"]);
        assert_eq!(names(&get(&world.other, &cached).await.unwrap()), ["b", "c"]);
        assert_eq!(world.counts("stale"), (2, 2));
        // A watch from that revision returns the missing events.
        let mut watch = watch_from(&world.mcm, newest - 2, "").await;
        assert_eq!(event(&mut watch).await, "ADDED c");
        assert_eq!(event(&mut watch).await, "DELETED a");
    });
}

#[test]
fn a_cache_that_lags_by_a_duration_shows_what_was_there_then() {
    run_story(Transport::InProcess, async |world: World| {
        create(&world.other, "a").await.unwrap();
        world.rules("{name: lag, action: {staleList: {by: {duration: 30s}}}}");
        world.clock.sleep(Duration::from_secs(20)).await;
        create(&world.other, "b").await.unwrap();
        let cached = format!("{CONFIG_MAPS}?resourceVersion=0");
        world.clock.sleep(Duration::from_secs(29)).await;
        assert_eq!(names(&get(&world.mcm, &cached).await.unwrap()), ["a"]);
        world.clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(names(&get(&world.mcm, &cached).await.unwrap()), ["a", "b"]);
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_read_from_a_cache_shows_the_object_as_it_was(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        create(&world.other, "a").await.unwrap();
        set(&world.other, "a", "1").await.unwrap();
        set(&world.other, "a", "2").await.unwrap();
        world.rules("{name: stale, match: {client: mcm}, action: {staleGet: {by: {revisions: 1}}}}");
        let path = format!("{CONFIG_MAPS}/a");
        let cached = format!("{path}?resourceVersion=0");
        assert_eq!(get(&world.mcm, &cached).await.unwrap()["data"]["key"], "1");
        assert_eq!(get(&world.mcm, &path).await.unwrap()["data"]["key"], "2");
        assert_eq!(get(&world.other, &cached).await.unwrap()["data"]["key"], "2");
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_byzantine_server_shows_the_past_to_those_who_ask_for_the_present(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        create(&world.other, "a").await.unwrap();
        set(&world.other, "a", "1").await.unwrap();
        create(&world.other, "b").await.unwrap();
        world.rules(
            "[{name: list, action: {staleList: {by: {revisions: 1}, consistent: true}}},\
              {name: get, action: {staleGet: {by: {revisions: 2}, consistent: true}}}]",
        );
        assert_eq!(names(&get(&world.mcm, CONFIG_MAPS).await.unwrap()), ["a"]);
        let old = get(&world.mcm, &format!("{CONFIG_MAPS}/a")).await.unwrap();
        assert_eq!(old.get("data"), None);
        assert!(world.seen.lines()[0].starts_with("list: staleList by 1 revisions (consistent ones too) (byzantine)"));
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn compacting_tells_every_watch_that_its_past_is_gone(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        let old = world.server.revision();
        create(&world.other, "a").await.unwrap();
        let mut watch = watch_from(&world.other, world.server.revision(), "").await;
        world.rules("{name: forget, match: {object: b, times: 1}, action: {compact: {}}}");
        create(&world.mcm, "b").await.unwrap();
        assert_eq!(event(&mut watch).await, "ERROR 410");
        let mut late = watch_from(&world.other, old, "").await;
        assert_eq!(event(&mut late).await, "ERROR 410");
        assert!(world.is_there("b").await);
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn compacting_may_spare_the_watches_that_are_up_to_date(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        let old = world.server.revision();
        create(&world.other, "a").await.unwrap();
        let mut watch = watch_from(&world.other, old, "").await;
        assert_eq!(event(&mut watch).await, "ADDED a");
        world.rules("{name: forget, match: {object: b, times: 1}, action: {compact: {behindOnly: true}}}");
        create(&world.mcm, "b").await.unwrap();
        assert_eq!(event(&mut watch).await, "ADDED b");
        let mut late = watch_from(&world.other, old, "").await;
        assert_eq!(event(&mut late).await, "ERROR 410");
    });
}
