//! Error responses: the code, the format, and whether the request had an effect.

use rstest::rstest;
use serde_json::json;

use super::world::{CONFIG_MAPS, Transport, World, code, create, event, get, run_story, set, watch_from};

#[rstest]
fn a_refused_write_is_answered_as_a_server_would_and_not_done(
    #[values(Transport::InProcess, Transport::Https)] transport: Transport,
    #[values(401, 403, 409, 413, 429, 500, 503, 504)] refusal: u16,
) {
    run_story(transport, async |world: World| {
        world.rules(&format!(
            "{{name: refuse, match: {{client: mcm, verbs: [create], times: 1}}, action: {{fail: {{code: {refusal}}}}}}}"
        ));
        let revision = world.server.revision();
        let Err(kube::Error::Api(status)) = create(&world.mcm, "a").await else {
            panic!("the request was not rejected");
        };
        let reason = match refusal {
            401 => "Unauthorized",
            403 => "Forbidden",
            409 => "Conflict",
            413 => "RequestEntityTooLarge",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            _ => "Timeout",
        };
        assert_eq!((status.code, status.reason.as_str()), (refusal, reason));
        let wait = status
            .details
            .map(|details| details.retry_after_seconds)
            .unwrap_or_default();
        assert_eq!(wait, u32::from(refusal == 429));
        assert_eq!(world.server.revision(), revision);
        create(&world.mcm, "a").await.unwrap();
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_refusal_says_when_to_come_again_and_what_it_is_told_to_say(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        world.rules("{name: later, action: {fail: {code: 503, retryAfter: 1m30s, message: etcd is on holiday}}}");
        let Err(kube::Error::Api(status)) = get(&world.mcm, CONFIG_MAPS).await else {
            panic!("the request was not rejected");
        };
        assert_eq!(status.message, "etcd is on holiday");
        assert_eq!(status.details.unwrap().retry_after_seconds, 90);
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_write_that_is_refused_after_its_commit_is_there(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        world.rules("{name: lie, match: {verbs: [create]}, action: {fail: {code: 504, at: afterCommit}}}");
        assert_eq!(code(create(&world.mcm, "a").await), 504);
        assert!(world.is_there("a").await);
        assert_eq!(code(create(&world.mcm, "a").await), 504);
        assert_eq!(world.counts("lie"), (2, 2));
    });
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn a_list_or_watch_of_the_past_is_told_that_it_is_gone_and_others_are_not(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        create(&world.other, "a").await.unwrap();
        let revision = world.server.revision();
        world.rules("{name: gone, match: {client: mcm}, action: {fail: {code: 410}}}");
        let exact = format!("{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
        assert_eq!(code(get(&world.mcm, &exact).await), 410);
        let mut watch = watch_from(&world.mcm, revision, "").await;
        assert_eq!(event(&mut watch).await, "ERROR 410");
        for path in [
            CONFIG_MAPS.to_owned(),
            format!("{CONFIG_MAPS}?resourceVersion=0"),
            format!("{CONFIG_MAPS}/a"),
        ] {
            get(&world.mcm, &path).await.unwrap();
        }
        assert_eq!(world.counts("gone"), (2, 2));
    });
}

#[test]
fn a_conflict_names_the_object_and_a_second_try_succeeds() {
    run_story(Transport::InProcess, async |world: World| {
        create(&world.other, "a").await.unwrap();
        world.rules("{name: busy, match: {verbs: [patch], object: a, times: 1}, action: {fail: {code: 409}}}");
        let Err(kube::Error::Api(status)) = set(&world.mcm, "a", "1").await else {
            panic!("the request was not rejected");
        };
        assert!(
            status
                .message
                .starts_with("Operation cannot be fulfilled on configmaps \"a\": the object has been"),
            "{}",
            status.message
        );
        let changed = set(&world.mcm, "a", "1").await.unwrap();
        assert_eq!(changed["data"], json!({ "key": "1" }));
    });
}
