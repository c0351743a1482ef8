//! gRPC messages: the path of a call in the first line, then the message in protobuf.
//!
//! Covers the driver contract and the control API of fakecloud, and the registration of drivers in the controller.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use clock::{Clock, Seed};
use fakecloud::proto as cloud;
use fakecloud::{Config, Fakecloud, message_of_rule, read_rules};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use mcm_api::{Machine, MachineClass};
use mcm_driver::registration::Registry;
use mcm_driver::{Driver, MachineRequest, proto};
use prost::Message;
use serde_json::json;
use tonic::body::Body;
use tower::{Service, ServiceExt as _};

use super::world::virtual_time;
use crate::mutate::split;
use crate::target::Runner;
use crate::{Outcome, Violation};

/// A call, or the events of a stream, take at most this long in virtual time.
const LIMIT: Duration = Duration::from_secs(3600);
/// Frames of a response that are read.
const FRAMES: usize = 100;

const DRIVER: &str = "/drydock.driver.v1.Driver/";
const REGISTRY: &str = "/drydock.driver.v1.Registry/";
const CLOUD: &str = "/drydock.fakecloud.v1.Cloud/";

pub(super) fn start() -> Result<Runner, Violation> {
    let runtime = virtual_time()?;
    Ok(Box::new(move |input| runtime.block_on(run(input))))
}

async fn run(input: &[u8]) -> Result<Outcome, Violation> {
    let (path, message) = split(input, b"\n");
    let path = String::from_utf8_lossy(path).into_owned();
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let frame = [&[0], length.to_be_bytes().as_slice(), message].concat();
    let request = Request::post(&path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(frame)));
    let Ok(request) = request else {
        return Ok(Outcome::Refused);
    };
    let cloud = Fakecloud::new(Config::default(), Clock::simulated(Timestamp::UNIX_EPOCH), Seed::new(1));
    let driver = cloud.driver();
    driver
        .create_machine(machine("m-1"))
        .await
        .map_err(|error| Violation::new(format!("a new cloud creates no VM: {error}")))?;
    let vms = |cloud: &Fakecloud| cloud.step(|cloud, _| (cloud.vms().count(), cloud.live_count()));
    let before = vms(&cloud);
    let status = if path.starts_with(REGISTRY) {
        let mut number = 0;
        let sessions = move || {
            number += 1;
            format!("session-{number}")
        };
        call(Registry::new(sessions).into_server(), request).await
    } else if path.starts_with(CLOUD) {
        call(cloud.control_server(), request).await
    } else {
        call(cloud.driver_server(), request).await
    };
    if status != Some(0) && vms(&cloud) != before {
        return Err(Violation::new(format!(
            "a call that fails with {status:?} changes the VMs: {:?}",
            vms(&cloud)
        )));
    }
    // The cloud continues, whatever rule or setting it has now.
    for name in ["m-1", "m-2"] {
        tokio::time::timeout(LIMIT, driver.create_machine(machine(name)))
            .await
            .ok();
        tokio::time::timeout(LIMIT, driver.get_machine_status(machine(name)))
            .await
            .ok();
        tokio::time::timeout(LIMIT, driver.delete_machine(machine(name)))
            .await
            .ok();
    }
    tokio::time::sleep(LIMIT).await;
    cloud.step(|cloud, now| cloud.advance(now));
    Ok(if status == Some(0) {
        Outcome::Accepted
    } else {
        Outcome::Refused
    })
}

/// Makes a call and returns its gRPC status; `None`: it does not end.
async fn call<S>(server: S, request: Request<Full<Bytes>>) -> Option<u32>
where
    S: Service<Request<Full<Bytes>>, Response = Response<Body>, Error = Infallible>,
{
    let work = async {
        let Ok(response) = server.oneshot(request).await;
        let (parts, mut body) = response.into_parts();
        let mut headers = parts.headers;
        for _ in 0..FRAMES {
            let Some(Ok(frame)) = body.frame().await else { break };
            if let Ok(trailers) = frame.into_trailers() {
                headers = trailers;
            }
        }
        headers.get("grpc-status")?.to_str().ok()?.parse().ok()
    };
    tokio::time::timeout(LIMIT, work).await.ok()?
}

