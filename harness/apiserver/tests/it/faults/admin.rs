//! The admin endpoint for fault rules.

use apiserver::Identity;
use http::Request;
use kube::Client;
use rstest::rstest;
use serde_json::Value;

use super::world::{CONFIG_MAPS, Transport, World, code, get, run_story};

const ENDPOINT: &str = "/drydock/faults";

async fn post(client: &Client, text: &str) -> kube::Result<Value> {
    let request = Request::post(ENDPOINT).header("content-type", "application/yaml");
    client.request(request.body(text.as_bytes().to_vec()).unwrap()).await
}

async fn delete(client: &Client, path: &str) -> kube::Result<Value> {
    client.request(Request::delete(path).body(Vec::new()).unwrap()).await
}

fn refusal(result: kube::Result<Value>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.message),
        other => panic!("expected an error response, got {other:?}"),
    }
}

#[rstest]
#[case::in_process(Transport::InProcess)]
#[case::https(Transport::Https)]
fn rules_are_added_listed_and_removed_at_run_time(#[case] transport: Transport) {
    run_story(transport, async |world: World| {
        let admin = world.client(Identity::admin()).await;
        let text = "\
- name: first
  match: {client: mcm, window: {until: 2h}}
  action: {fail: {code: 503}}
---
name: second
action:
  duplicateEvent: {}
";
        let added = post(&admin, text).await.unwrap();
        assert_eq!(added["rules"][0]["rule"]["match"]["window"]["until"], "2h");
        assert_eq!(code(get(&world.mcm, CONFIG_MAPS).await), 503);
        let list = get(&admin, ENDPOINT).await.unwrap();
        let brief: Vec<_> = list["rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|status| {
                (
                    status["rule"]["name"].as_str().unwrap(),
                    status["class"].as_str().unwrap(),
                    status["matched"].as_u64().unwrap(),
                    status["hits"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(brief, [("first", "legal", 1, 1), ("second", "byzantine", 0, 0)]);
        let one = get(&admin, &format!("{ENDPOINT}/second")).await.unwrap();
        assert_eq!(one["rules"].as_array().unwrap().len(), 1);
        let removed = delete(&admin, &format!("{ENDPOINT}/first")).await.unwrap();
        assert_eq!(removed["rules"][0]["hits"], 1);
        get(&world.mcm, CONFIG_MAPS).await.unwrap();
        assert_eq!(refusal(delete(&admin, &format!("{ENDPOINT}/first")).await).0, 404);
        delete(&admin, ENDPOINT).await.unwrap();
        assert!(world.server.faults().list().is_empty());
    });
}

#[test]
fn the_endpoint_works_while_all_other_requests_fail() {
    run_story(Transport::InProcess, async |world: World| {
        let admin = world.client(Identity::admin()).await;
        post(&admin, "{name: all, action: {partition: {how: hang}}}")
            .await
            .unwrap();
        delete(&admin, &format!("{ENDPOINT}/all")).await.unwrap();
        get(&world.mcm, CONFIG_MAPS).await.unwrap();
    });
}

#[test]
fn only_masters_have_access() {
    run_story(Transport::InProcess, async |world: World| {
        let (code, message) = refusal(post(&world.mcm, "{name: a, action: {drop: {}}}").await);
        assert_eq!(code, 403);
        assert!(message.contains("system:masters"), "{message}");
        assert_eq!(refusal(get(&world.mcm, ENDPOINT).await).0, 403);
        assert!(world.server.faults().list().is_empty());
    });
}

#[test]
fn several_rules_are_added_together_or_not_at_all() {
    run_story(Transport::InProcess, async |world: World| {
        let admin = world.client(Identity::admin()).await;
        for (text, said) in [
            (
                "[{name: a, action: {drop: {}}}, {name: b, action: {dorp: {}}}]",
                "fault rule \"b\": action",
            ),
            (
                "[{name: a, action: {drop: {}}}, {name: a, action: {drop: {}}}]",
                "there is a rule of that name",
            ),
            ("# nothing", "there are no rules in it"),
            ("{name: [", "neither YAML nor JSON"),
        ] {
            let (code, message) = refusal(post(&admin, text).await);
            assert_eq!(code, 422, "{text}");
            assert!(message.contains(said), "{message}");
            assert!(world.server.faults().list().is_empty());
        }
        let put = Request::put(ENDPOINT).body(Vec::new()).unwrap();
        assert_eq!(refusal(admin.request(put).await).0, 405);
    });
}
