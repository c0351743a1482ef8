//! Delays, lost connections, partitions, restarts.

use std::time::Duration;

use apiserver::Identity;
use futures::{FutureExt as _, StreamExt as _, poll};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::Value;

use super::world::{
    CONFIG_MAPS, Transport, World, code, create, event, get, is_disconnected, names, run_story, send, set, watch_from,
};

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_delayed_write_is_not_there_until_its_delay_is_over(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        world.rules("{name: slow, match: {verbs: [create]}, action: {delay: {by: 300ms}}}");
        let began = world.clock.now();
        let mut write = create(&world.mcm, "a").boxed();
        tokio::select! {
            biased;
            written = &mut write => panic!("too early: {written:?}"),
            () = world.seen.hits(1) => {}
        }
        assert!(!world.is_there("a").await);
        write.await.unwrap();
        assert_lasted(&world, began, 300);
        assert!(world.is_there("a").await);
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_write_whose_answer_is_delayed_is_there_before_it_arrives(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        world.rules("{name: slow, match: {verbs: [create]}, action: {delay: {at: afterCommit, by: 300ms}}}");
        let began = world.clock.now();
        let mut write = create(&world.mcm, "a").boxed();
        tokio::select! {
            biased;
            written = &mut write => panic!("too early: {written:?}"),
            () = world.seen.hits(1) => {}
        }
        assert!(world.is_there("a").await);
        write.await.unwrap();
        assert_lasted(&world, began, 300);
    });
}

