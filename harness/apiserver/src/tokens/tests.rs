//! The validity of tokens.

use std::time::Duration;

use clock::{Clock, Seed};
use rstest::rstest;
use serde_json::{Value, json};

use super::ISSUER;
use crate::registry::{DeleteOptions, WriteOptions};
use crate::store::Key;
use crate::{Options, Server};

struct World {
    server: Server,
    clock: Clock,
}

impl World {
    fn new() -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let server = Server::new(Options::new(clock.clone(), Seed::new(7))).unwrap();
        let world = Self { server, clock };
        world.create("serviceaccounts", json!({ "metadata": { "name": "robot" } }));
        world
    }

    fn create(&self, plural: &str, object: Value) {
        let registry = &self.server.inner.registry;
        let catalog = registry.catalog();
        let entry = catalog.any_version("", plural).unwrap();
        registry
            .create(entry, "default", object, &WriteOptions::default())
            .unwrap();
    }

    fn pod(&self) {
        let spec = json!({
            "serviceAccountName": "robot", "nodeName": "n", "containers": [{ "name": "c", "image": "i" }],
        });
        self.create("pods", json!({ "metadata": { "name": "p" }, "spec": spec }));
    }

    fn delete(&self, plural: &str, name: &str) {
        let registry = &self.server.inner.registry;
        let catalog = registry.catalog();
        let entry = catalog.any_version("", plural).unwrap();
        let key = Key::new("default", name);
        registry.delete(entry, &key, &DeleteOptions::default()).unwrap();
    }

    fn token(&self, spec: Value) -> String {
        let key = Key::new("default", "robot");
        let answer = self.server.inner.request_token(&key, json!({ "spec": spec }), false);
        answer.unwrap()["status"]["token"].as_str().unwrap().to_owned()
    }

    fn owner(&self, token: &str) -> Result<String, String> {
        let owner = self.server.inner.owner(token, &[]);
        owner
            .map(|owner| owner.identity.user)
            .map_err(|error| error.to_string())
    }
}

const ROBOT: &str = "system:serviceaccount:default:robot";

#[tokio::test(start_paused = true)]
async fn a_token_is_valid_until_it_expires() {
    let world = World::new();
    let token = world.token(json!({ "expirationSeconds": 600 }));
    world.clock.sleep(Duration::from_secs(599)).await;
    assert_eq!(world.owner(&token).unwrap(), ROBOT);
    world.clock.sleep(Duration::from_secs(1)).await;
    assert!(world.owner(&token).unwrap_err().contains("expired"));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_invalid_after_its_account_is_deleted_and_recreated() {
    let world = World::new();
    let token = world.token(json!({}));
    world.delete("serviceaccounts", "robot");
    assert!(world.owner(&token).is_err());
    world.create("serviceaccounts", json!({ "metadata": { "name": "robot" } }));
    assert!(world.owner(&token).is_err());
    assert_eq!(world.owner(&world.token(json!({}))).unwrap(), ROBOT);
}

#[tokio::test(start_paused = true)]
async fn a_bound_token_outlives_the_deletion_of_its_pod_by_a_minute() {
    let world = World::new();
    world.pod();
    let token = world.token(json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "p" } }));
    world.delete("pods", "p");
    // The pod's grace period is thirty seconds; the kubelet deletes it late.
    world.clock.sleep(Duration::from_secs(90)).await;
    assert_eq!(world.owner(&token).unwrap(), ROBOT);
    world.clock.sleep(Duration::from_secs(1)).await;
    assert!(world.owner(&token).is_err());
}

#[rstest]
#[case::cut(|token: &str| token[..token.len() - 4].to_owned())]
#[case::without_signature(|token: &str| token.rsplit_once('.').unwrap().0.to_owned())]
#[case::other_claims(|token: &str| {
    let parts: Vec<&str> = token.split('.').collect();
    format!("{}.e30.{}", parts[0], parts[2])
})]
#[case::nothing(|_: &str| String::new())]
#[tokio::test(start_paused = true)]
async fn a_modified_token_is_invalid(#[case] change: fn(&str) -> String) {
    let world = World::new();
    let token = world.token(json!({}));
    assert_eq!(world.owner(&change(&token)).unwrap_err(), "invalid bearer token");
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_server_is_invalid() {
    let (one, mut options) = (World::new(), Options::new(Clock::wall(), Seed::new(8)));
    options.clock = one.clock.clone();
    let other = Server::new(options).unwrap();
    assert!(other.inner.owner(&one.token(json!({})), &[]).is_err());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_tokens() {
    let [one, two] = [World::new(), World::new()].map(|world| world.token(json!({})));
    assert_eq!(one, two);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_valid_only_for_its_audiences() {
    let world = World::new();
    let token = world.token(json!({ "audiences": ["a", "b"] }));
    let audiences = ["b", "c"].map(str::to_owned);
    let owner = world.server.inner.owner(&token, &audiences).unwrap();
    assert_eq!(owner.audiences, ["b"]);
    assert!(world.owner(&token).unwrap_err().contains(ISSUER));
}
