//! Cost of simulated kubelets: `cargo run --release -p fakecloud --example scale [COUNT]` runs that many kubelets
//! (10,000) against an in-process API server that stores nothing, for ten virtual minutes. It prints the memory of each
//! kubelet, its calls, and the duration. On Linux only.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clock::{Clock, Seed};
use fakecloud::{API_TOKEN, Config, Fakecloud};
use http::{Method, Request, Response};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::client::Body;
use mcm_api::{Machine, MachineClass};
use mcm_driver::{Driver, MachineRequest};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const MEASURED: Duration = Duration::from_mins(10);

/// Resident memory of this process, in bytes.
fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").context("/proc/self/statm, which Linux has, is needed")?;
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .context("/proc/self/statm has no second field")?
        .parse()?;
    Ok(pages * 4096)
}

/// Writes succeed and return the written object, lists are empty, watches are silent.
fn api_server(writes: Arc<AtomicU64>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let writes = Arc::clone(&writes);
        async move {
            let (parts, body) = request.into_parts();
            if parts.method == Method::GET {
                if parts.uri.query().unwrap_or_default().contains("watch=true") {
                    pending::<()>().await;
                }
                let list = br#"{"metadata": {"resourceVersion": "1"}, "items": []}"#;
                return Ok::<_, Infallible>(Response::new(Body::from(list.to_vec())));
            }
            let number = writes.fetch_add(1, Ordering::Relaxed);
            let body = body.collect_bytes().await.unwrap_or_default();
            let mut object: Value = serde_json::from_slice(&body).unwrap_or_default();
            if parts.method == Method::POST {
                object["metadata"]["uid"] = json!(format!("{number:08}-0000-0000-0000-000000000000"));
            }
            Ok(Response::new(Body::from(object.to_string().into_bytes())))
        }
    });
    Client::new(service, "default")
}

async fn create(cloud: &Fakecloud, index: usize) -> Result<()> {
    let name = format!("machine-{index:05}");
    let metadata = ObjectMeta {
        uid: Some(format!("uid-of-{name}")),
        name: Some(name),
        namespace: Some("default".to_owned()),
        ..ObjectMeta::default()
    };
    let class = MachineClass {
        provider_spec: json!({"machineType": "small", "image": "linux-1", "zone": "local-1"}),
        provider: Some("fakecloud".to_owned()),
        ..MachineClass::default()
    };
    let request = MachineRequest {
        machine: Machine {
            metadata,
            ..Machine::default()
        },
        class,
        secret: BTreeMap::from([(API_TOKEN.to_owned(), ByteString(b"any".to_vec()))]),
    };
    let created = cloud.driver().create_machine(request).await;
    created
        .map(|_| ())
        .map_err(|error| anyhow!("machine {index} was not created: {error}"))
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<()> {
    let count = std::env::args().nth(1).map_or(Ok(10_000), |text| text.parse())?;
    let machine = Clock::wall();
    let cloud = Fakecloud::new(
        Config::default(),
        Clock::simulated(Timestamp::from_second(1_800_000_000)?),
        Seed::new(1),
    );
    for index in 0..count {
        create(&cloud, index).await?;
    }
    let before = resident()?;
    let writes = Arc::new(AtomicU64::new(0));
    let token = CancellationToken::new();
    let measure = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let bytes = resident()?.saturating_sub(before) / count.max(1) as u64;
        let (joined, started) = (writes.load(Ordering::Relaxed), machine.now());
        tokio::time::sleep(MEASURED).await;
        let calls = writes.load(Ordering::Relaxed) - joined;
        let took = machine.now().duration_since(started);
        println!("{count} kubelets: {bytes} bytes each; {calls} calls of ten virtual minutes in {took:#}");
        token.cancel();
        anyhow::Ok(())
    };
    let ((), measured) = tokio::join!(cloud.run(api_server(Arc::clone(&writes)), token.clone()), measure);
    measured
}
