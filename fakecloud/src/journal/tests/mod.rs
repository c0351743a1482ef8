//! The content of a folder after all kinds of process ends.

mod damage;
mod earlier;
mod repair;
mod rotation;

use std::path::Path;

use clock::{Clock, Seed};
use mcm_driver::Driver;
use rstest::rstest;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::model::{FaultRule, Reference, VmState, test_request as request};
use crate::{Config, Fakecloud};

const AUDIT: AuditLimits = AuditLimits {
    file_size: 1 << 20,
    files: 2,
};

fn config() -> Config {
    Config::from_yaml("test", "faults: [{name: slow, action: {latency: 1ms}}]").unwrap()
}

/// Opens the folder, runs the story, and ends without a shutdown: changes that are not durable are lost.
async fn life<T>(folder: &Path, story: impl AsyncFnOnce(&Fakecloud) -> T) -> T {
    let (cloud, writer) = Fakecloud::open(config(), Clock::wall(), Seed::new(1), folder).unwrap();
    let token = CancellationToken::new();
    tokio::select! {
        biased;
        result = async {
            let result = story(&cloud).await;
            cloud.settled().await.unwrap();
            result
        } => result,
        result = writer.run(token) => panic!("{result:?}"),
    }
}

fn machine(name: &str) -> Reference {
    Reference::Machine(name.to_owned())
}

#[tokio::test]
async fn a_ledger_continues_where_its_process_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (before, info) = life(folder.path(), async |cloud| {
        for name in ["a", "b", "c"] {
            cloud.driver().create_machine(request(name)).await.unwrap();
        }
        cloud.driver().delete_machine(request("b")).await.unwrap();
        cloud.step(|cloud, now| {
            cloud.hold("c", now).unwrap();
            cloud.kill_vm(&machine("a"), now).unwrap();
            cloud.create_volume("volume-1", "local-1", "1Gi", now).unwrap();
            cloud.attach_volume("volume-1", &machine("a"), now).unwrap();
            cloud
                .set_limit(crate::model::LimitKind::Quota, "*", "*", Some(3), now)
                .unwrap();
            cloud
                .add_fault(FaultRule::new("").code(mcm_api::Code::Aborted), now)
                .unwrap();
            (cloud.snapshot("", now), cloud.log().last())
        })
    })
    .await;
    let after = life(folder.path(), async |cloud| {
        cloud.step(|cloud, now| {
            assert_eq!(cloud.log().after(0).unwrap().count() as u64, info);
            cloud.snapshot("", now)
        })
    })
    .await;
    let mut after = after;
    after.time = before.time;
    assert_eq!(after, before);
    life(folder.path(), async |cloud| {
        cloud.step(|cloud, now| {
            let states: Vec<VmState> = cloud.vms().map(|vm| vm.state).collect();
            assert_eq!(states, [VmState::Stopped, VmState::Terminated, VmState::Pending]);
            assert_eq!(cloud.faults().list().len(), 2);
            cloud.remove_fault("fault-1", now).unwrap();
        });
        // Random choices continue too: a machine that had a VM gets another ID.
        cloud.driver().create_machine(request("b")).await.unwrap();
        let quota = cloud.driver().create_machine(request("d")).await.unwrap_err();
        assert_eq!(quota.code, mcm_api::Code::ResourceExhausted);
    })
    .await;
}

#[tokio::test]
async fn only_one_process_at_a_time_uses_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Journal::open(folder.path(), AUDIT).unwrap();
    let second = Journal::open(folder.path(), AUDIT).unwrap_err();
    assert!(second.to_string().contains("in use by another fakecloud"), "{second}");
}

#[rstest]
#[case::half_a_line(|text: &mut Vec<u8>| { text.truncate(text.len() - 7); })]
#[case::garbage(|text: &mut Vec<u8>| text.extend(b"0123456789abcdef {\"number\": 1"))]
#[case::nothing(|_: &mut Vec<u8>| {})]
#[tokio::test]
async fn an_incomplete_last_frame_is_truncated(#[case] spoil: fn(&mut Vec<u8>)) {
    let folder = tempfile::tempdir().unwrap();
    life(folder.path(), async |cloud| {
        cloud.driver().create_machine(request("a")).await.unwrap();
        cloud.settled().await.unwrap();
        cloud.driver().create_machine(request("b")).await.unwrap();
        cloud.settled().await.unwrap();
        cloud.step(|cloud, now| cloud.hold("*", now).map(drop)).unwrap();
    })
    .await;
    let path = folder.path().join("changes.log");
    let mut text = std::fs::read(&path).unwrap();
    assert!(!text.is_empty());
    spoil(&mut text);
    std::fs::write(&path, &text).unwrap();
    let count = life(folder.path(), async |cloud| cloud.step(|cloud, _| cloud.vms().count())).await;
    assert_eq!(count, 2);
}

