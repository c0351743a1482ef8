//! Mutated messages and files: each is accepted or rejected, and nothing panics.
//!
//! `DRYDOCK_FUZZ_ROUNDS` sets the number of rounds per kind; each round depends only on its number, so that a failing
//! one can be repeated.

use std::time::Duration;

use clock::{Clock, Seed, Stream};
use fakecloud::proto::cloud_client::CloudClient;
use fakecloud::proto::{self, vm_reference::By};
use fakecloud::{Config, ControlService, Fakecloud, read_rules};
use jiff::Timestamp;
use mcm_driver::Driver;
use prost::Message;

use crate::process::request;

/// Default number of rounds.
const ROUNDS: u64 = 3000;

fn rounds() -> u64 {
    let value = std::env::var("DRYDOCK_FUZZ_ROUNDS").ok();
    value.map_or(ROUNDS, |text| text.parse().expect("DRYDOCK_FUZZ_ROUNDS is a number"))
}

/// Changes, removes or repeats some bytes of `good`, or inserts some of `other`.
fn mutated(good: &[u8], other: &[u8], stream: &mut Stream) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=stream.below(4) {
        let place = |stream: &mut Stream, length: usize| stream.below(length as u64 + 1) as usize;
        let at = place(stream, bytes.len());
        match stream.below(6) {
            0 if at < bytes.len() => bytes[at] = stream.below(256) as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << stream.below(8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.insert(at, stream.below(256) as u8),
            4 => {
                let from = place(stream, other.len());
                let to = (from + stream.below(12) as usize).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

type Client = CloudClient<proto::cloud_server::CloudServer<ControlService>>;

fn machine(name: &str) -> Option<proto::VmReference> {
    Some(proto::VmReference {
        by: Some(By::Machine(name.to_owned())),
    })
}

/// Valid messages, each with its kind.
fn corpus() -> Vec<(usize, Vec<u8>)> {
    let tags = [("owner".to_owned(), "me".to_owned())];
    let rules = "\
- {name: a, match: {call: createMachine, machine: 'm-*', class: p*, zone: l*, client: x}, action: {code: Internal}}
- {match: {skip: 1, times: 2}, action: {code: Internal, latency: 1s-3s}}
- {match: {call: getMachineStatus}, action: {stale: {calls: 3}}}
- {match: {call: listMachines, probability: 0.5, window: {from: 1s, until: 1h}}, action: {stale: {by: 1m}}}
- {match: {call: deleteMachine}, action: {stuck: true}}
- {match: {call: createMachine}, action: {code: Internal, partial: nics}}
- {match: {call: createMachine}, action: {effectDelay: 3s}}
- {match: {call: attachVolume, machine: 'm-*'}, action: {effectDelay: 3s}}
- {match: {throttle: {perSecond: 2, burst: 3}}, action: {error: throttled}}
- {action: {lostReply: true, latency: 1s~2s}}
";
    let mut corpus: Vec<(usize, Vec<u8>)> = read_rules("corpus", rules)
        .unwrap()
        .into_iter()
        .map(|rule| (0, fakecloud::message_of_rule(rule).encode_to_vec()))
        .collect();
    let fail = proto::FailZoneRequest {
        zone: "local-*".to_owned(),
        failure: proto::ZoneFailure::BrownOut.into(),
        lasts_nanos: Some(60_000_000_000),
        error_percent: Some(20),
        latency: "1s-2s".to_owned(),
    };
    corpus.push((1, fail.encode_to_vec()));
    let limit = proto::SetLimitRequest {
        kind: proto::LimitKind::Quota.into(),
        machine_type: "small".to_owned(),
        zone: "local-1".to_owned(),
        vms: Some(3),
    };
    corpus.push((2, limit.encode_to_vec()));
    let update = proto::UpdateVmRequest {
        vm: machine("m-1"),
        set_tags: tags.clone().into(),
        remove_tags: vec!["kubernetes.io/role/node".to_owned()],
        nics: [("primary".to_owned(), proto::NicFlags::default())].into(),
    };
    corpus.push((3, update.encode_to_vec()));
    let list = proto::ListVmsRequest {
        machine: "m-*".to_owned(),
        include_terminated: true,
        tags: tags.into(),
        zone: "local-?".to_owned(),
        page_size: 2,
        page_token: "00000000000000000001".to_owned(),
    };
    corpus.push((4, list.encode_to_vec()));
    let volume = proto::CreateVolumeRequest {
        id: "v".to_owned(),
        zone: "local-1".to_owned(),
        size: "5Gi".to_owned(),
    };
    corpus.push((5, volume.encode_to_vec()));
    let attach = proto::AttachVolumeRequest {
        id: "v".to_owned(),
        vm: machine("m-1"),
    };
    corpus.push((6, attach.encode_to_vec()));
    let broken = proto::BreakKubeletRequest {
        vm: machine("m-1"),
        fault: Some(proto::KubeletFault {
            fault: Some(proto::kubelet_fault::Fault::Flapping(proto::Flapping {
                period_nanos: 1_000_000_000,
                up_percent: 50,
                down: 2,
            })),
        }),
        lasts_nanos: Some(5_000_000_000),
    };
    corpus.push((7, broken.encode_to_vec()));
    let preempt = proto::PreemptVmRequest {
        vm: machine("m-1"),
        notice_nanos: 5_000_000_000,
    };
    corpus.push((8, preempt.encode_to_vec()));
    let ledger = proto::AuditLedgerRequest {
        machines: Some(proto::MachineUids {
            uids: vec!["uid-of-m-1".to_owned()],
        }),
        grace_nanos: 1_000_000_000,
    };
    corpus.push((9, ledger.encode_to_vec()));
    corpus
}

/// Sends bytes as a message of the kind, if they are one.
async fn send(client: &mut Client, kind: usize, bytes: &[u8]) -> Option<Result<(), tonic::Status>> {
    macro_rules! send {
        ($call:ident, $message:ty) => {{
            let message = <$message>::decode(bytes).ok()?;
            Some(client.$call(message).await.map(drop))
        }};
    }
    match kind {
        0 => send!(add_fault, proto::Fault),
        1 => send!(fail_zone, proto::FailZoneRequest),
        2 => send!(set_limit, proto::SetLimitRequest),
        3 => send!(update_vm, proto::UpdateVmRequest),
        4 => send!(list_vms, proto::ListVmsRequest),
        5 => send!(create_volume, proto::CreateVolumeRequest),
        6 => send!(attach_volume, proto::AttachVolumeRequest),
        7 => send!(break_kubelet, proto::BreakKubeletRequest),
        8 => send!(preempt_vm, proto::PreemptVmRequest),
        _ => send!(audit_ledger, proto::AuditLedgerRequest),
    }
}

#[tokio::test(start_paused = true)]
async fn no_message_makes_the_cloud_panic() {
    let corpus = corpus();
    let (mut taken, mut refused) = (0, 0);
    let new = || {
        let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
        Fakecloud::new(Config::default(), clock, Seed::new(1))
    };
    let mut cloud = new();
    for round in 0..rounds() {
        // Rules of earlier rounds stay active for some rounds.
        if round % 50 == 0 {
            cloud = new();
        }
        let mut stream = Seed::new(round).stream("mutation");
        let mut client = CloudClient::new(cloud.control_server());
        let (kind, good) = &corpus[stream.below(corpus.len() as u64) as usize];
        let (_, other) = &corpus[stream.below(corpus.len() as u64) as usize];
        match send(&mut client, *kind, &mutated(good, other, &mut stream)).await {
            Some(Ok(())) => taken += 1,
            Some(Err(_)) => refused += 1,
            None => {}
        }
        let driver = cloud.driver();
        let name = format!("m-{}", stream.below(4));
        let limit = Duration::from_secs(3600);
        tokio::time::timeout(limit, driver.create_machine(request(&name)))
            .await
            .ok();
        tokio::time::timeout(limit, driver.get_machine_status(request(&name)))
            .await
            .ok();
        tokio::time::timeout(limit, driver.delete_machine(request(&name)))
            .await
            .ok();
        cloud.step(|cloud, now| cloud.advance(now));
    }
    assert!(
        taken > 0 && refused > 0,
        "{taken} messages were taken and {refused} refused"
    );
}

#[test]
fn no_file_makes_the_reader_panic() {
    let config = include_str!("../../README.md")
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let rules = "- {name: a, match: {call: createMachine, probability: 0.5}, action: {latency: 1s-3s}}\n\
                 - {name: b, match: {call: listMachines, window: {from: 1s, until: 1h}}, action: {stale: {by: 1m}}}\n\
                 - {id: c, operation: delete, times: 2, effectBeforeError: true, code: Internal}\n";
    let mut read = 0;
    for round in 0..rounds() {
        let mut stream = Seed::new(round).stream("file");
        let spoiled = mutated(config.as_bytes(), rules.as_bytes(), &mut stream);
        let text = String::from_utf8_lossy(&spoiled);
        match Config::from_yaml("config.yaml", &text) {
            Ok(_) => read += 1,
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        let spoiled = mutated(rules.as_bytes(), config.as_bytes(), &mut stream);
        let text = String::from_utf8_lossy(&spoiled);
        if let Err(error) = read_rules("rules.yaml", &text) {
            assert!(error.to_string().starts_with("rules.yaml"), "{error}");
        }
    }
    assert!(read > 0);
}
