//! Concurrent clients that read and write few keys, and clients that list and watch them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::{Seed, Stream};
use futures::{StreamExt as _, TryStreamExt as _};
use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::history::{Event, History, Input, List, Operation, Output, Revision, State, Tick, Watched};

/// The number of keys.
const KEYS: u64 = 4;
/// Of the clients, every fourth one lists and watches.
const WATCHERS: usize = 4;
/// Selects the objects of the run.
const SELECTOR: &str = "labelSelector=run%3Dlinearizable";
/// A request takes at most this long, after which its response counts as lost.
const LIMIT: Duration = Duration::from_secs(5);
/// A client without a response tries again after this time.
const RETRY: Duration = Duration::from_millis(10);

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub seed: u64,

    /// Requests of each client that writes.
    pub requests: u64,
    /// The longest pause between two requests of a client, and the longest time until it gives one up, in microseconds.
    pub pause: u64,
}

struct Run {
    path: String,
    ticks: AtomicU64,
    values: AtomicU64,
    history: Mutex<History>,
}

impl Run {
    fn tick(&self) -> Tick {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }
}

/// Creates a namespace for a run.
pub async fn namespace(client: &Client, seed: u64) -> String {
    let body = json!({ "metadata": { "generateName": format!("linearizable-{seed}-") } });
    let (code, created) = send(client, "POST", "/api/v1/namespaces", &body).await.unwrap();
    assert_eq!(code, 201, "{created}");
    created["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Runs the clients; `reliable` is a client without faults.
pub async fn run(work: Work, namespace: &str, clients: Vec<Client>, reliable: &Client) -> History {
    let run = Arc::new(Run {
        path: format!("/api/v1/namespaces/{namespace}/configmaps"),
        ticks: AtomicU64::default(),
        values: AtomicU64::default(),
        history: Mutex::default(),
    });
    let first = loop {
        if let Some(list) = list(&run, reliable, "").await {
            break list.revision;
        }
    };
    let log = tokio::spawn(observe(Arc::clone(&run), reliable.clone(), first));
    let (mut writers, mut watchers) = (JoinSet::new(), JoinSet::new());
    for (number, client) in clients.into_iter().enumerate() {
        let stream = Seed::new(work.seed).stream(&format!("client/{number}"));
        let run = Arc::clone(&run);
        if number % WATCHERS == 0 {
            watchers.spawn(watch(run, work, client, stream));
        } else {
            writers.spawn(write(run, work, client, stream));
        }
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    watchers.abort_all();
    while watchers.join_next().await.is_some() {}
    // The log ends with this object.
    let end = object(usize::MAX, None);
    let (code, _) = send(reliable, "POST", &run.path, &end).await.unwrap();
    assert_eq!(code, 201);
    let log = log.await.unwrap();
    let mut history = std::mem::take(&mut *run.history.lock());
    history.log = log;
    history
}

async fn write(run: Arc<Run>, work: Work, client: Client, mut stream: Stream) {
    // The revisions that the client saw last.
    let mut known: [Option<Revision>; KEYS as usize] = Default::default();
    for _ in 0..work.requests {
        tokio::time::sleep(Duration::from_micros(stream.below(work.pause))).await;
        let key = usize::try_from(stream.below(KEYS)).unwrap();
        let value = run.values.fetch_add(1, Ordering::SeqCst);
        let at = known[key].filter(|_| stream.chance(0.7));
        let input = match stream.below(10) {
            0..3 => Input::Get,
            3..5 => Input::Create(value),
            5..9 => Input::Update(value, at),
            _ => Input::Delete(at),
        };
        let patience = if stream.chance(0.1) {
            Duration::from_micros(stream.below(work.pause))
        } else {
            LIMIT
        };
        let called = run.tick();
        let answer = tokio::time::timeout(patience, request(&run, &client, key, input)).await;
        let output = answer.unwrap_or(Output::Unknown);
        let returned = run.tick();
        match output {
            Output::Object(_, revision) => known[key] = Some(revision),
            Output::NotFound | Output::Deleted => known[key] = None,
            _ => {}
        }
        run.history.lock().operations.push(Operation {
            key,
            input,
            output,
            called,
            returned,
        });
    }
}

async fn request(run: &Run, client: &Client, key: usize, input: Input) -> Output {
    let path = format!("{}/k-{key}", run.path);
    let answer = match input {
        Input::Get => send(client, "GET", &path, &Value::Null).await,
        Input::Create(value) => {
            let mut body = object(key, None);
            body["data"]["value"] = value.to_string().into();
            send(client, "POST", &run.path, &body).await
        }
        Input::Update(value, at) => {
            let mut body = object(key, at);
            body["data"]["value"] = value.to_string().into();
            // Half of the updates are patches, for which the same rules hold.
            let method = if value.is_multiple_of(2) { "PUT" } else { "PATCH" };
            send(client, method, &path, &body).await
        }
        Input::Delete(at) => {
            let preconditions = at.map(|at| json!({ "resourceVersion": at.to_string() }));
            send(client, "DELETE", &path, &json!({ "preconditions": preconditions })).await
        }
    };
    let Some((code, body)) = answer else {
        return Output::Unknown;
    };
    match (code, input) {
        (200, Input::Delete(_)) => Output::Deleted,
        (200 | 201, _) => {
            let (_, value, revision) = read(&body);
            Output::Object(value.unwrap(), revision)
        }
        (404, _) => Output::NotFound,
        (409, Input::Create(_)) => Output::Exists,
        (409, _) => Output::Conflict,
        // The server, or something before it, is unavailable or overloaded.
        (429 | 500 | 503 | 504, _) => Output::Unknown,
        _ => panic!("{input:?} -> {code} {body}"),
    }
}

/// Lists, and watches until the watch breaks.
async fn watch(run: Arc<Run>, work: Work, client: Client, mut stream: Stream) {
    loop {
        tokio::time::sleep(Duration::from_micros(stream.below(work.pause))).await;
        let query = if stream.chance(0.3) { "&resourceVersion=0" } else { "" };
        let Some(list) = list(&run, &client, query).await else {
            continue;
        };
        let from = list.revision;
        let number = {
            let mut history = run.history.lock();
            history.watches.push(Watched {
                list,
                events: Vec::new(),
            });
            history.watches.len() - 1
        };
        let events = stream.below(60);
        follow(&run, &client, from, |event| {
            let mut history = run.history.lock();
            history.watches[number].events.push(event);
            u64::try_from(history.watches[number].events.len()).unwrap() <= events
        })
        .await;
    }
}

/// All events after a revision, until that of the last object.
async fn observe(run: Arc<Run>, client: Client, first: Revision) -> Vec<Event> {
    let (mut log, mut more) = (Vec::new(), true);
    follow(&run, &client, first, |event| {
        more = event.key != usize::MAX;
        if more {
            log.push(event);
        }
        more
    })
    .await;
    assert!(!more, "the watch of all events ended");
    log
}

/// Passes the events after a revision to `take` until it returns false or the watch ends.
async fn follow(run: &Run, client: &Client, from: Revision, mut take: impl FnMut(Event) -> bool) {
    let path = format!("{}?watch=true&{SELECTOR}&resourceVersion={from}", run.path);
    let Ok(response) = client.send(Request::get(path).body(Body::empty()).unwrap()).await else {
        return;
    };
    let mut frames = response.into_body().into_data_stream();
    let mut rest = Vec::new();
    while let Some(Ok(frame)) = frames.next().await {
        rest.extend_from_slice(&frame);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            let (key, value, revision) = match event["type"].as_str().unwrap() {
                // The watch is too far behind.
                "ERROR" => return,
                _ => read(&event["object"]),
            };
            let value = value.filter(|_| event["type"] != "DELETED");
            if !take(Event { revision, key, value }) {
                return;
            }
        }
    }
}

async fn list(run: &Run, client: &Client, query: &str) -> Option<List> {
    let called = run.tick();
    let path = format!("{}?{SELECTOR}{query}", run.path);
    let answer = tokio::time::timeout(LIMIT, send(client, "GET", &path, &Value::Null))
        .await
        .ok()
        .flatten();
    let Some((200, list)) = answer else {
        tokio::time::sleep(RETRY).await;
        return None;
    };
    let items = list["items"].as_array().unwrap().iter().map(read);
    let state: State = items
        .map(|(key, value, revision)| (key, (value.unwrap(), revision)))
        .collect();
    let (_, _, revision) = read(&list);
    Some(List {
        state,
        revision,
        consistent: query.is_empty(),
        called,
        returned: run.tick(),
    })
}

/// Sends a request. `None`: there is no response.
async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let media_type = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type);
    let body = if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string().into_bytes())
    };
    let response = client.send(request.body(body).unwrap()).await.ok()?;
    let code = response.status().as_u16();
    let bytes: Vec<_> = response.into_body().into_data_stream().try_collect().await.ok()?;
    Some((code, serde_json::from_slice(&bytes.concat()).unwrap_or_default()))
}

fn object(key: usize, at: Option<Revision>) -> Value {
    let mut object = json!({
        "metadata": { "name": format!("k-{key}"), "labels": { "run": "linearizable" } }, "data": {},
    });
    if let Some(at) = at {
        object["metadata"]["resourceVersion"] = at.to_string().into();
    }
    object
}

/// Key, value and revision of an object or list.
fn read(object: &Value) -> (usize, Option<u64>, Revision) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let key = name.trim_start_matches("k-").parse().unwrap_or_default();
    let value = object["data"]["value"].as_str().map(|value| value.parse().unwrap());
    let revision = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    (key, value, revision)
}
