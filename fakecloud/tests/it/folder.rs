//! The folder of a ledger, with the program: modes of its files, damage, check and repair.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use fakecloud::proto::ListVmsRequest;
use mcm_driver::Driver;
use rstest::rstest;

use crate::process::{LIMIT, Process, request};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fakecloud");

/// The output of `fakecloud ledger ACTION FOLDER`, and its exit status.
fn ledger(action: &str, folder: &Path) -> (String, i32) {
    run(&["ledger", action, folder.to_str().unwrap()])
}

fn run(arguments: &[&str]) -> (String, i32) {
    let Output { status, stdout, stderr } = Command::new(PROGRAM).args(arguments).output().unwrap();
    let text = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    (text, status.code().unwrap())
}

/// Creates VMs, and kills the process.
async fn with_vms(folder: &Path, names: &[&str]) {
    let process = Process::start(Some(folder), 1).await;
    for name in names {
        process.driver().create_machine(request(name)).await.unwrap();
    }
    process.kill().await;
}

async fn vms(folder: &Path) -> usize {
    let process = Process::start(Some(folder), 1).await;
    let list = process.control().list_vms(ListVmsRequest::default()).await.unwrap();
    process.kill().await;
    list.into_inner().vms.len()
}

#[tokio::test]
async fn a_damaged_ledger_is_refused_until_it_is_repaired() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("ledger");
    with_vms(&folder, &["a", "b"]).await;
    let (text, code) = ledger("check", &folder);
    assert!(
        code == 0 && text.contains("is sound") && text.contains("2 VMs"),
        "{code}: {text}"
    );

    let log = folder.join("changes.log");
    let mut content = std::fs::read(&log).unwrap();
    let before = content.clone();
    let at = content.len() - 20;
    content[at] ^= 2;
    std::fs::write(&log, &content).unwrap();
    let data = format!("--data={}", folder.display());
    let (text, code) = run(&["serve", "--without-kubelets", "--address=127.0.0.1:0", &data]);
    assert!(code == 1 && text.trim_end().lines().count() == 1, "{code}: {text}");
    assert!(
        text.contains("changes.log is damaged at byte ") && text.contains("ledger repair"),
        "{text}"
    );
    let (text, code) = ledger("check", &folder);
    assert!(
        code == 1 && text.contains("keeps: ") && text.contains("loses: "),
        "{code}: {text}"
    );
    assert_eq!(std::fs::read(&log).unwrap(), content);

    let (text, code) = ledger("repair", &folder);
    assert!(
        code == 0 && text.contains("kept: ") && text.contains("lost: "),
        "{code}: {text}"
    );
    let backup = outer.path().join("ledger.damaged-1");
    assert!(text.contains(backup.to_str().unwrap()), "{text}");
    assert_eq!(std::fs::read(backup.join("changes.log")).unwrap(), content);
    assert_eq!(ledger("check", &folder).1, 0);
    assert!((1..=2).contains(&vms(&folder).await));
    let (text, code) = ledger("repair", &folder);
    assert!(code == 0 && text.contains("nothing is written"), "{code}: {text}");

    // The same log does not belong to the repaired ledger.
    std::fs::write(&log, before).unwrap();
    let (text, code) = ledger("check", &folder);
    assert!(
        code == 1 && text.contains("one of them is an old copy"),
        "{code}: {text}"
    );
}

/// A line with the checksum of its content, as in the files of a ledger.
fn sealed(content: &str) -> String {
    let mut line = Vec::new();
    durable::lines::write_text(&mut line, content.as_bytes());
    String::from_utf8(line).unwrap()
}

