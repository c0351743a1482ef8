//! Watches that end early, freeze, lag or duplicate events.

use std::time::Duration;

use futures::{AsyncReadExt as _, StreamExt as _, poll};
use http::Request;
use jiff::SignedDuration;
use rstest::rstest;

use super::world::{CONFIG_MAPS, Transport, World, create, event, run_story, set, watch_from};

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_truncated_watch_ends_after_its_last_event(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        world.rules("{name: short, match: {client: mcm, times: 1}, action: {truncateWatch: {afterEvents: 2}}}");
        let revision = world.server.revision();
        let mut short = watch_from(&world.mcm, revision, "").await;
        let mut whole = watch_from(&world.mcm, revision, "").await;
        for name in ["a", "b", "c"] {
            create(&world.other, name).await.unwrap();
        }
        assert_eq!(
            [event(&mut short).await, event(&mut short).await],
            ["ADDED a", "ADDED b"]
        );
        let end = short.next().await;
        assert!(end.is_none(), "{end:?}");
        for expected in ["ADDED a", "ADDED b", "ADDED c"] {
            assert_eq!(event(&mut whole).await, expected);
        }
        assert_eq!(world.counts("short"), (2, 1));
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_watch_that_is_truncated_midway_breaks_within_an_event(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        world.rules("{name: torn, match: {client: mcm}, action: {truncateWatch: {afterEvents: 1, midway: true}}}");
        let revision = world.server.revision();
        create(&world.other, "a").await.unwrap();
        create(&world.other, "b").await.unwrap();
        let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={revision}");
        let request = Request::get(&path).body(Vec::new()).unwrap();
        let mut bytes = Vec::new();
        let mut raw = Box::pin(world.mcm.request_stream(request).await.unwrap());
        let error = raw.read_to_end(&mut bytes).await.unwrap_err();
        let text = String::from_utf8(bytes).unwrap();
        let (first, second) = text.split_once('\n').unwrap();
        serde_json::from_str::<serde_json::Value>(first).unwrap();
        assert!(
            second.starts_with("{\"type\":\"ADDED\"") && !second.contains('\n'),
            "{second}: {error}"
        );
        // kube's watch parser does not return the half event.
        let mut events = watch_from(&world.mcm, revision, "").await;
        assert_eq!(event(&mut events).await, "ADDED a");
        let end = events.next().await;
        assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_frozen_watch_is_silent_until_the_rule_is_gone(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        let revision = world.server.revision();
        let mut frozen = watch_from(&world.mcm, revision, "").await;
        let mut spared = watch_from(&world.other, revision, "").await;
        create(&world.other, "a").await.unwrap();
        assert_eq!(event(&mut frozen).await, "ADDED a");
        world.rules("{name: ice, match: {client: mcm}, action: {freezeWatch: {}}}");
        assert!(poll!(frozen.next()).is_pending());
        world.seen.hits(1).await;
        create(&world.other, "b").await.unwrap();
        for expected in ["ADDED a", "ADDED b"] {
            assert_eq!(event(&mut spared).await, expected);
        }
        assert!(poll!(frozen.next()).is_pending());
        world.server.faults().remove("ice").unwrap();
        assert_eq!(event(&mut frozen).await, "ADDED b");
    });
}

#[test]
fn a_frozen_watch_ends_in_its_time_without_a_bookmark() {
    run_story(Transport::InProcess, async |world: World| {
        world.rules("{name: ice, match: {client: mcm}, action: {freezeWatch: {}}}");
        let began = world.clock.now();
        let more = "&timeoutSeconds=300&allowWatchBookmarks=true";
        let mut frozen = watch_from(&world.mcm, world.server.revision(), more).await;
        let end = frozen.next().await;
        assert!(end.is_none(), "{end:?}");
        assert_eq!(world.clock.now().duration_since(began), SignedDuration::from_secs(300));
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn the_events_of_a_lagging_watch_arrive_late_and_in_order(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        world.rules("{name: lag, match: {client: mcm}, action: {lagWatch: {by: 400ms}}}");
        let revision = world.server.revision();
        let mut late = watch_from(&world.mcm, revision, "").await;
        let mut prompt = watch_from(&world.other, revision, "").await;
        let began = world.clock.now();
        create(&world.other, "a").await.unwrap();
        set(&world.other, "a", "1").await.unwrap();
        let lasted = || world.clock.now().duration_since(began);
        let ((first, at), _) = tokio::join!(async { (event(&mut late).await, lasted()) }, async {
            assert_eq!(event(&mut prompt).await, "ADDED a");
            assert_eq!(event(&mut prompt).await, "MODIFIED a");
        });
        assert_eq!(first, "ADDED a");
        assert!(at >= SignedDuration::from_millis(400), "{at}");
        assert_eq!(event(&mut late).await, "MODIFIED a");
        if transport == Transport::InProcess {
            assert_eq!(lasted(), SignedDuration::from_millis(400));
        }
    });
}

#[test]
fn a_lag_that_ends_lets_everything_through_and_no_bookmark_overtakes() {
    run_story(Transport::InProcess, async |world: World| {
        world.rules("{name: lag, match: {client: mcm, window: {until: 90s}}, action: {lagWatch: {by: 1h}}}");
        let more = "&timeoutSeconds=600&allowWatchBookmarks=true";
        let mut late = watch_from(&world.mcm, world.server.revision(), more).await;
        let began = world.clock.now();
        create(&world.other, "a").await.unwrap();
        assert_eq!(event(&mut late).await, "ADDED a");
        assert_eq!(world.clock.now().duration_since(began), SignedDuration::from_secs(90));
        assert_eq!(event(&mut late).await, "BOOKMARK");
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_stuttering_watch_sends_each_event_twice(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        world.rules("{name: twice, match: {client: mcm}, action: {duplicateEvent: {}}}");
        let mut events = watch_from(&world.mcm, world.server.revision(), "").await;
        create(&world.other, "a").await.unwrap();
        set(&world.other, "a", "1").await.unwrap();
        for expected in ["ADDED a", "ADDED a", "MODIFIED a", "MODIFIED a"] {
            assert_eq!(event(&mut events).await, expected);
        }
    });
}

#[test]
fn a_rule_takes_hold_of_an_open_watch_when_its_window_opens_and_counts_it_once() {
    run_story(Transport::InProcess, async |world: World| {
        world.rules(
            "{name: ice, match: {client: mcm, skip: 1, window: {from: 10s, until: 20s}}, action: {freezeWatch: {}}}",
        );
        let revision = world.server.revision();
        let mut first = watch_from(&world.mcm, revision, "").await;
        let mut second = watch_from(&world.mcm, revision, "").await;
        assert!(poll!(first.next()).is_pending() && poll!(second.next()).is_pending());
        world.clock.sleep(Duration::from_secs(10)).await;
        assert!(poll!(first.next()).is_pending() && poll!(second.next()).is_pending());
        create(&world.other, "a").await.unwrap();
        assert_eq!(event(&mut first).await, "ADDED a");
        let began = world.clock.now();
        assert_eq!(event(&mut second).await, "ADDED a");
        assert_eq!(world.clock.now().duration_since(began), SignedDuration::from_secs(10));
        assert_eq!(world.counts("ice"), (2, 1));
    });
}
