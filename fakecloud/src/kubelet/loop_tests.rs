//! The loop against an API server that only records requests, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Seed};
use http::{Method, Request, Response};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use crate::model::test_request as request;
use crate::{Config, Fakecloud};

type Requests = Arc<Mutex<Vec<String>>>;

/// Creations and patches succeed, lists are empty, watches end after five silent minutes.
fn api_server(requests: &Requests) -> Client {
    let requests = Arc::clone(requests);
    let service = service_fn(move |request: Request<Body>| {
        let requests = Arc::clone(&requests);
        async move {
            let (parts, body) = request.into_parts();
            let answer = if parts.method != Method::GET {
                requests.lock().push(format!("{} {}", parts.method, parts.uri.path()));
                body.collect_bytes().await.unwrap().to_vec()
            } else if parts.uri.query().unwrap_or_default().contains("watch=true") {
                tokio::time::sleep(Duration::from_secs(300)).await;
                Vec::new()
            } else {
                br#"{"metadata": {"resourceVersion": "1"}, "items": []}"#.to_vec()
            };
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(answer)))
        }
    });
    Client::new(service, "default")
}

fn without_storage() -> Config {
    let mut config = Config::default();
    config.csi.enabled = false;
    config
}

#[tokio::test(start_paused = true)]
async fn a_vm_joins_and_renews_its_lease_through_the_client_until_the_end() {
    let requests = Requests::default();
    let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
    let cloud = Fakecloud::new(without_storage(), clock, Seed::new(1));
    let token = CancellationToken::new();
    let act = async {
        let reply = cloud.step(|cloud, now| cloud.create_machine(&request("a"), now));
        reply.result.unwrap();
        tokio::time::sleep(Duration::from_secs(14)).await;
        token.cancel();
    };
    tokio::join!(cloud.run(api_server(&requests), token.clone()), act);
    let lease = "PATCH /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a";
    let requests = requests.lock();
    assert_eq!(requests[0], "POST /api/v1/nodes");
    assert!(
        requests.contains(&"PATCH /api/v1/nodes/a/status".to_owned()),
        "{requests:?}"
    );
    assert_eq!(requests.iter().filter(|line| *line == lease).count(), 2, "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_loop_picks_up_existing_vms() {
    let requests = Requests::default();
    let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
    let cloud = Fakecloud::new(Config::default(), clock, Seed::new(1));
    cloud
        .step(|cloud, now| cloud.create_machine(&request("a"), now))
        .result
        .unwrap();
    for _ in 0..2 {
        let run = cloud.run(api_server(&requests), CancellationToken::new());
        assert!(tokio::time::timeout(Duration::from_secs(8), run).await.is_err());
    }
    let registrations = requests
        .lock()
        .iter()
        .filter(|line| *line == "POST /api/v1/nodes")
        .count();
    assert_eq!(registrations, 2);
}
