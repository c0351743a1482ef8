use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use clock::Clock;
use futures::FutureExt;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use rstest::rstest;
use tower::{Layer, Service, ServiceExt};

use super::*;
use crate::Keep;

/// A server that counts what reaches it.
#[derive(Clone, Default)]
struct Server(Arc<AtomicU64>);

impl Service<Request<()>> for Server {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let served = Arc::clone(&self.0);
        Box::pin(async move {
            served.fetch_add(1, Ordering::Relaxed);
            Ok(Response::new(Full::default()))
        })
    }
}

struct Fixture {
    gate: Gate,
    server: Server,
}

impl Fixture {
    fn new() -> Self {
        let trace = Trace::new(Clock::simulated(jiff::Timestamp::UNIX_EPOCH), Keep::All);
        Self {
            gate: Gate::new("mcm", trace),
            server: Server::default(),
        }
    }

    fn client(&self) -> GateService<Server> {
        self.gate.api().layer(self.server.clone())
    }

    fn served(&self) -> u64 {
        self.server.0.load(Ordering::Relaxed)
    }

    fn texts(&self) -> Vec<String> {
        self.gate
            .trace()
            .entries()
            .into_iter()
            .map(|entry| entry.text)
            .collect()
    }
}

fn request(method: &str, uri: &str) -> Request<()> {
    Request::builder().method(method).uri(uri).body(()).unwrap()
}

/// Whether the request is answered; in these tests an answer comes at once or never.
fn answered(client: &GateService<Server>, method: &str, uri: &str) -> bool {
    client.clone().oneshot(request(method, uri)).now_or_never().is_some()
}

#[tokio::test(start_paused = true)]
async fn writes_are_numbered_and_reads_are_not() {
    let fixture = Fixture::new();
    let client = fixture.client();
    for (method, uri) in [
        ("GET", "/a"),
        ("POST", "/b?x=1"),
        ("PUT", "/c"),
        ("PATCH", "/d"),
        ("DELETE", "/e"),
    ] {
        assert!(answered(&client, method, uri));
    }
    let cloud = fixture.gate.cloud().layer(fixture.server.clone());
    assert!(answered(&cloud, "POST", "/drydock.driver.v1.Driver/GetMachineStatus"));
    let effects: Vec<_> = fixture
        .gate
        .effect_list()
        .into_iter()
        .map(|effect| (effect.number, effect.description))
        .collect();
    let expected = ["POST /b", "PUT /c", "PATCH /d", "DELETE /e", "GetMachineStatus"];
    assert_eq!(effects, (1..).zip(expected.map(str::to_owned)).collect::<Vec<_>>());
}

