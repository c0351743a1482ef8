//! The environment of a case: a control plane, a namespace, and functions to write and to wait.

use std::cell::RefCell;
use std::time::Duration;

use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use controllers::Settings;
use futures::StreamExt;
use http::Request;
use jiff::Timestamp;
use kube::api::{ObjectMeta, WatchEvent};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const VARIABLE: &str = "DRYDOCK_CONTRACT_KUBECONFIG";
/// The timeout for expected changes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Cluster-scoped kinds.
const CLUSTER: &[&str] = &[
    "Namespace",
    "Node",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "VolumeAttachment",
    "PriorityClass",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
];

/// Runs the case beside our controllers, and on a real control plane if the environment variable names one.
pub fn run(name: &str, case: impl AsyncFn(&Site)) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all();
    match std::env::var(VARIABLE) {
        Ok(path) if !path.is_empty() => {
            println!("{name}: on the control plane of {VARIABLE}");
            runtime.build().unwrap().block_on(async {
                let site = Site::new(real(&path).await, Clock::wall(), name).await;
                case(&site).await;
                site.clean_up().await;
            });
        }
        _ => println!("{name}: embedded only; {VARIABLE} names no control plane"),
    }
    println!("{name}: beside our controllers");
    runtime.start_paused(true).build().unwrap().block_on(async {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let mut options = Options::new(clock.clone(), Seed::new(7));
        options.garbage_collector = true;
        options.namespace_controllers = true;
        let server = Server::new(options).unwrap();
        let client = |user| Client::new(server.service(user), "default");
        let beside = controllers::run(
            client(Identity::admin()),
            clock.clone(),
            Seed::new(8),
            Settings::default(),
            CancellationToken::new(),
        );
        let script = async {
            let site = Site::new(client(Identity::admin()), clock.clone(), name).await;
            case(&site).await;
        };
        tokio::select! {
            biased;
            () = script => {}
            () = beside => panic!("the controllers ended"),
        }
    });
}