/// Exactly this duration in virtual time, at least this duration on the wall clock.
fn assert_lasted(world: &World, began: jiff::Timestamp, millis: i64) {
    let lasted = world.clock.now().duration_since(began);
    let expected = SignedDuration::from_millis(millis);
    match world.transport {
        Transport::InProcess => assert_eq!(lasted, expected),
        Transport::Https => assert!(lasted >= expected, "{lasted}"),
    }
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_connection_that_drops_before_the_commit_leaves_nothing_behind(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        world.rules("{name: cut, match: {client: mcm, verbs: [create], times: 1}, action: {drop: {at: beforeCommit}}}");
        let lost = create(&world.mcm, "a").await;
        assert!(is_disconnected(&lost), "{lost:?}");
        assert!(!world.is_there("a").await);
        create(&world.other, "b").await.unwrap();
        create(&world.mcm, "a").await.unwrap();
        assert_eq!(world.counts("cut"), (2, 1));
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_write_is_there_although_its_client_saw_the_connection_drop(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        world.rules(
            "{name: lose, match: {resource: configmaps, object: a, times: 1}, action: {drop: {at: afterCommit}}}",
        );
        let lost = create(&world.mcm, "a").await;
        assert!(is_disconnected(&lost), "{lost:?}");
        assert!(world.server.faults().list()[0].hits == 1);
        assert_eq!(code(create(&world.mcm, "a").await), 409);
        assert_eq!(
            world.seen.lines(),
            ["lose: drop afterCommit (legal): mcm create configmaps default/a"]
        );
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_partitioned_client_is_refused_and_its_watches_break_while_others_are_served(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        let revision = world.server.revision();
        let mut cut = watch_from(&world.mcm, revision, "").await;
        let mut spared = watch_from(&world.other, revision, "").await;
        world.rules("{name: apart, match: {client: mcm}, action: {partition: {how: refuse}}}");
        let end = cut.next().await;
        assert!(!matches!(end, Some(Ok(_))), "{end:?}");
        let refused = create(&world.mcm, "a").await;
        assert!(is_disconnected(&refused), "{refused:?}");
        create(&world.other, "b").await.unwrap();
        assert_eq!(event(&mut spared).await, "ADDED b");
        world.server.faults().remove("apart").unwrap();
        create(&world.mcm, "a").await.unwrap();
        assert_eq!(event(&mut spared).await, "ADDED a");
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn behind_a_silent_partition_requests_and_watches_stand_still_until_it_ends(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        let mut watch = watch_from(&world.mcm, world.server.revision(), "").await;
        world.rules("{name: silence, match: {client: mcm}, action: {partition: {how: hang}}}");
        let mut write = create(&world.mcm, "a").boxed();
        tokio::select! {
            biased;
            written = &mut write => panic!("the request was not blocked: {written:?}"),
            // The watch and the request.
            () = async { tokio::join!(world.seen.hits(2), poll_once(&mut watch)); } => {}
        }
        create(&world.other, "b").await.unwrap();
        assert!(poll!(watch.next()).is_pending());
        assert!(poll!(&mut write).is_pending());
        assert!(!world.is_there("a").await);
        world.server.faults().remove("silence").unwrap();
        write.await.unwrap();
        assert_eq!(event(&mut watch).await, "ADDED b");
        assert_eq!(event(&mut watch).await, "ADDED a");
    });
}

/// Lets a stream make progress without consuming an event.
async fn poll_once(events: &mut super::world::Events) {
    assert!(poll!(events.next()).is_pending());
}

#[test]
fn a_partition_begins_and_ends_with_its_window() {
    run_story(Transport::InProcess, async |world: World| {
        world.rules(
            "[{name: refuse, match: {client: mcm, window: {from: 10s, until: 20s}}, action: {partition: {how: refuse}}},\
              {name: hang, match: {client: mcm, window: {from: 30s, until: 40s}}, action: {partition: {how: hang}}}]",
        );
        let began = world.clock.now();
        let at = |seconds| world.clock.sleep_until(began + SignedDuration::from_secs(seconds));
        let mut watch = watch_from(&world.mcm, world.server.revision(), "").await;
        create(&world.mcm, "a").await.unwrap();
        assert_eq!(event(&mut watch).await, "ADDED a");
        let end = watch.next().await;
        assert!(!matches!(end, Some(Ok(_))), "{end:?}");
        assert_eq!(world.clock.now(), began + SignedDuration::from_secs(10));
        assert!(is_disconnected(&create(&world.mcm, "b").await));
        at(20).await;
        create(&world.mcm, "b").await.unwrap();
        at(35).await;
        create(&world.mcm, "c").await.unwrap();
        assert_eq!(world.clock.now(), began + SignedDuration::from_secs(40));
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_restart_breaks_every_connection_and_forgets_the_past(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        let old = world.server.revision();
        create(&world.other, "before").await.unwrap();
        let mut watch = watch_from(&world.other, world.server.revision(), "").await;
        world.rules("{name: again, match: {object: a, times: 1}, action: {restart: {}}}");
        let lost = create(&world.mcm, "a").await;
        assert!(is_disconnected(&lost), "{lost:?}");
        assert!(!world.is_there("a").await);
        let end = watch.next().await;
        assert!(!matches!(end, Some(Ok(_))), "{end:?}");
        assert!(get(&world.other, &format!("{CONFIG_MAPS}/before")).await.is_ok());
        let mut resumed = watch_from(&world.other, old, "").await;
        assert_eq!(event(&mut resumed).await, "ERROR 410");
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_restart_after_the_commit_that_keeps_history_lets_watches_resume(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        let old = world.server.revision();
        let mut watch = watch_from(&world.other, old, "").await;
        world.rules(
            "{name: again, match: {object: a, times: 1}, action: {restart: {at: afterCommit, keepHistory: true}}}",
        );
        let lost = create(&world.mcm, "a").await;
        assert!(is_disconnected(&lost), "{lost:?}");
        while let Some(Ok(_)) = watch.next().await {}
        let mut resumed = watch_from(&world.other, old, "").await;
        assert_eq!(event(&mut resumed).await, "ADDED a");
    });
}

#[test]
fn a_server_that_is_down_refuses_everybody_until_it_is_back() {
    run_story(Transport::InProcess, async |world: World| {
        let began = world.clock.now();
        world.rules("{name: slow, match: {object: late}, action: {delay: {by: 1h}}}");
        let mut late = create(&world.mcm, "late").boxed();
        tokio::select! {
            biased;
            written = &mut late => panic!("too early: {written:?}"),
            () = world.seen.hits(1) => {}
        }
        world.server.faults().clear();
        world.server.restart(true, Duration::from_secs(5));
        let broken = late.await;
        assert!(is_disconnected(&broken), "{broken:?}");
        assert_eq!(world.clock.now(), began);
        for client in [&world.mcm, &world.other] {
            let refused = get(client, CONFIG_MAPS).await;
            assert!(is_disconnected(&refused), "{refused:?}");
        }
        world.clock.sleep(Duration::from_secs(5)).await;
        get(&world.mcm, CONFIG_MAPS).await.unwrap();
        create(&world.other, "late").await.unwrap();
    });
}

#[test]
fn over_a_socket_a_server_that_is_down_refuses_new_connections() {
    run_story(Transport::Https, async |world: World| {
        get(&world.mcm, CONFIG_MAPS).await.unwrap();
        world.server.restart(true, Duration::from_secs(3600));
        for client in [&world.mcm, &world.client(Identity::user("new")).await] {
            let refused = get(client, CONFIG_MAPS).await;
            assert!(is_disconnected(&refused), "{refused:?}");
        }
    });
}

#[test]
fn a_request_has_one_ending_and_rules_behind_it_are_not_asked() {
    run_story(Transport::InProcess, async |world: World| {
        world.rules(
            "[{name: slow, match: {verbs: [create]}, action: {delay: {by: 1s}}},\
              {name: lose, match: {verbs: [create], times: 1}, action: {drop: {at: afterCommit}}},\
              {name: refuse, match: {verbs: [create], times: 1}, action: {fail: {code: 500}}},\
              {name: behind, match: {verbs: [create]}, action: {drop: {}}}]",
        );
        assert!(is_disconnected(&create(&world.mcm, "a").await));
        assert!(world.is_there("a").await);
        assert_eq!(code(create(&world.mcm, "b").await), 500);
        assert_eq!(world.counts("slow"), (2, 2));
        assert_eq!(world.counts("lose"), (2, 1));
        assert_eq!(world.counts("refuse"), (1, 1));
        assert_eq!(world.counts("behind"), (0, 0));
    });
}

#[test]
fn a_client_is_matched_by_its_user_agent_too() {
    run_story(Transport::InProcess, async |world: World| {
        world.rules("{name: agent, match: {client: 'kubectl/*'}, action: {fail: {code: 503}}}");
        let request = http::Request::get(CONFIG_MAPS).header("user-agent", "kubectl/v1.36.0");
        let refused = world.mcm.request::<Value>(request.body(Vec::new()).unwrap()).await;
        assert_eq!(code(refused), 503);
        let list = get(&world.mcm, CONFIG_MAPS).await.unwrap();
        assert!(names(&list).is_empty());
    });
}

#[test]
fn rules_find_subresources_groups_and_paths() {
    run_story(Transport::InProcess, async |world: World| {
        world.rules(
            "[{name: status, match: {resource: nodes/status}, action: {fail: {code: 500}}},\
              {name: leases, match: {resource: leases.coordination.k8s.io}, action: {fail: {code: 503}}},\
              {name: version, match: {client: mcm, times: 1, skip: 2}, action: {fail: {code: 504}}}]",
        );
        let node = serde_json::json!({ "metadata": { "name": "n" } });
        send(&world.other, "POST", "/api/v1/nodes", &node).await.unwrap();
        assert_eq!(
            code(send(&world.other, "PATCH", "/api/v1/nodes/n/status", &node).await),
            500
        );
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        assert_eq!(code(get(&world.other, leases).await), 503);
        let mut codes = Vec::new();
        for _ in 0..4 {
            codes.push(
                get(&world.mcm, "/version")
                    .await
                    .map(|_| 200)
                    .unwrap_or_else(|error| code::<()>(Err(error))),
            );
        }
        assert_eq!(codes, [200, 200, 504, 200]);
        set(&world.other, "kube-root-ca.crt", "v").await.unwrap();
    });
}
