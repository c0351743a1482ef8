//! The embedded API server for this crate's tests: other clients write objects synchronously, the controller's requests
//! are recorded, and fault rules affect them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apiserver::faults::{Action, At, Cut, Match, Pattern, Rule, Verb};
use apiserver::{Identity, Options, Server};
use bytes::Bytes;
use clock::{Clock, Seed};
use futures::FutureExt;
use http::{Method, Request};
use http_body_util::BodyExt;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::Service;

/// The controller's user; fault rules apply only to its requests.
const CONTROLLER: &str = "machine-controller-manager";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// An API server in process, on the virtual time of a test. Clones share it.
#[derive(Clone)]
pub(crate) struct TestServer {
    server: Server,
    recorded: Arc<Mutex<Recorded>>,
}

#[derive(Default)]
struct Recorded {
    requests: Vec<String>,
    agents: BTreeSet<String>,
    before: Option<(String, String, Value)>,
}

impl Default for TestServer {
    /// A server for all kinds of the group.
    fn default() -> Self {
        Self::serving(&["machines", "machineclasses", "machinesets", "machinedeployments"])
    }
}

impl TestServer {
    /// A server for these kinds of the group.
    pub(crate) fn serving(plurals: &[&str]) -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
        let server = Server::new(Options::new(clock, Seed::new(1))).unwrap();
        let server = Self {
            server,
            recorded: Arc::default(),
        };
        let all = mcm_api::crd::all().into_iter();
        for definition in all.filter(|one| plurals.contains(&one.spec.names.plural.as_str())) {
            server.define(&definition);
        }
        server
    }

    /// A server whose definitions accept every value, as those of an old release may. They have no subresource for the
    /// scale, for which an API server checks the replicas.
    pub(crate) fn untyped() -> Self {
        let server = Self::serving(&[]);
        for mut definition in mcm_api::crd::all() {
            for version in &mut definition.spec.versions {
                let schema = json!({ "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } });
                version.schema = Some(serde_json::from_value(schema).unwrap());
                if let Some(subresources) = &mut version.subresources {
                    subresources.scale = None;
                }
            }
            server.define(&definition);
        }
        server
    }

    /// Adds a definition.
    pub(crate) fn define(&self, definition: &CustomResourceDefinition) {
        let mut definition = serde_json::to_value(definition).unwrap();
        // Adds a field of a later version.
        let properties = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        properties["futureField"] = json!({ "type": "string" });
        self.request(Method::POST, DEFINITIONS, &definition).unwrap();
    }

    /// A client with the controller's identity.
    pub(crate) fn client(&self) -> Client {
        let this = self.clone();
        let identity = Identity {
            groups: Identity::admin().groups,
            ..Identity::user(CONTROLLER)
        };
        let service = self.server.service(identity);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (this, mut service) = (this.clone(), service.clone());
            async move {
                // Lets other tasks run, as during a real request.
                tokio::task::yield_now().await;
                this.record(&request);
                service.call(request).await
            }
        });
        Client::new(service, "default")
    }

    fn record(&self, request: &Request<Body>) {
        let (method, path) = (request.method(), request.uri().path());
        let agent = request
            .headers()
            .get("user-agent")
            .and_then(|agent| agent.to_str().ok());
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let before = {
            let mut recorded = self.recorded.lock();
            recorded.agents.insert(agent.unwrap_or("unknown").to_owned());
            let watch = if watch { "WATCH " } else { "" };
            recorded.requests.push(format!("{watch}{method} {path}"));
            recorded
                .before
                .take_if(|(before, ..)| before == path && method != Method::GET)
        };
        if let Some((_, other, object)) = before {
            self.put(&other, object);
        }
    }

    /// Creates or replaces an object and its status, as another client.
    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let (collection, name) = path.rsplit_once('/').unwrap();
        object["metadata"]["name"] = json!(name);
        let copy_identity = |object: &mut Value, current: &Value| {
            for key in ["resourceVersion", "uid"] {
                object["metadata"][key] = current["metadata"][key].clone();
            }
        };
        let mut current = match self.get(path) {
            Some(current) => {
                copy_identity(&mut object, &current);
                self.request(Method::PUT, path, &object).unwrap()
            }
            None => {
                self.ensure_namespace(path);
                let metadata = object["metadata"].as_object_mut().unwrap();
                metadata.remove("resourceVersion");
                self.request(Method::POST, collection, &object).unwrap()
            }
        };
        if let Some(status) = object.get("status")
            && current.get("status") != Some(status)
        {
            current["status"] = status.clone();
            self.request(Method::PUT, &format!("{path}/status"), &current).unwrap();
        }
    }

    fn ensure_namespace(&self, path: &str) {
        let Some((_, rest)) = path.split_once("/namespaces/") else {
            return;
        };
        let name = rest.split('/').next().unwrap();
        if self.get(&format!("/api/v1/namespaces/{name}")).is_none() {
            let namespace = json!({ "metadata": { "name": name } });
            self.request(Method::POST, "/api/v1/namespaces", &namespace).unwrap();
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.request(Method::GET, path, &Value::Null)
    }

    /// Deletes an object; finalizers apply.
    pub(crate) fn delete(&self, path: &str) {
        let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0 });
        self.request(Method::DELETE, path, &options).unwrap();
    }

    /// Deletes an object and its finalizers.
    pub(crate) fn remove(&self, path: &str) {
        let mut object = self.get(path).unwrap();
        if object["metadata"]["finalizers"].is_array() {
            object["metadata"]["finalizers"] = json!([]);
            self.request(Method::PUT, path, &object).unwrap();
        }
        self.delete(path);
    }

    /// The objects of a collection, in the order of their names.
    pub(crate) fn all(&self, collection: &str) -> Vec<Value> {
        let list = self.get(collection.trim_end_matches('/')).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// The controller's requests since the last call: method and path.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.recorded.lock().requests)
    }

    /// Every user agent of the controller's requests.
    pub(crate) fn agents(&self) -> BTreeSet<String> {
        self.recorded.lock().agents.clone()
    }

    /// Breaks or restores the controller's connections.
    pub(crate) fn set_down(&self, down: bool) {
        self.set_rule(
            "down",
            down.then_some((Action::Partition { how: Cut::Refuse }, Match::default())),
        );
    }

    /// Lets all further requests of the controller hang.
    pub(crate) fn set_silent(&self) {
        self.set_rule("silent", Some((Action::Partition { how: Cut::Hang }, Match::default())));
    }

    /// Rejects the controller's writes to an object, or its creations in a collection.
    pub(crate) fn forbid(&self, path: &str) {
        let (matches, is_object) = requests_to(path);
        let verbs = if is_object {
            vec![Verb::Update, Verb::Patch, Verb::Delete]
        } else {
            vec![Verb::Create]
        };
        self.set_rule(
            "forbidden",
            Some((failure(403, path, "Forbidden"), Match { verbs, ..matches })),
        );
    }

    /// Makes the controller's reads of an object fail with this code; `None`: ends the failures.
    pub(crate) fn fail_reads_of(&self, path: &str, code: Option<u16>) {
        let rule = code.map(|code| {
            let verbs = vec![Verb::Get];
            let matches = Match {
                verbs,
                ..requests_to(path).0
            };
            (failure(code, path, "ServiceUnavailable"), matches)
        });
        self.set_rule("unreadable", rule);
    }

    /// Makes the controller's lists of a collection fail.
    pub(crate) fn forbid_lists_of(&self, path: &str) {
        let verbs = vec![Verb::List];
        let matches = Match {
            verbs,
            ..requests_to(path).0
        };
        self.set_rule("unlisted", Some((failure(403, path, "Forbidden"), matches)));
    }

    /// Delays the events of the controller's watches of a collection.
    pub(crate) fn lag_watches_of(&self, path: &str, by: Duration) {
        let verbs = vec![Verb::Watch];
        let matches = Match {
            verbs,
            ..requests_to(path).0
        };
        self.set_rule("late", Some((Action::LagWatch { by }, matches)));
    }

    /// Writes `object` to `other`, as another client, just before the controller's next write to `path`.
    pub(crate) fn before_a_write_to(&self, path: &str, other: &str, object: Value) {
        self.recorded.lock().before = Some((path.to_owned(), other.to_owned(), object));
    }

    fn set_rule(&self, name: &str, rule: Option<(Action, Match)>) {
        self.server.faults().remove(name);
        if let Some((action, matches)) = rule {
            let matches = Match {
                client: Some(Pattern::new(CONTROLLER)),
                ..matches
            };
            let rule = Rule {
                matches,
                ..Rule::new(name, action)
            };
            self.server.faults().add(rule).unwrap();
        }
    }

    /// Why the server refuses an object that another client creates.
    pub(crate) fn refusal(&self, collection: &str, object: &Value) -> String {
        let (status, body) = self.response(&Method::POST, collection, object);
        assert!(status.is_client_error(), "{collection}: {body}");
        body["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Performs a request of another client synchronously; returns `None` if the object is absent.
    fn request(&self, method: Method, path: &str, body: &Value) -> Option<Value> {
        let (status, body) = self.response(&method, path, body);
        if status == http::StatusCode::NOT_FOUND {
            return None;
        }
        assert!(status.is_success(), "{method} {path}: {body}");
        Some(body)
    }

    fn response(&self, method: &Method, path: &str, body: &Value) -> (http::StatusCode, Value) {
        let bytes = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json").body(bytes).unwrap();
        let admin = Identity::admin();
        let response = async {
            let response = self.server.handle(Some(&admin), request).await.unwrap();
            let status = response.status();
            (status, response.into_body().collect().await.unwrap().to_bytes())
        };
        let (status, body) = response.now_or_never().unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }
}

fn failure(code: u16, path: &str, reason: &str) -> Action {
    Action::Fail {
        code,
        at: At::BeforeCommit,
        retry_after: None,
        message: Some(format!("{path}: {reason}")),
    }
}

/// Matches requests to a path; also returns whether it is the path of an object rather than a collection.
fn requests_to(path: &str) -> (Match, bool) {
    let rest = match path.split_once("/namespaces/") {
        Some((_, rest)) => rest.split_once('/').unwrap().1,
        None => path.strip_prefix("/api/v1/").unwrap(),
    };
    let mut parts = rest.split('/');
    let plural = parts.next().unwrap();
    let object = parts.next();
    let resource = parts
        .next()
        .map_or(plural.to_owned(), |subresource| format!("{plural}/{subresource}"));
    let matches = Match {
        resource: Some(Pattern::new(resource)),
        object: object.map(Pattern::new),
        ..Match::default()
    };
    (matches, object.is_some())
}