/// A controller's request.
pub(super) fn machine(name: &str) -> MachineRequest {
    let mut class = MachineClass::default();
    class.metadata.name = Some("pool".to_owned());
    class.metadata.namespace = Some("default".to_owned());
    class.provider_spec = json!({
        "machineType": "small", "image": "linux-1", "zone": "local-1",
        "tags": { "kubernetes.io/cluster/shoot": "1", "kubernetes.io/role/node": "1" },
    });
    let mut machine = Machine::default();
    machine.metadata.name = Some(name.to_owned());
    machine.metadata.namespace = Some("default".to_owned());
    machine.metadata.uid = Some(format!("uid-of-{name}"));
    let secret = [("apiToken".to_owned(), ByteString(b"any".to_vec()))];
    MachineRequest {
        machine,
        class,
        secret: secret.into(),
    }
}

const RULES: &str = "\
- {name: a, match: {call: createMachine, machine: 'm-*', class: p*, zone: l*, client: x}, action: {code: Internal}}
- {match: {skip: 1, times: 2}, action: {code: Internal, latency: 1s-3s}}
- {match: {call: listMachines, probability: 0.5, window: {from: 1s, until: 1h}}, action: {stale: {by: 1m}}}
- {match: {call: deleteMachine}, action: {stuck: true}}
- {match: {call: createMachine}, action: {code: Internal, partial: nics}}
- {match: {throttle: {perSecond: 2, burst: 3}}, action: {error: throttled}}
";

/// A valid message of each kind.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = [driver_seeds(), registry_seeds(), cloud_seeds()].concat();
    seeds.retain(|seed| !seed.is_empty());
    seeds
}

fn seed(service: &str, call: &str, message: &impl Message) -> Vec<u8> {
    [format!("{service}{call}\n").as_bytes(), &message.encode_to_vec()].concat()
}

