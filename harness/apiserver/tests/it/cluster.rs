//! An in-process server and plain requests to it.

use std::sync::Arc;

use apiserver::observe::{Commit, DeliveryRecord, Observer, RequestRecord};
use apiserver::{Identity, Options, Server, http::Body};
use bytes::Bytes;
use clock::{Clock, Seed};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use serde_json::Value;
use tower::ServiceExt as _;

/// A server on virtual time and the records of its observer.
pub struct Cluster {
    pub server: Server,
    pub seen: Arc<Seen>,
    /// The client of the requests.
    pub identity: Identity,
}

/// All records of the observer, as lines.
#[derive(Debug, Default)]
pub struct Seen(Mutex<Vec<String>>);

impl Seen {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl Observer for Seen {
    fn commit(&self, commit: &Commit<'_>) {
        let (change, resource) = (commit.change, commit.resource);
        let line = format!(
            "commit {resource} {} {} {}",
            change.kind.event(),
            change.object.key.name,
            change.revision
        );
        self.0.lock().push(line);
    }

    fn request(&self, record: &RequestRecord<'_>) {
        let RequestRecord {
            client,
            verb,
            path,
            code,
            revision,
            action: _,
        } = record;
        self.0
            .lock()
            .push(format!("request {client} {verb} {path} {code} {revision}"));
    }

    fn delivery(&self, record: &DeliveryRecord<'_>) {
        let DeliveryRecord {
            client,
            resource,
            event,
            name,
            revision,
            ..
        } = record;
        self.0
            .lock()
            .push(format!("delivery {client} {resource} {event} {name} {revision}"));
    }
}

#[derive(Debug)]
pub struct TestResponse {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Cluster {
    /// Must be called within a runtime whose time is paused.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Like [`Cluster::new`], with other options.
    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        let seen = Arc::new(Seen::default());
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let mut options = Options::new(clock, Seed::new(7));
        options.observer = Some(Arc::clone(&seen) as Arc<dyn Observer>);
        options.history = 50;
        change(&mut options);
        Self {
            server: Server::new(options).unwrap(),
            seen,
            identity: Identity::user("tester"),
        }
    }

    pub async fn send(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        self.server
            .service(self.identity.clone())
            .oneshot(request)
            .await
            .unwrap()
    }

    /// Sends a request with a JSON body of that media type.
    pub async fn request_as(&self, method: &str, path: &str, media_type: &str, body: &Value) -> TestResponse {
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type);
        let response = self.send(request.body(Full::from(text)).unwrap()).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into());
        TestResponse {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }

    pub async fn get(&self, path: &str) -> TestResponse {
        self.request_as("GET", path, "", &Value::Null).await
    }

    pub async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.request_as("POST", path, "application/json", &body).await
    }

    pub async fn put(&self, path: &str, body: Value) -> TestResponse {
        self.request_as("PUT", path, "application/json", &body).await
    }

    pub async fn merge(&self, path: &str, body: Value) -> TestResponse {
        self.request_as("PATCH", path, "application/merge-patch+json", &body)
            .await
    }

    pub async fn delete(&self, path: &str, body: Value) -> TestResponse {
        self.request_as("DELETE", path, "application/json", &body).await
    }

    /// Opens a watch.
    pub async fn watch(&self, path: &str) -> Lines {
        let response = self
            .send(Request::builder().uri(path).body(Full::default()).unwrap())
            .await;
        assert_eq!(response.status(), 200);
        Lines {
            body: response.into_body(),
        }
    }
}

/// The lines of a watch.
pub struct Lines {
    body: Body,
}

impl Lines {
    /// The next event; `None` at the end of the watch.
    pub async fn next(&mut self) -> Option<Value> {
        let frame = self.body.frame().await?.unwrap();
        Some(serde_json::from_slice(frame.data_ref().unwrap()).unwrap())
    }

    /// The next event as type, name and revision.
    pub async fn brief(&mut self) -> Option<(String, String, String)> {
        let event = self.next().await?;
        let metadata = &event["object"]["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some((
            text(&event["type"]),
            text(&metadata["name"]),
            text(&metadata["resourceVersion"]),
        ))
    }
}
