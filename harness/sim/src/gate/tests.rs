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

/// A server that counts its requests.
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

/// Whether the request completes; in these tests it does so immediately or never.
fn completes(client: &GateService<Server>, method: &str, uri: &str) -> bool {
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
        assert!(completes(&client, method, uri));
    }
    let cloud = fixture.gate.cloud().layer(fixture.server.clone());
    assert!(completes(&cloud, "POST", "/drydock.driver.v1.Driver/GetMachineStatus"));
    let effects: Vec<_> = fixture
        .gate
        .effect_list()
        .into_iter()
        .map(|effect| (effect.number, effect.description))
        .collect();
    let expected = ["POST /b", "PUT /c", "PATCH /d", "DELETE /e", "GetMachineStatus"];
    assert_eq!(effects, (1..).zip(expected.map(str::to_owned)).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_count_only_gate_stores_no_effects() {
    let fixture = Fixture::new();
    let gate = fixture.gate.clone().count_only();
    let client = fixture.client();
    assert!(completes(&client, "POST", "/a") && completes(&client, "PUT", "/a"));
    assert_eq!((gate.effects(), gate.effect_list()), (2, Vec::new()));
}

#[rstest]
#[case::before(Side::Before, 1)]
#[case::after(Side::After, 2)]
#[tokio::test(start_paused = true)]
async fn a_crash_suppresses_the_request_or_its_response(#[case] side: Side, #[case] requests_served: u64) {
    let fixture = Fixture::new();
    fixture.gate.crash_at(CrashPoint { effect: 2, side });
    let client = fixture.client();
    assert!(completes(&client, "POST", "/a"));
    assert!(fixture.gate.crashed().now_or_never().is_none());
    assert!(!completes(&client, "POST", "/b"));
    assert_eq!(fixture.served(), requests_served);
    assert!(fixture.gate.crashed().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_old_incarnation_stays_cut_off_and_the_count_continues() {
    let fixture = Fixture::new();
    fixture.gate.crash_at(CrashPoint {
        effect: 1,
        side: Side::Before,
    });
    let old = fixture.client();
    assert!(!completes(&old, "POST", "/a"));
    assert!(!completes(&old, "GET", "/a"));

    fixture.gate.begin();
    assert!(!completes(&old, "POST", "/a"));
    assert!(fixture.gate.crashed().now_or_never().is_none());
    assert!(completes(&fixture.client(), "POST", "/a"));
    let effects: Vec<_> = fixture
        .gate
        .effect_list()
        .into_iter()
        .map(|effect| (effect.number, effect.incarnation))
        .collect();
    assert_eq!(effects, [(1, 1), (2, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_in_flight_ends_with_its_incarnation() {
    let fixture = Fixture::new();
    let in_flight = fixture.client().oneshot(request("POST", "/a"));
    fixture.gate.cut();
    assert!(in_flight.now_or_never().is_none());
    assert_eq!(fixture.served(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_wakes_the_task_that_waits_for_it() {
    let fixture = Fixture::new();
    fixture.gate.crash_at(CrashPoint {
        effect: 1,
        side: Side::After,
    });
    let gate = fixture.gate.clone();
    let mut waiter = tokio::spawn(async move { gate.crashed().await });
    tokio::task::yield_now().await;
    assert!((&mut waiter).now_or_never().is_none());
    assert!(!completes(&fixture.client(), "POST", "/a"));
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
    completes(&fixture.client(), "GET", "/api/v1/nodes?limit=500");
    fixture.gate.crash_at(CrashPoint {
        effect: 1,
        side: Side::After,
    });
    completes(&fixture.client(), "PATCH", "/api/v1/nodes/a");
    assert_eq!(
        fixture.texts(),
        [
            "GET /api/v1/nodes?limit=500 200 @41",
            "PATCH /api/v1/nodes/a 200 @41",
            "mcm: crash after effect 1 (PATCH /api/v1/nodes/a)",
        ]
    );
}

/// A server whose responses stream the given frames.
fn streaming(
    frames: Vec<Frame<Bytes>>,
) -> impl Service<
    Request<()>,
    Response = Response<impl http_body::Body<Data = Bytes, Error = Infallible> + Send>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send {
    let frames = Arc::new(Mutex::new(VecDeque::from(frames)));
    tower::service_fn(move |_: Request<()>| {
        let frames = std::mem::take(&mut *frames.lock()).into_iter().map(Ok);
        std::future::ready(Ok(Response::new(StreamBody::new(futures::stream::iter(frames)))))
    })
}

#[tokio::test(start_paused = true)]
async fn watch_events_are_recorded_even_if_frames_split_lines() {
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
async fn a_watch_delivers_nothing_after_its_incarnation() {
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

/// A watch of a server that sends one event per second.
async fn slow_watch(gate: &Gate) -> GateBody<impl http_body::Body<Data = Bytes, Error = Infallible> + Send> {
    let server = tower::service_fn(|_: Request<()>| {
        let frames = futures::stream::unfold(0, |sent| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            (sent < 3).then(|| (Ok(Frame::data(Bytes::from(format!("{sent}\n")))), sent + 1))
        });
        std::future::ready(Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(frames)))))
    });
    let watch = gate.api().layer(server).oneshot(request("GET", "/a?watch=1"));
    watch.await.unwrap().into_body()
}

/// Each received event and the second of its arrival.
async fn arrivals(
    gate: &Gate,
    mut body: impl http_body::Body<Data = Bytes, Error = Infallible> + Unpin,
) -> Vec<String> {
    let mut arrived = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        let second = gate.trace().clock().now().as_second();
        arrived.push(format!("{second}: {}", String::from_utf8_lossy(&data).trim()));
    }
    arrived.push(format!("{}: end", gate.trace().clock().now().as_second()));
    arrived
}

#[rstest]
#[case::forever(None, &["11: 0", "12: 1", "13: 2", "14: end"])]
#[case::for_two_seconds(Some(2), &["11: 0", "11: 1", "11: 2", "11: end"])]
#[tokio::test(start_paused = true)]
async fn watches_that_lag_deliver_late_and_in_order(#[case] lasts: Option<u64>, #[case] expected: &[&str]) {
    let fixture = Fixture::new();
    fixture.gate.lag_at(
        1,
        Lag {
            by: Duration::from_secs(10),
            lasts: lasts.map(Duration::from_secs),
        },
    );
    assert!(completes(&fixture.client(), "POST", "/a"));
    let body = slow_watch(&fixture.gate).await;
    assert_eq!(arrivals(&fixture.gate, body).await, expected);
    assert!(fixture.gate.has_hit(1, DisturbanceKind::Lag));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_paused_process_waits() {
    let fixture = Fixture::new();
    let body = slow_watch(&fixture.gate).await;
    fixture.gate.pause_at(1, Duration::from_secs(20));
    let mut write = Box::pin(fixture.client().oneshot(request("POST", "/a")));
    assert!((&mut write).now_or_never().is_none());
    let (gate, serving) = (fixture.gate.clone(), fixture.gate.serve_pauses::<()>());
    tokio::select! {
        biased;
        () = serving => unreachable!(),
        (arrived, response) = async { tokio::join!(arrivals(&gate, body), write) } => {
            assert!(response.is_ok());
            assert_eq!(arrived, ["21: 0", "22: 1", "23: 2", "24: end"]);
        }
    }
    assert_eq!(fixture.served(), 1);
}

#[rstest]
#[case::shorter(5, 20)]
#[case::longer(30, 40)]
#[tokio::test(start_paused = true)]
async fn overlapping_pauses_end_at_the_latest_of_their_ends(#[case] seconds: u64, #[case] resumed: i64) {
    let fixture = Fixture::new();
    let gate = fixture.gate.clone();
    gate.pause_for(Duration::from_secs(20));
    let second = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        gate.pause_for(Duration::from_secs(seconds));
        gate.resumed().await;
        gate.trace().clock().now().as_second()
    };
    tokio::select! {
        biased;
        () = fixture.gate.serve_pauses::<()>() => unreachable!(),
        at = second => assert_eq!(at, resumed),
    }
}
