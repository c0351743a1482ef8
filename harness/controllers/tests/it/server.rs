//! A minimal API server for these tests: lists, watches and versioned patches of a few objects. No validation,
//! no deletion, no history: a watch returns only later events.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{FutureExt, StreamExt};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::Service;

#[derive(Clone, Default)]
pub struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    revision: u64,
    /// Objects by path, for example `/api/v1/nodes/a`.
    objects: BTreeMap<String, Value>,
    watchers: Vec<(String, UnboundedSender<Bytes>)>,
    requests: Vec<String>,
    refusals: u32,
}

impl Server {
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Creates or replaces an object.
    pub fn put(&self, path: &str, object: Value) {
        self.0.lock().store(path, object);
    }

    pub fn get(&self, path: &str) -> Value {
        self.0.lock().objects.get(path).cloned().unwrap_or_default()
    }

    /// All requests so far, as `VERB path`, without watches and lists.
    pub fn writes(&self) -> Vec<String> {
        let state = self.0.lock();
        state
            .requests
            .iter()
            .filter(|request| !request.starts_with("GET"))
            .cloned()
            .collect()
    }

    /// Refuses the next patches with a conflict.
    pub fn refuse_patches(&self, count: u32) {
        self.0.lock().refusals = count;
    }
}

impl State {
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let kind = if self.objects.contains_key(path) {
            "MODIFIED"
        } else {
            "ADDED"
        };
        let event = Bytes::from(format!("{}\n", json!({ "type": kind, "object": object })));
        self.watchers.retain(|(prefix, watcher)| {
            !path.starts_with(prefix.as_str()) || watcher.unbounded_send(event.clone()).is_ok()
        });
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn list(&self, path: &str, query: &str) -> Value {
        let node = query
            .split_once("spec.nodeName%3D")
            .map(|(_, rest)| rest.split('&').next().unwrap_or(rest));
        let items: Vec<_> = self
            .objects
            .iter()
            .filter(|(object, _)| object.contains(path) || (path.ends_with("/pods") && object.contains("/pods/")))
            .map(|(_, object)| object)
            .filter(|object| node.is_none_or(|node| object["spec"]["nodeName"] == node))
            .collect();
        json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": self.revision.to_string() }, "items": items })
    }

    fn patch(&mut self, path: &str, patch: &Value) -> (u16, Value) {
        let path = path.trim_end_matches("/status");
        let Some(mut object) = self.objects.get(path).cloned() else {
            return (404, status(404, "NotFound"));
        };
        let stale = patch["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"];
        if stale || self.refusals > 0 {
            self.refusals = self.refusals.saturating_sub(1);
            return (409, status(409, "Conflict"));
        }
        if let Some(taints) = patch.pointer("/spec/taints") {
            object["spec"]["taints"] = taints.clone();
        }
        for condition in patch
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            merge_condition(&mut object, condition);
        }
        (200, self.store(path, object))
    }
}

fn merge_condition(object: &mut Value, condition: &Value) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let conditions = object["status"]["conditions"].as_array_mut().unwrap();
    match conditions
        .iter_mut()
        .find(|present| present["type"] == condition["type"])
    {
        Some(present) => present
            .as_object_mut()
            .unwrap()
            .extend(condition.as_object().unwrap().clone()),
        None => conditions.push(condition.clone()),
    }
}

fn status(code: u16, reason: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason })
}

impl Service<Request<Body>> for Server {
    type Response = Response<BoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        async move {
            let (head, body) = request.into_parts();
            let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
            let body = body.collect_bytes().await.unwrap();
            let mut state = server.0.lock();
            state.requests.push(format!("{} {path}", head.method));
            if query.contains("watch=true") {
                let (sender, receiver) = unbounded();
                state.watchers.push((path.to_owned(), sender));
                let frames = receiver.map(|line| Ok(Frame::data(line)));
                return Ok(Response::new(BoxBody::new(StreamBody::new(frames))));
            }
            let (code, answer) = match head.method {
                Method::GET => (200, state.list(path, query)),
                _ => state.patch(path, &serde_json::from_slice(&body).unwrap()),
            };
            let body = BoxBody::new(Full::from(answer.to_string()));
            Ok(Response::builder().status(code).body(body).unwrap())
        }
        .boxed()
    }
}
