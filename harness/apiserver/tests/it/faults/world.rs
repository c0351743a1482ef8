//! A server, two clients on either transport, and an observer of faults.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::faults::{self, Status};
use apiserver::observe::{FaultRecord, Observer};
use apiserver::serve::Serving;
use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use futures::{Stream, StreamExt as _};
use http::Request;
use kube::api::WatchEvent;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The connection between clients and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// An in-process service on virtual time.
    InProcess,
    /// HTTPS on the wall clock.
    Https,
}

/// A server and two clients.
pub struct World {
    pub transport: Transport,
    pub clock: Clock,
    pub server: Server,
    /// User `mcm`, whom the rules match.
    pub mcm: Client,
    /// User `other`, whom the rules do not match.
    pub other: Client,
    pub seen: Arc<Seen>,
    pub serving: Option<Serving>,
}

/// All hits that the observer received, as `rule: action: facts`.
#[derive(Debug)]
pub struct Seen {
    lines: Mutex<Vec<String>>,
    count: watch::Sender<usize>,
}

impl Observer for Seen {
    fn fault(&self, record: &FaultRecord<'_>) {
        let FaultRecord {
            rule,
            action,
            class,
            facts,
        } = record;
        let mut lines = self.lines.lock();
        lines.push(format!("{rule}: {action} ({class}): {facts}"));
        self.count.send_replace(lines.len());
    }
}

impl Seen {
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// Returns after that number of hits.
    pub async fn hits(&self, count: usize) {
        self.count.subscribe().wait_for(|seen| *seen >= count).await.unwrap();
    }
}

pub type Events = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<Value>>> + Send>>;

/// Runs a test in a world on that transport.
pub fn run_story<F: Future<Output = ()>>(transport: Transport, story: impl FnOnce(World) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(transport == Transport::InProcess)
        .build()
        .unwrap();
    let limit = match transport {
        Transport::InProcess => Duration::from_secs(24 * 3600),
        Transport::Https => Duration::from_secs(60),
    };
    runtime.block_on(async {
        let outcome = async { story(World::new(transport).await).await };
        tokio::time::timeout(limit, outcome)
            .await
            .expect("the story ends within its time limit");
    });
}

impl World {
    async fn new(transport: Transport) -> Self {
        let seen = Arc::new(Seen {
            lines: Mutex::default(),
            count: watch::Sender::new(0),
        });
        let clock = match transport {
            Transport::InProcess => Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()),
            Transport::Https => Clock::wall(),
        };
        let options = Options {
            observer: Some(Arc::clone(&seen) as Arc<dyn Observer>),
            ..Options::new(clock.clone(), Seed::new(7))
        };
        let server = Server::new(options).unwrap();
        let serving = match transport {
            Transport::InProcess => None,
            Transport::Https => Some(server.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap()),
        };
        let mut world = Self {
            transport,
            clock,
            mcm: Client::new(server.service(Identity::user("mcm")), "default"),
            other: Client::new(server.service(Identity::user("other")), "default"),
            server,
            seen,
            serving,
        };
        world.mcm = world.client(Identity::user("mcm")).await;
        world.other = world.client(Identity::user("other")).await;
        world
    }

    /// A client of that user on the world's transport.
    pub async fn client(&self, identity: Identity) -> Client {
        let Some(serving) = &self.serving else {
            return Client::new(self.server.service(identity), "default");
        };
        let kubeconfig = Kubeconfig::from_yaml(&serving.kubeconfig(&identity).unwrap()).unwrap();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    /// Parses and adds rules.
    pub fn rules(&self, text: &str) {
        self.server.faults().add_all(faults::parse(text).unwrap()).unwrap();
    }

    /// The rule of that name with its counters.
    pub fn rule(&self, name: &str) -> Status {
        let mut all = self.server.faults().list().into_iter();
        all.find(|status| status.rule.name == name).unwrap()
    }

    /// The number of matches and hits of the rule.
    pub fn counts(&self, name: &str) -> (u64, u64) {
        let status = self.rule(name);
        (status.matched, status.hits)
    }

    /// Whether a config map exists, read from the store without faults.
    pub async fn is_there(&self, name: &str) -> bool {
        let admin = Client::new(self.server.service(Identity::user("spectator")), "default");
        get(&admin, &format!("{CONFIG_MAPS}/{name}")).await.is_ok()
    }
}

pub async fn send(client: &Client, method: &str, path: &str, body: &Value) -> kube::Result<Value> {
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let media_type = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type)
        .body(bytes)
        .unwrap();
    client.request(request).await
}

pub async fn get(client: &Client, path: &str) -> kube::Result<Value> {
    send(client, "GET", path, &Value::Null).await
}

/// Creates a config map.
pub async fn create(client: &Client, name: &str) -> kube::Result<Value> {
    let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    send(client, "POST", CONFIG_MAPS, &body).await
}

/// Changes the value of a config map.
pub async fn set(client: &Client, name: &str, value: &str) -> kube::Result<Value> {
    send(
        client,
        "PATCH",
        &format!("{CONFIG_MAPS}/{name}"),
        &json!({ "data": { "key": value } }),
    )
    .await
}

/// The names in a list, without the objects that every namespace has.
pub fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    let names = items.iter().filter_map(|item| item["metadata"]["name"].as_str());
    names.filter(|name| *name != "kube-root-ca.crt").collect()
}

/// Opens a watch of config maps after a revision.
pub async fn watch_from(client: &Client, revision: u64, more: &str) -> Events {
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={revision}{more}");
    let request = Request::get(path).body(Vec::new()).unwrap();
    Box::pin(client.request_events::<Value>(request).await.unwrap())
}

/// The next event, for instance `ADDED a`.
pub async fn event(events: &mut Events) -> String {
    match events.next().await {
        Some(Ok(event)) => brief(&event),
        other => panic!("expected an event, got {other:?}"),
    }
}

pub fn brief(event: &WatchEvent<Value>) -> String {
    let (kind, object) = match event {
        WatchEvent::Added(object) => ("ADDED", object),
        WatchEvent::Modified(object) => ("MODIFIED", object),
        WatchEvent::Deleted(object) => ("DELETED", object),
        WatchEvent::Bookmark(_) => return "BOOKMARK".to_owned(),
        WatchEvent::Error(status) => return format!("ERROR {}", status.code),
    };
    format!("{kind} {}", object["metadata"]["name"].as_str().unwrap())
}

/// Whether a request failed without a response.
pub fn is_disconnected<T: std::fmt::Debug>(result: &kube::Result<T>) -> bool {
    matches!(result, Err(kube::Error::Service(_)))
}

/// The code of an error response.
pub fn code<T: std::fmt::Debug>(result: kube::Result<T>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("expected an error response, got {other:?}"),
    }
}
