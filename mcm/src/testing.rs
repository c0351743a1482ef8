//! A small API server for tests: enough of GET, LIST, WATCH, POST, PUT, PATCH and DELETE over JSON to
//! answer this crate's requests in process. It records what was asked, and fails when told to.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

type AnswerBody = UnsyncBoxBody<Bytes, Infallible>;

/// Objects by path, such as `/api/v1/namespaces/default/events/x`.
#[derive(Clone, Default)]
pub(crate) struct FakeServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    revision: u64,
    requests: Vec<String>,
    agents: BTreeSet<String>,
    down: bool,
    silent: bool,
    forbidden: Option<String>,
    unreadable: Option<(String, u16)>,
    before: Option<(String, String, Value)>,
    watchers: Vec<(String, UnboundedSender<Bytes>)>,
}

impl FakeServer {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        Client::new(service, "default")
    }

    /// Stores an object as another client would.
    pub(crate) fn put(&self, path: &str, object: Value) {
        let mut state = self.lock();
        let code = if state.objects.contains_key(path) { 200 } else { 201 };
        state.store(path.to_owned(), object, code);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.lock().objects.get(path).cloned()
    }

    pub(crate) fn remove(&self, path: &str) {
        self.lock().remove(path);
    }

    /// Objects whose path starts like this, in the order of their paths.
    pub(crate) fn all(&self, prefix: &str) -> Vec<Value> {
        self.lock().under(prefix)
    }

    /// The requests since the last call: method and path.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().requests)
    }

    /// Everybody who asked anything.
    pub(crate) fn agents(&self) -> BTreeSet<String> {
        self.lock().agents.clone()
    }

    /// While down, every request fails without an answer.
    pub(crate) fn set_down(&self, down: bool) {
        self.lock().down = down;
    }

    /// While silent, no request is answered.
    pub(crate) fn set_silent(&self, silent: bool) {
        self.lock().silent = silent;
    }

    /// Writes to that path are refused from now on.
    pub(crate) fn forbid(&self, path: &str) {
        self.lock().forbidden = Some(path.to_owned());
    }

    /// Just before the next write to `path` another client stores `object` as `other`.
    pub(crate) fn before_a_write_to(&self, path: &str, other: &str, object: Value) {
        self.lock().before = Some((path.to_owned(), other.to_owned(), object));
    }

    /// Reads of that path fail with that code from now on; `None`: they work again.
    pub(crate) fn fail_reads_of(&self, path: &str, code: Option<u16>) {
        self.lock().unreadable = code.map(|code| (path.to_owned(), code));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<AnswerBody>, tower::BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        // An answer takes a moment, in which others get on.
        tokio::task::yield_now().await;
        if self.lock().silent {
            std::future::pending::<()>().await;
        }
        let body: Value = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body)?
        };
        let mut state = self.lock();
        let agent = parts.headers.get("user-agent").and_then(|agent| agent.to_str().ok());
        state.agents.insert(agent.unwrap_or("nobody").to_owned());
        let path = parts.uri.path();
        let watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        state
            .requests
            .push(format!("{}{} {path}", if watch { "WATCH " } else { "" }, parts.method));
        if state.down {
            return Err("connection refused".into());
        }
        if watch {
            let (sender, receiver) = unbounded();
            state.watchers.push((format!("{path}/"), sender));
            return Ok(Response::new(stream(receiver)));
        }
        if parts.method != Method::GET
            && let Some((_, other, object)) = state.before.take_if(|(before, ..)| before == path)
        {
            state.store(other, object, 200);
        }
        let refused = parts.method != Method::GET && state.forbidden.as_deref() == Some(path);
        let unreadable = state.unreadable.clone().filter(|(unreadable, _)| unreadable == path);
        let (code, answer) = if let Some((_, code)) = unreadable {
            failure(code, "ServiceUnavailable", path)
        } else if refused {
            failure(403, "Forbidden", path)
        } else {
            state.perform(&parts.method, path, body)
        };
        let body = Full::new(Bytes::from(answer.to_string())).boxed_unsync();
        Ok(Response::builder().status(code).body(body)?)
    }
}

fn stream(receiver: UnboundedReceiver<Bytes>) -> AnswerBody {
    StreamBody::new(receiver.map(|line| Ok(Frame::data(line)))).boxed_unsync()
}