async fn real(path: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// A control plane as one case sees it. `{ns}` in paths and objects is replaced by the case's namespace.
pub struct Site {
    client: Client,
    clock: Clock,
    case: String,
    namespace: String,
    /// Paths of cluster-scoped objects to delete at the end.
    created_paths: RefCell<Vec<String>>,
}

/// A refused request.
#[derive(Debug)]
pub struct Refusal {
    pub code: u16,
    pub message: String,
}

/// An object of any kind, as in a watch.
#[derive(Clone, Debug, Deserialize)]
struct Anything {
    metadata: ObjectMeta,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

impl Anything {
    fn into_value(self) -> Value {
        let mut value = Value::Object(self.rest);
        value["metadata"] = serde_json::to_value(self.metadata).unwrap();
        value
    }
}

impl Site {
    async fn new(client: Client, clock: Clock, case: &str) -> Self {
        let mut tag = Seed::from_entropy().unwrap().stream("tag");
        let namespace = format!("c-{}", tag.text(8, b"bcdfghjklmnpqrstvwxz"));
        let site = Self {
            client,
            clock,
            case: case.to_owned(),
            namespace,
            created_paths: RefCell::default(),
        };
        site.create(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "{ns}" } }))
            .await;
        site.until("/api/v1/namespaces/{ns}/serviceaccounts/default", "exists", |account| {
            account.is_some()
        })
        .await;
        site
    }

    async fn clean_up(&self) {
        let created_paths: Vec<String> = self.created_paths.borrow().iter().rev().cloned().collect();
        for path in created_paths {
            let _ = self.try_delete(&path, json!({ "gracePeriodSeconds": 0 })).await;
        }
    }

    /// The case's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The controllers' time; the wall clock on a real control plane.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether time is virtual and no other cases share the cluster.
    pub fn is_simulated(&self) -> bool {
        self.clock.is_simulated()
    }

    /// Waits for this duration.
    pub async fn pass(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{ns}", &self.namespace)
    }

    /// The path of an object: `path("apps/v1", "ReplicaSet", "web")`.
    pub fn path(&self, version: &str, kind: &str, name: &str) -> String {
        let root = if version.contains('/') { "apis" } else { "api" };
        let plural = plural(kind);
        if CLUSTER.contains(&kind) {
            format!("/{root}/{version}/{plural}/{name}")
        } else {
            format!("/{root}/{version}/namespaces/{{ns}}/{plural}/{name}")
        }
    }

    /// Sends one request.
    pub async fn send(&self, method: &str, path: &str, media_type: &str, body: Value) -> Result<Value, Refusal> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(self.fill(path))
            .header("content-type", media_type)
            .body(self.fill(&body).into_bytes())
            .unwrap();
        let answer = tokio::time::timeout(PATIENCE, self.client.request::<Value>(request));
        match answer.await.expect("an answer in time") {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(Refusal {
                code: status.code,
                message: status.message.clone(),
            }),
            Err(error) => panic!("{}: {method} {path}: {error}", self.case),
        }
    }

    async fn must(&self, method: &str, path: &str, media_type: &str, body: Value) -> Value {
        match self.send(method, path, media_type, body.clone()).await {
            Ok(answer) => answer,
            Err(refusal) => panic!("{}: {method} {path} {body}: {refusal:?}", self.case),
        }
    }

    /// Creates an object, by default in the case's namespace, including its status.
    pub async fn create(&self, object: Value) -> Value {
        match self.try_create(object.clone()).await {
            Ok(created) => created,
            Err(refusal) => panic!("{}: create {object}: {refusal:?}", self.case),
        }
    }

    /// The same, but returns a refusal.
    pub async fn try_create(&self, object: Value) -> Result<Value, Refusal> {
        let kind = object["kind"].as_str().unwrap();
        let mut path = self.path(object["apiVersion"].as_str().unwrap(), kind, "");
        if let Some(namespace) = object["metadata"]["namespace"].as_str() {
            path = path.replace("{ns}", namespace);
        }
        path.pop();
        let created = self.send("POST", &path, "application/json", object.clone()).await?;
        let path = format!("{path}/{}", created["metadata"]["name"].as_str().unwrap());
        if CLUSTER.contains(&kind) {
            self.created_paths.borrow_mut().push(path.clone());
        }
        match object.get("status") {
            Some(status) if !["Namespace", "CustomResourceDefinition"].contains(&kind) => {
                Ok(self.set_status(&path, status.clone()).await)
            }
            _ => Ok(created),
        }
    }

    /// Merges a patch into an object's status.
    pub async fn set_status(&self, path: &str, status: Value) -> Value {
        self.merge(&format!("{path}/status"), json!({ "status": status })).await
    }

    /// A merge patch.
    pub async fn merge(&self, path: &str, patch: Value) -> Value {
        self.must("PATCH", path, "application/merge-patch+json", patch).await
    }

    /// An object that must exist.
    pub async fn get(&self, path: &str) -> Value {
        self.must("GET", path, "application/json", Value::Null).await
    }

    /// An object, if it exists.
    pub async fn find(&self, path: &str) -> Option<Value> {
        self.send("GET", path, "application/json", Value::Null).await.ok()
    }

    /// The items of a list; `path` may contain selectors.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await;
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Posts to a subresource.
    pub async fn post(&self, path: &str, body: Value) -> Result<Value, Refusal> {
        self.send("POST", path, "application/json", body).await
    }

    /// Deletes an object with these options.
    pub async fn delete(&self, path: &str, options: Value) -> Value {
        self.must("DELETE", path, "application/json", options).await
    }

    /// The same, but returns a refusal.
    pub async fn try_delete(&self, path: &str, options: Value) -> Result<Value, Refusal> {
        self.send("DELETE", path, "application/json", options).await
    }

    /// Waits until the object at `path` (`None`: it does not exist) is as `wanted`, and returns it.
    ///
    /// # Panics
    /// After a minute, with the object's last state.
    pub async fn until(&self, path: &str, what: &str, wanted: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        match self.follow(path, PATIENCE, &wanted).await {
            Ok(object) => object,
            Err(last) => {
                let last = last.map_or("nothing".to_owned(), |last| format!("{last:#}"));
                panic!("{}: {path} never: {what}; last seen: {last}", self.case)
            }
        }
    }

    /// Waits until the object exists and is as `wanted`.
    pub async fn until_it(&self, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(path, what, |object| object.is_some_and(&wanted))
            .await
            .unwrap()
    }

    /// The same for changes that a real control plane notices only when it processes the object for another
    /// reason: there the object is annotated every two seconds. Our controllers must notice without that.
    pub async fn until_noticed(&self, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let seen = self.until_it(path, what, wanted);
        if self.is_simulated() {
            return seen.await;
        }
        let annotations = async {
            for nudge in 0.. {
                self.pass(Duration::from_secs(2)).await;
                self.merge(
                    path,
                    json!({ "metadata": { "annotations": { "example.com/nudge": nudge.to_string() } } }),
                )
                .await;
            }
        };
        tokio::select! {
            biased;
            seen = seen => seen,
            () = annotations => panic!("{}: {path} never: {what}", self.case),
        }
    }

    /// Waits until the object is gone.
    pub async fn until_gone(&self, path: &str) {
        self.until(path, "gone", |object| object.is_none()).await;
    }

    /// Asserts that the object at `path` is never as `unwanted` during this time.
    pub async fn never(&self, path: &str, during: Duration, what: &str, unwanted: impl Fn(Option<&Value>) -> bool) {
        if let Ok(object) = self.follow(path, during, &unwanted).await {
            panic!("{}: {path}: {what}: {object:?}", self.case);
        }
    }

    /// Watches one object; returns its last state at the deadline.
    async fn follow(
        &self,
        path: &str,
        limit: Duration,
        wanted: &impl Fn(Option<&Value>) -> bool,
    ) -> Result<Option<Value>, Option<Value>> {
        let (collection, name) = path.rsplit_once('/').unwrap();
        let name = self.fill(name);
        let selector = format!("{collection}?fieldSelector=metadata.name%3D{name}");
        let pick = move |items: &[Value]| {
            items
                .iter()
                .find(|item| item["metadata"]["name"] == name.as_str())
                .cloned()
        };
        let seen = self
            .follow_all(&selector, limit, &|items: &[Value]| wanted(pick(items).as_ref()))
            .await;
        seen.map(|items| pick(&items)).map_err(|items| pick(&items))
    }

    /// Waits until the objects of a collection (`path` may contain a label selector) are as `wanted`.
    ///
    /// # Panics
    /// After a minute, with the objects' last states.
    pub async fn until_all(&self, path: &str, what: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        match self.follow_all(path, PATIENCE, &wanted).await {
            Ok(items) => items,
            Err(last) => panic!("{}: {path} never: {what}; last seen: {last:#?}", self.case),
        }
    }

    /// Asserts that the objects of a collection are never as `unwanted` during this time.
    pub async fn never_all(&self, path: &str, during: Duration, what: &str, unwanted: impl Fn(&[Value]) -> bool) {
        if let Ok(items) = self.follow_all(path, during, &unwanted).await {
            panic!("{}: {path}: {what}: {items:#?}", self.case);
        }
    }

    async fn follow_all(
        &self,
        path: &str,
        limit: Duration,
        wanted: &impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>, Vec<Value>> {
        let list = self.get(path).await;
        let mut items = list["items"].as_array().cloned().unwrap_or_default();
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let (separator, path) = (if path.contains('?') { '&' } else { '?' }, self.fill(path));
        let uri = format!("{path}{separator}watch=true&resourceVersion={revision}");
        let request = Request::get(uri).body(Vec::new()).unwrap();
        let events = self.client.request_events::<Anything>(request).await.unwrap();
        let mut events = Box::pin(events);
        let follow = async {
            while !wanted(&items) {
                let event = events.next().await.expect("the watch goes on").unwrap();
                let (object, gone) = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object.into_value(), false),
                    WatchEvent::Deleted(object) => (object.into_value(), true),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(status) => panic!("{}: {path}: {status:?}", self.case),
                };
                let same = |item: &Value| {
                    ["name", "namespace"]
                        .iter()
                        .all(|field| item["metadata"][field] == object["metadata"][field])
                };
                let place = items.iter().position(same);
                match (place, gone) {
                    (Some(place), true) => drop(items.remove(place)),
                    (Some(place), false) => items[place] = object,
                    (None, true) => {}
                    (None, false) => items.push(object),
                }
            }
        };
        match tokio::time::timeout(limit, follow).await {
            Ok(()) => Ok(items),
            Err(_) => Err(items),
        }
    }

    /// Waits for an event about an object with this name.
    pub async fn until_event(&self, name: &str, reason: &str) -> Value {
        let name = self.fill(name);
        // Names repeat between cases; names of cluster-scoped objects contain the namespace.
        let is_it = |event: &Value| {
            let about = &event["involvedObject"];
            let here = about["namespace"].is_null() || about["namespace"] == self.namespace.as_str();
            here && about["name"] == name.as_str() && event["reason"] == reason
        };
        let events = self
            .until_all("/api/v1/events", &format!("event {reason} about {name}"), |events| {
                events.iter().any(is_it)
            })
            .await;
        events.into_iter().find(is_it).unwrap()
    }
}

/// The plural of a kind, as in the API.
fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    if lower.ends_with("ss") {
        format!("{lower}es")
    } else if let Some(stem) = lower.strip_suffix('y') {
        format!("{stem}ies")
    } else {
        format!("{lower}s")
    }
}
