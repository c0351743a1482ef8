//! A ledger in a folder, and a process that is killed at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clock::{Seed, Stream};
use fakecloud::proto::{ListPartsRequest, ListVmsRequest, VmState};
use mcm_driver::Driver;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::process::{LIMIT, Process, request};

/// Number of concurrent clients, each with its own machines.
const CLIENTS: u64 = 4;
/// Number of machines of each client.
const MACHINES: u64 = 3;

/// What a client knows of a machine's VM.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    /// A reply said that it exists.
    There(String),
    /// A reply said that it does not exist.
    Gone,
    /// A call about it got no reply.
    Open,
}

/// Shared state of the clients of one round.
#[derive(Debug, Default)]
struct Round {
    /// Number of answered calls.
    answered: AtomicU64,
    /// Number of answers after which the process is killed.
    enough: u64,
    /// Notifies that this number is reached.
    reached: Notify,
    /// Whether the process is dead.
    dead: AtomicBool,
}

/// Creates and deletes VMs until the process is dead; returns the resulting knowledge, and the deleted VMs.
async fn call(
    driver: impl Driver,
    mut known: BTreeMap<String, Known>,
    mut stream: Stream,
    round: Arc<Round>,
) -> (BTreeMap<String, Known>, Vec<String>) {
    let mut deleted = Vec::new();
    let names: Vec<String> = known.keys().cloned().collect();
    // No further call is made: another process may reuse the port of the dead process, even another fakecloud.
    while !round.dead.load(Ordering::Relaxed) {
        let name = names[usize::try_from(stream.below(MACHINES)).unwrap()].clone();
        let before = known.insert(name.clone(), Known::Open);
        let after = if matches!(before, Some(Known::There(_))) {
            driver.delete_machine(request(&name)).await.map(|_| Known::Gone)
        } else {
            let created = driver.create_machine(request(&name)).await;
            created.map(|vm| Known::There(vm.provider_id.unwrap().into()))
        };
        let Ok(after) = after else { break };
        if let (Some(Known::There(id)), Known::Gone) = (before, &after) {
            deleted.push(id);
        }
        known.insert(name, after);
        if round.answered.fetch_add(1, Ordering::Relaxed) + 1 == round.enough {
            round.reached.notify_one();
        }
    }
    (known, deleted)
}

/// The live VMs by machine.
async fn live(process: &Process) -> BTreeMap<String, Vec<String>> {
    let mut vms: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let list = process
        .control()
        .list_vms(ListVmsRequest::default())
        .await
        .unwrap()
        .into_inner();
    for vm in list.vms {
        if matches!(vm.state(), VmState::Pending | VmState::Running | VmState::Stopped) {
            vms.entry(vm.machine).or_default().push(vm.provider_id);
        }
    }
    vms
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_at_any_time_loses_no_vm_and_restores_no_deleted_one() {
    is_killed(40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: 200 kills"]
async fn a_process_killed_two_hundred_times_loses_no_vm_and_restores_no_deleted_one() {
    is_killed(200).await;
}

/// Calls the process, and kills it that many times.
async fn is_killed(kills: u64) {
    let folder = tempfile::tempdir().unwrap();
    let seed = Seed::new(7);
    let mut known: Vec<BTreeMap<String, Known>> = (0..CLIENTS)
        .map(|client| {
            (0..MACHINES)
                .map(|machine| (format!("m-{client}-{machine}"), Known::Gone))
                .collect()
        })
        .collect();
    let mut deleted = BTreeSet::new();
    let mut made = 0;
    for round in 0..kills {
        let process = Process::start(Some(folder.path()), round).await;
        let live = live(&process).await;
        for (name, knows) in known.iter_mut().flatten() {
            let there = live.get(name).cloned().unwrap_or_default();
            match &*knows {
                Known::There(id) => assert_eq!(there, std::slice::from_ref(id), "round {round}: {name} was lost"),
                Known::Gone => assert!(there.is_empty(), "round {round}: {name} came back as {there:?}"),
                Known::Open => assert!(there.len() <= 1, "round {round}: {name} has {there:?}"),
            }
            *knows = there.into_iter().next().map_or(Known::Gone, Known::There);
        }
        let back: Vec<&String> = live.values().flatten().filter(|id| deleted.contains(*id)).collect();
        assert!(back.is_empty(), "round {round}: deleted VMs came back: {back:?}");

        let shared = Arc::new(Round {
            enough: 1 + seed.stream(&format!("round/{round}")).below(16),
            ..Round::default()
        });
        let mut clients = JoinSet::new();
        for (client, knows) in known.drain(..).enumerate() {
            let stream = seed.stream(&format!("caller/{round}/{client}"));
            clients.spawn(call(process.driver(), knows, stream, Arc::clone(&shared)));
        }
        tokio::time::timeout(LIMIT, shared.reached.notified())
            .await
            .expect("the program answers no more");
        process.kill().await;
        shared.dead.store(true, Ordering::Relaxed);
        let ended = tokio::time::timeout(LIMIT, clients.join_all())
            .await
            .expect("a call neither ends nor fails");
        for (knows, gone) in ended {
            deleted.extend(gone);
            known.push(knows);
        }
        made += shared.answered.load(Ordering::Relaxed);
    }
    assert!(
        made > kills && u64::try_from(deleted.len()).unwrap() > kills / 2,
        "{made} calls were answered, {} deleted",
        deleted.len()
    );
    let process = Process::start(Some(folder.path()), kills).await;
    let left_behind = ListPartsRequest {
        left_behind: true,
        ..ListPartsRequest::default()
    };
    let left = process.control().list_nics(left_behind).await.unwrap().into_inner();
    assert!(left.nics.is_empty());
}

#[tokio::test]
async fn a_used_folder_is_a_one_line_error() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Process::start(Some(folder.path()), 1).await;
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fakecloud"));
    command
        .args(["serve", "--without-kubelets", "--address=127.0.0.1:0", "--data"])
        .arg(folder.path());
    let ended = tokio::time::timeout(LIMIT, command.output()).await.unwrap().unwrap();
    let text = String::from_utf8(ended.stderr).unwrap();
    assert!(
        !ended.status.success() && text.contains("in use by another fakecloud"),
        "{text}"
    );
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
}