fn driver_seeds() -> Vec<Vec<u8>> {
    let MachineRequest { machine, class, secret } = machine("m-1");
    let json = |value: serde_json::Result<Vec<u8>>| value.unwrap_or_default();
    let class = json(serde_json::to_vec(&class));
    let secret: std::collections::HashMap<_, _> = secret.into_iter().map(|(key, value)| (key, value.0)).collect();
    let machine = proto::MachineRequest {
        machine: json(serde_json::to_vec(&machine)),
        class: class.clone(),
        secret: secret.clone().into_iter().collect(),
    };
    let calls = [
        "CreateMachine",
        "InitializeMachine",
        "DeleteMachine",
        "GetMachineStatus",
        "StopMachine",
    ];
    let mut seeds: Vec<_> = calls.iter().map(|call| seed(DRIVER, call, &machine)).collect();
    let list = proto::ListRequest {
        class: class.clone(),
        secret: secret.into_iter().collect(),
    };
    seeds.push(seed(DRIVER, "ListMachines", &list));
    let update = proto::UpdateRequest {
        machine: Some(machine),
        last_applied: Some(br#"{"machineType":"small"}"#.to_vec()),
    };
    seeds.push(seed(DRIVER, "UpdateMachine", &update));
    let migration = proto::MigrationRequest {
        provider_class: br#"{"kind":"AWSMachineClass","metadata":{"name":"c"},"spec":{"machineType":"small"}}"#
            .to_vec(),
        class,
    };
    seeds.push(seed(DRIVER, "GenerateMachineClass", &migration));
    let volumes = proto::VolumesRequest {
        persistent_volume_specs: vec![br#"{"csi":{"driver":"csi.fakecloud.drydock","volumeHandle":"v"}}"#.to_vec()],
    };
    seeds.push(seed(DRIVER, "GetVolumeIds", &volumes));
    seeds
}

fn registry_seeds() -> Vec<Vec<u8>> {
    let registration = proto::DriverSide {
        message: Some(proto::driver_side::Message::Registration(proto::Registration {
            kind: "fakecloud".to_owned(),
            api_version: "drydock.driver.v1".to_owned(),
            name: "driver".to_owned(),
            class_kinds: vec!["AWSMachineClass".to_owned()],
        })),
    };
    let class = proto::MachineClassMeta {
        namespace: "garden".to_owned(),
        name: "c".to_owned(),
        ..Default::default()
    };
    vec![
        seed(REGISTRY, "Register", &registration),
        seed(REGISTRY, "GetMachineClass", &class),
    ]
}

fn cloud_seeds() -> Vec<Vec<u8>> {
    let vm = cloud::VmReference {
        by: Some(cloud::vm_reference::By::Machine("m-1".to_owned())),
    };
    let rules = read_rules("seeds", RULES).unwrap_or_default();
    let mut seeds: Vec<_> = rules
        .into_iter()
        .map(|rule| seed(CLOUD, "AddFault", &message_of_rule(rule)))
        .collect();
    let calls = [
        "GetVm",
        "KillVm",
        "StopVm",
        "StartVm",
        "RebootVm",
        "DeleteVm",
        "PanicVm",
        "FillDisk",
        "Step",
        "StopKubelet",
        "StartKubelet",
    ];
    seeds.extend(calls.iter().map(|call| seed(CLOUD, call, &vm)));
    seeds.push(seed(CLOUD, "Info", &cloud::InfoRequest {}));
    seeds.push(seed(CLOUD, "Watch", &cloud::WatchRequest { after: 0 }));
    let list = cloud::ListVmsRequest {
        machine: "m-*".to_owned(),
        include_terminated: true,
        tags: [("owner".to_owned(), "me".to_owned())].into(),
        zone: "local-?".to_owned(),
        page_size: 2,
        page_token: "00000000000000000001".to_owned(),
    };
    seeds.push(seed(CLOUD, "ListVms", &list));
    let zone = cloud::FailZoneRequest {
        zone: "local-*".to_owned(),
        failure: cloud::ZoneFailure::BrownOut.into(),
        lasts_nanos: Some(60_000_000_000),
        error_percent: Some(20),
        latency: "1s-2s".to_owned(),
    };
    seeds.push(seed(CLOUD, "FailZone", &zone));
    let limit = cloud::SetLimitRequest {
        kind: cloud::LimitKind::Quota.into(),
        machine_type: "small".to_owned(),
        zone: "local-1".to_owned(),
        vms: Some(3),
    };
    seeds.push(seed(CLOUD, "SetLimit", &limit));
    let update = cloud::UpdateVmRequest {
        vm: Some(vm.clone()),
        set_tags: [("owner".to_owned(), "me".to_owned())].into(),
        remove_tags: vec!["kubernetes.io/role/node".to_owned()],
        nics: [("primary".to_owned(), cloud::NicFlags::default())].into(),
    };
    seeds.push(seed(CLOUD, "UpdateVm", &update));
    let volume = cloud::CreateVolumeRequest {
        id: "v".to_owned(),
        zone: "local-1".to_owned(),
        size: "5Gi".to_owned(),
    };
    seeds.push(seed(CLOUD, "CreateVolume", &volume));
    let broken = cloud::BreakKubeletRequest {
        vm: Some(vm.clone()),
        fault: Some(cloud::KubeletFault {
            fault: Some(cloud::kubelet_fault::Fault::Flapping(cloud::Flapping {
                period_nanos: 1_000_000_000,
                up_percent: 50,
                down: 2,
            })),
        }),
        lasts_nanos: Some(5_000_000_000),
    };
    seeds.push(seed(CLOUD, "BreakKubelet", &broken));
    let preempt = cloud::PreemptVmRequest {
        vm: Some(vm),
        notice_nanos: 5_000_000_000,
    };
    seeds.push(seed(CLOUD, "PreemptVm", &preempt));
    let audit = cloud::AuditLedgerRequest {
        machines: Some(cloud::MachineUids {
            uids: vec!["uid-of-m-1".to_owned()],
        }),
        grace_nanos: 1_000_000_000,
    };
    seeds.push(seed(CLOUD, "AuditLedger", &audit));
    seeds
}