/// Replaces a text in `ledger.json`, with valid checksums.
fn replace_in_ledger(folder: &Path, from: &str, to: &str) -> String {
    let path = folder.join("ledger.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let changed: String = text.lines().map(|line| sealed(&line[17..].replace(from, to))).collect();
    assert_ne!(text, changed);
    std::fs::write(&path, &changed).unwrap();
    changed
}

#[tokio::test]
async fn a_ledger_that_contradicts_itself_is_not_repaired() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("ledger");
    // A repair writes all rows into ledger.json.
    with_vms(&folder, &["a"]).await;
    let log = folder.join("changes.log");
    let mut content = std::fs::read(&log).unwrap();
    content.extend(b"damaged\n");
    std::fs::write(&log, content).unwrap();
    assert_eq!(ledger("repair", &folder).1, 0);
    let changed = replace_in_ledger(&folder, "{\"Vm\":[1,", "{\"Vm\":[7,");
    let data = format!("--data={}", folder.display());
    let serve = ["serve", "--without-kubelets", "--address=127.0.0.1:0", &data];
    for (text, code) in [ledger("check", &folder), ledger("repair", &folder), run(&serve)] {
        assert!(
            code == 1 && text.contains("the row of VM number 7 contains VM vm-"),
            "{code}: {text}"
        );
    }
    assert_eq!(std::fs::read_to_string(folder.join("ledger.json")).unwrap(), changed);
    assert!(!outer.path().join("ledger.damaged-2").exists());
}

#[tokio::test]
async fn the_ledger_of_a_later_version_is_left_to_that_version() {
    let folder = tempfile::tempdir().unwrap();
    with_vms(folder.path(), &["a"]).await;
    let changed = replace_in_ledger(folder.path(), "\"version\":2,", "\"version\":3,");
    let data = format!("--data={}", folder.path().display());
    let serve = ["serve", "--without-kubelets", "--address=127.0.0.1:0", &data];
    for ((text, code), expected) in [
        (ledger("check", folder.path()), 2),
        (ledger("repair", folder.path()), 2),
        (run(&serve), 1),
    ] {
        assert!(
            code == expected && text.contains("in version 3 of the format"),
            "{code}: {text}"
        );
        assert!(!text.contains("damaged") && !text.contains("repair"), "{text}");
    }
    assert_eq!(
        std::fs::read_to_string(folder.path().join("ledger.json")).unwrap(),
        changed
    );
}

#[tokio::test]
async fn a_folder_that_cannot_be_checked_has_another_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    for action in ["check", "repair"] {
        let (text, code) = ledger(action, &missing);
        assert!(code == 2 && text.contains("there is no folder"), "{code}: {text}");
        assert_eq!(run(&["ledger", action]).1, 2);
    }
    let process = Process::start(Some(folder.path()), 1).await;
    let (text, code) = ledger("check", folder.path());
    assert!(
        code == 2 && text.contains("in use by another fakecloud"),
        "{code}: {text}"
    );
    process.kill().await;
}

/// Runs the program with a umask and these arguments until its first line.
async fn with_umask(umask: &str, arguments: &[&str]) {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let mut command = tokio::process::Command::new("sh");
    command
        .args(["-c", "umask $0; exec \"$@\"", umask, PROGRAM])
        .args(arguments);
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    tokio::time::timeout(LIMIT, lines.next_line()).await.unwrap().unwrap();
    child.kill().await.unwrap();
}

#[rstest]
#[case::loose("000")]
#[case::tight("777")]
#[tokio::test]
async fn files_and_folders_are_private_with_any_umask(#[case] umask: &str) {
    let outer = tempfile::tempdir().unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let data = outer.path().join("a/ledger");
    let certificates = outer.path().join("b/certificates");
    let flag = format!("--data={}", data.display());
    with_umask(umask, &["serve", "--without-kubelets", "--address=127.0.0.1:0", &flag]).await;
    let arguments = [
        "certificates",
        "--namespace=x",
        "--output",
        certificates.to_str().unwrap(),
    ];
    with_umask(umask, &arguments).await;
    for folder in [data, certificates] {
        assert_eq!((mode(folder.parent().unwrap()), mode(&folder)), (0o700, 0o700));
        let entries: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(entries.len() >= 2, "{entries:?}");
        assert!(entries.iter().all(|path| mode(path) == 0o600), "{entries:?}");
    }
}