#[tokio::test]
async fn damage_is_reported_with_its_place_and_what_a_repair_keeps() {
    let folder = tempfile::tempdir().unwrap();
    life(folder.path(), async |cloud| {
        for name in ["a", "b", "c"] {
            cloud.driver().create_machine(request(name)).await.unwrap();
            cloud.settled().await.unwrap();
        }
    })
    .await;
    let path = folder.path().join("changes.log");
    let mut text = std::fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').collect();
    // In the last line, which was acknowledged.
    let last = ends[ends.len() - 2] + 1;
    text[last + 30] ^= 1;
    std::fs::write(&path, &text).unwrap();
    let error = Journal::open(folder.path(), AUDIT).unwrap_err().to_string();
    let lines = ends.len();
    let place = format!("changes.log is damaged at byte {last} (line {lines}): the checksum is wrong");
    let folder = folder.path().display();
    let fix = format!("`fakecloud ledger repair {folder}` keeps ");
    assert!(error.contains(&place) && error.contains(&fix), "{error}");
    assert!(error.contains("1 damaged and 0 sound lines"), "{error}");
}

#[rstest]
#[case("ledger.json")]
#[case("changes.log")]
#[case("changes.log.new")]
#[case("audit.jsonl")]
#[case("lock")]
#[tokio::test]
async fn a_link_in_place_of_a_file_is_refused(#[case] name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let target = tempfile::NamedTempFile::new().unwrap();
    life(folder.path(), async |cloud| {
        cloud.driver().create_machine(request("a")).await.unwrap();
    })
    .await;
    let path = folder.path().join(name);
    if path.exists() {
        std::fs::copy(&path, target.path()).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
    let before = std::fs::read(target.path()).unwrap();
    std::os::unix::fs::symlink(target.path(), &path).unwrap();
    let error = Journal::open(folder.path(), AUDIT).unwrap_err().to_string();
    assert!(error.contains(name) && error.contains("symbolic link"), "{error}");
    assert_eq!(std::fs::read(target.path()).unwrap(), before);
}

#[tokio::test]
async fn a_long_log_is_restarted_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let size = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    let mut sizes = Vec::new();
    life(folder.path(), async |cloud| {
        let mut user_data = request("a");
        user_data
            .secret
            .insert("userData".to_owned(), k8s_openapi::ByteString(vec![b'x'; 1 << 20]));
        for round in 0..30 {
            let mut of = user_data.clone();
            of.machine.metadata.name = Some(format!("m-{round}"));
            cloud.driver().create_machine(of.clone()).await.unwrap();
            cloud.settled().await.unwrap();
            cloud.driver().delete_machine(of).await.unwrap();
            cloud.settled().await.unwrap();
            sizes.push(size("changes.log"));
        }
        cloud.driver().create_machine(request("last")).await.unwrap();
    })
    .await;
    let restarts = sizes.windows(2).any(|pair| pair[1] < pair[0]);
    assert!(restarts && sizes.iter().all(|size| *size < 12 << 20), "{sizes:?}");
    let (all, live) = life(folder.path(), async |cloud| {
        cloud.step(|cloud, _| (cloud.vms().count(), cloud.live_count()))
    })
    .await;
    assert_eq!((all, live), (31, 1));
}

#[tokio::test]
async fn only_the_owner_reads_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    life(folder.path(), async |cloud| {
        cloud.driver().create_machine(request("a")).await.unwrap();
    })
    .await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let loose = folder.path().join("changes.log");
    std::fs::set_permissions(&loose, std::fs::Permissions::from_mode(0o664)).unwrap();
    life(folder.path(), async |_| ()).await;
    assert_eq!(mode(&loose), 0o600);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    assert!(audit.contains("CreateMachine") && !audit.contains("planted"), "{audit}");
}