impl State {
    fn perform(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let target = path.trim_end_matches("/status");
        match *method {
            Method::GET if is_collection(path) => self.list(path),
            Method::GET => self
                .objects
                .get(path)
                .map_or_else(|| not_found(path), |object| (200, object.clone())),
            Method::POST if path.ends_with("/eviction") => {
                let pod = path.trim_end_matches("/eviction");
                let meant = &body["deleteOptions"]["preconditions"]["uid"];
                let there = self.objects.get(pod).map(|pod| pod["metadata"]["uid"].clone());
                if there.is_some_and(|there| there != *meant) {
                    return failure(409, "Conflict", pod);
                }
                self.remove(pod)
                    .map_or_else(|| not_found(pod), |_| (201, json!({"kind": "Status"})))
            }
            Method::POST => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&path) {
                    return failure(409, "AlreadyExists", &path);
                }
                self.store(path, body, 201)
            }
            Method::PUT => self.write(target, |_| body.clone(), &body),
            Method::PATCH => self.write(target, |old| merged(old.clone(), &body), &body),
            Method::DELETE => self.delete(path, &body["preconditions"]),
            _ => failure(405, "MethodNotAllowed", path),
        }
    }

    fn under(&self, prefix: &str) -> Vec<Value> {
        self.objects
            .iter()
            .filter(|(path, _)| path.starts_with(prefix))
            .map(|(_, value)| value.clone())
            .collect()
    }

    fn list(&self, path: &str) -> (u16, Value) {
        let metadata = json!({ "resourceVersion": self.revision.to_string() });
        let plural = path.rsplit('/').next().unwrap_or_default();
        // Objects of one kind in all namespaces.
        let everywhere = |found: &str| found.rsplit('/').nth(1) == Some(plural) && found.contains("/namespaces/");
        let items = self
            .objects
            .iter()
            .filter(|(found, _)| found.starts_with(&format!("{path}/")) || everywhere(found));
        (
            200,
            json!({ "metadata": metadata, "items": items.map(|(_, value)| value.clone()).collect::<Vec<_>>() }),
        )
    }

    fn write(&mut self, path: &str, change: impl Fn(&Value) -> Value, body: &Value) -> (u16, Value) {
        let Some(old) = self.objects.get(path) else {
            return not_found(path);
        };
        let wanted = &body["metadata"]["resourceVersion"];
        if !wanted.is_null() && *wanted != old["metadata"]["resourceVersion"] {
            return failure(409, "Conflict", path);
        }
        let new = change(old);
        let meta = &new["metadata"];
        let finalizers = meta["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if !meta["deletionTimestamp"].is_null() && !finalizers {
            self.remove(path);
            return (200, new);
        }
        self.store(path.to_owned(), new, 200)
    }

    fn delete(&mut self, path: &str, preconditions: &Value) -> (u16, Value) {
        let Some(object) = self.objects.get(path).cloned() else {
            return not_found(path);
        };
        let is_met = |key: &str| preconditions[key].is_null() || preconditions[key] == object["metadata"][key];
        if !["uid", "resourceVersion"].into_iter().all(is_met) {
            return failure(409, "Conflict", path);
        }
        if object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
        {
            let deleting = merged(
                object,
                &json!({"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}),
            );
            return self.store(path.to_owned(), deleting, 200);
        }
        self.remove(path);
        (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
    }

    fn store(&mut self, path: String, mut object: Value, code: u16) -> (u16, Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.tell(if code == 201 { "ADDED" } else { "MODIFIED" }, &path, &object);
        self.objects.insert(path, object.clone());
        (code, object)
    }

    fn remove(&mut self, path: &str) -> Option<Value> {
        let mut object = self.objects.remove(path)?;
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.tell("DELETED", path, &object);
        Some(object)
    }

    fn tell(&mut self, type_: &str, path: &str, object: &Value) {
        let line = format!("{}\n", json!({ "type": type_, "object": object }));
        self.watchers.retain(|(_, watcher)| !watcher.is_closed());
        for (prefix, watcher) in &self.watchers {
            let plural = prefix.trim_end_matches('/').rsplit('/').next();
            let everywhere = path.contains("/namespaces/") && path.rsplit('/').nth(1) == plural;
            if path.starts_with(prefix.as_str()) || everywhere {
                watcher.unbounded_send(Bytes::from(line.clone())).unwrap();
            }
        }
    }
}

/// Whether the path names a kind rather than an object.
fn is_collection(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    [
        "machines",
        "machineclasses",
        "machinesets",
        "machinedeployments",
        "secrets",
        "nodes",
        "pods",
        "volumeattachments",
        "persistentvolumeclaims",
        "persistentvolumes",
        "poddisruptionbudgets",
        "events",
    ]
    .contains(&last)
}

fn merged(mut target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    if !target.is_object() {
        target = json!({});
    }
    let object = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            let old = object.remove(key).unwrap_or(Value::Null);
            object.insert(key.clone(), merged(old, value));
        }
    }
    target
}

fn not_found(path: &str) -> (u16, Value) {
    failure(404, "NotFound", path)
}

fn failure(code: u16, reason: &str, path: &str) -> (u16, Value) {
    let message = format!("{path}: {reason}");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    (code, status)
}