#[rstest]
#[case::before(Side::Before, 1)]
#[case::after(Side::After, 2)]
#[tokio::test(start_paused = true)]
async fn a_crash_swallows_the_request_or_its_answer(#[case] side: Side, #[case] reached_the_server: u64) {
    let fixture = Fixture::new();
    fixture.gate.crash_at(CrashPoint { effect: 2, side });
    let client = fixture.client();
    assert!(answered(&client, "POST", "/a"));
    assert!(fixture.gate.crashed().now_or_never().is_none());
    assert!(!answered(&client, "POST", "/b"));
    assert_eq!(fixture.served(), reached_the_server);
    assert!(fixture.gate.crashed().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_old_incarnation_stays_cut_off_and_counting_goes_on() {
    let fixture = Fixture::new();
    fixture.gate.crash_at(CrashPoint {
        effect: 1,
        side: Side::Before,
    });
    let old = fixture.client();
    assert!(!answered(&old, "POST", "/a"));
    assert!(!answered(&old, "GET", "/a"));

    fixture.gate.begin();
    assert!(!answered(&old, "POST", "/a"));
    assert!(fixture.gate.crashed().now_or_never().is_none());
    assert!(answered(&fixture.client(), "POST", "/a"));
    let effects: Vec<_> = fixture
        .gate
        .effect_list()
        .into_iter()
        .map(|effect| (effect.number, effect.incarnation))
        .collect();
    assert_eq!(effects, [(1, 1), (2, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_in_flight_dies_with_its_incarnation() {
    let fixture = Fixture::new();
    let in_flight = fixture.client().oneshot(request("POST", "/a"));
    fixture.gate.cut();
    assert!(in_flight.now_or_never().is_none());
    assert_eq!(fixture.served(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_waiter_for_a_crash_is_woken_by_it() {
    let fixture = Fixture::new();
    fixture.gate.crash_at(CrashPoint {
        effect: 1,
        side: Side::After,
    });
    let gate = fixture.gate.clone();
    let mut waiter = tokio::spawn(async move { gate.crashed().await });
    tokio::task::yield_now().await;
    assert!((&mut waiter).now_or_never().is_none());
    assert!(!answered(&fixture.client(), "POST", "/a"));
    waiter.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_are_recorded_with_code_and_revision() {
    let trace = Trace::new(Clock::simulated(jiff::Timestamp::UNIX_EPOCH), Keep::All);
    let gate = Gate::with_revision("mcm", trace, || Some(41));
    let fixture = Fixture {
        gate,
        server: Server::default(),
    };
    answered(&fixture.client(), "GET", "/api/v1/nodes?limit=500");
    fixture.gate.crash_at(CrashPoint {
        effect: 1,
        side: Side::After,
    });
    answered(&fixture.client(), "PATCH", "/api/v1/nodes/a");
    assert_eq!(
        fixture.texts(),
        [
            "GET /api/v1/nodes?limit=500 200 @41",
            "PATCH /api/v1/nodes/a 200 @41",
            "mcm: crash after effect 1 (PATCH /api/v1/nodes/a)",
        ]
    );
}

/// A server whose answers stream the frames given.
fn streaming(
    frames: Vec<Frame<Bytes>>,
) -> impl Service<
    Request<()>,
    Response = Response<impl http_body::Body<Data = Bytes, Error = Infallible> + Send>,
    Error = Infallible,
    Future: Send,
> {
    let mut frames = Some(VecDeque::from(frames));
    tower::service_fn(move |_: Request<()>| {
        let frames = frames.take().unwrap_or_default().into_iter().map(Ok);
        std::future::ready(Ok(Response::new(StreamBody::new(futures::stream::iter(frames)))))
    })
}

#[tokio::test(start_paused = true)]
async fn watch_events_are_recorded_also_when_frames_cut_lines() {
    let fixture = Fixture::new();
    let lines = concat!(
        r#"{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"a","resourceVersion":"5"}}}"#,
        "\n",
        r#"{"type":"MODIFIED","object":{"kind":"Lease","metadata":{"namespace":"n","name":"b","resourceVersion":"6"}}}"#,
        "\n",
    );
    let (first, second) = lines.split_at(100);
    let server = streaming(vec![Frame::data(first.into()), Frame::data(second.into())]);
    let response = fixture
        .gate
        .api()
        .layer(server)
        .oneshot(request("GET", "/api/v1/nodes?watch=true"))
        .await
        .unwrap();
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        lines.as_bytes()
    );
    assert_eq!(
        fixture.texts(),
        [
            "WATCH /api/v1/nodes?watch=true 200",
            "watch ADDED Node a @5",
            "watch MODIFIED Lease n/b @6"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_falls_silent_with_its_incarnation() {
    let fixture = Fixture::new();
    let server = streaming(vec![Frame::data("{}\n".into())]);
    let response = fixture
        .gate
        .api()
        .layer(server)
        .oneshot(request("GET", "/api/v1/nodes?watch=1"))
        .await
        .unwrap();
    fixture.gate.cut();
    assert!(response.into_body().collect().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cloud_call_is_recorded_with_the_status_in_its_trailers() {
    let fixture = Fixture::new();
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), "8".parse().unwrap())]);
    let server = streaming(vec![Frame::data("..".into()), Frame::trailers(trailers)]);
    let response = fixture
        .gate
        .cloud()
        .layer(server)
        .oneshot(request("POST", "/p.Driver/CreateMachine"))
        .await
        .unwrap();
    response.into_body().collect().await.unwrap();
    assert_eq!(fixture.texts(), ["cloud CreateMachine 8"]);
}
