use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use scenario::cloud::{CloudEvent, Vm, VmState};
use scenario::observation::Seen;
use scenario::{StageKind, Step, kinds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::*;
use crate::{LiveWorld, PerformError, Settings};

#[test]
fn values_of_queries_are_decoded() {
    assert_eq!(
        value("a=1&id=Machine%2Fm", "id").map(decoded).as_deref(),
        Some("Machine/m")
    );
    assert_eq!(value("a=1", "id"), None);
    assert_eq!(decoded("100%&%zz%4"), "100%&%zz%4");
}

/// A cloud whose steps take until they are released.
#[derive(Debug)]
struct SlowCloud {
    begun: Semaphore,
    released: Semaphore,
    done: AtomicUsize,
}

#[derive(Debug)]
struct Steps(Arc<SlowCloud>);

impl Executor for Steps {
    fn perform(&self, _: Step, _: Option<String>) -> BoxFuture<'static, Result<(), PerformError>> {
        let cloud = Arc::clone(&self.0);
        async move {
            cloud.begun.add_permits(1);
            let released = cloud.released.acquire().await;
            released
                .map_err(|error| PerformError::Refused(error.to_string()))?
                .forget();
            cloud.done.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
        .boxed()
    }
}

/// A world with the machine `m-1` and its VM.
fn world(now: jiff::Timestamp) -> Shared {
    let settings = Settings::new(StageKind::Embedded, 1, "0", "drydock up");
    let mut world = LiveWorld::new(now, settings);
    let machine = json!({ "metadata": { "name": "m-1", "namespace": "default", "uid": "u" } });
    world.observe(now, Seen::Applied(kinds::find("Machine").unwrap(), Box::new(machine)));
    let vm = Vm {
        id: "vm-1".to_owned(),
        machine: "m-1".to_owned(),
        machine_uid: "u".to_owned(),
        provider_id: "fakecloud:///z1/vm-1".to_owned(),
        node: "m-1".to_owned(),
        state: VmState::Running,
        revision: 1,
    };
    world.observe(now, Seen::Cloud(CloudEvent::Vm(vm)));
    Arc::new(Mutex::new(world))
}

/// Sends a request, and returns the connection.
async fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// The response to a request.
async fn answered(address: SocketAddr, request: &str) -> String {
    let mut answer = String::new();
    let mut stream = send(address, request).await;
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_fault_whose_page_is_closed_is_recorded_and_ends() {
    let clock = Clock::wall();
    let world = world(clock.now());
    let cloud = Arc::new(SlowCloud {
        begun: Semaphore::new(0),
        released: Semaphore::new(0),
        done: AtomicUsize::new(0),
    });
    let steps = Arc::new(Steps(Arc::clone(&cloud)));
    let dashboard = Dashboard::bind(0, true, Arc::clone(&world), steps, clock.clone())
        .await
        .unwrap();
    let (address, token) = (dashboard.address, dashboard.token.clone());
    let cancel = CancellationToken::new();
    let served = tokio::spawn(dashboard.serve(cancel.clone()));
    let head = format!("host: {address}\r\n");
    let log_in = format!(
        "GET /?token={} HTTP/1.1\r\n{head}connection: close\r\n\r\n",
        token.as_str()
    );
    let logged_in = answered(address, &log_in).await;
    let cookie = logged_in
        .split("set-cookie: ")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    let head = format!("{head}cookie: {cookie}\r\n");
    let body = r#"{"fault":"kubelet.partition","targets":["m-1"],"seconds":1}"#;
    let page = send(
        address,
        &format!(
            "POST /api/faults HTTP/1.1\r\n{head}origin: http://{address}\r\nx-drydock-request: 1\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    )
    .await;
    cloud.begun.acquire().await.unwrap().forget();
    drop(page);
    // The server has noticed it when it answers another connection.
    let state = answered(
        address,
        &format!("GET /api/state HTTP/1.1\r\n{head}connection: close\r\n\r\n"),
    )
    .await;
    assert!(state.starts_with("HTTP/1.1 200") && state.contains("vm-1"), "{state}");
    cloud.released.add_permits(2);
    cloud.begun.acquire().await.unwrap().forget();
    let changed = world.lock().subscribe();
    recorded(&world, changed, "reconnect the kubelet of m-1").await;
    assert_eq!(cloud.done.load(Ordering::SeqCst), 2);
    let record = world.lock().timeline().record(clock.now());
    assert!(
        record
            .points
            .iter()
            .any(|point| point.summary.contains("partition the kubelet of m-1"))
    );
    cancel.cancel();
    served.await.unwrap();
}

/// Waits until the timeline has an event with that text.
async fn recorded(world: &Shared, mut changed: tokio::sync::watch::Receiver<u64>, text: &str) {
    let is_recorded = || {
        let record = world.lock().timeline().record(Clock::wall().now());
        record.points.iter().any(|point| point.summary.contains(text))
    };
    let wait = async {
        while !is_recorded() {
            changed.changed().await.unwrap();
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), wait)
        .await
        .expect(text);
}
