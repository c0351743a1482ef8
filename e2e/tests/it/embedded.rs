//! The wall-clock stage as users run it: reports, another controller, and clean ends.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clock::Clock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;
use stage::plane::envtest;
use stage::ports::free_port;

use crate::drydock::{drydock_program, holds_secret, printed};
use crate::existing::assert_none_is_required;
use crate::records::record_in;
use crate::up::{Up, send};

const FAILS: &str = "
name: fails
about: A machine that comes up has one VM, not five.
steps:
- apply: {machine: m-1}
- expect:
    that: {phase: {machine: m-1, is: Running}}
    holds: {eventually: bootDelay + slack}
- expect:
    that: {vmCount: {machine: m-1, is: 5}}
    holds: {eventually: 100ms}
";

#[test]
fn a_failed_run_leaves_a_report_without_secrets_at_any_log_level() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("fails.yaml"), FAILS).unwrap();
    let output = drydock_program()
        .args(["run", "--stage", "embedded", "--file", "fails.yaml"])
        .env("RUST_LOG", "debug")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let replay = "replay: drydock run --file fails.yaml --stage embedded --seed 1";
    assert!(printed(&output).contains(replay), "{}", printed(&output));
    let report = folder.path().join(".drydock/reports/embedded-fails-1");
    for file in [
        "narrative.txt",
        "objects.yaml",
        "vms.yaml",
        "result.json",
        "run.drydock.json",
        "report.html",
        "mcm.log",
        "fakecloud.log",
    ] {
        let text = std::fs::read_to_string(report.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(!text.is_empty(), "{file} is empty");
        assert!(!holds_secret(&text), "{file} holds a secret");
    }
    let page = std::fs::read_to_string(report.join("report.html")).unwrap();
    assert!(
        !holds_secret(&record_in(&page)),
        "the record in the report holds a secret"
    );
}

#[test]
fn another_controller_is_tested_by_the_same_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = drydock_program();
    let mcm = Path::new(run.get_program()).with_file_name("mcm");
    let free = free_port().unwrap();
    let script = format!(
        "exec '{}' --driver=grpc://$FAKECLOUD_ADDRESS --control-kubeconfig=$KUBECONFIG \\
           --target-kubeconfig=$KUBECONFIG --namespace=$DRYDOCK_NAMESPACE --address=127.0.0.1 --port={free} --short-retry=200ms",
        mcm.display()
    );
    std::fs::write(folder.path().join("controller.sh"), script).unwrap();
    let output = run
        .args([
            "run",
            "lifecycle",
            "--stage",
            "embedded",
            "--controller",
            "sh controller.sh",
        ])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
}

/// A connection to the fakecloud of `up`, which closes when that process ends.
fn connection(printed: &str) -> TcpStream {
    let address = printed.split("answers gRPC on ").nth(1).unwrap();
    TcpStream::connect(address.split(';').next().unwrap()).unwrap()
}

fn wait_for_end(mut connection: TcpStream) {
    // Either end of file or a reset; the server's greeting comes first.
    let _ = connection.read_to_end(&mut Vec::new());
}

#[test]
fn ctrl_c_leaves_no_process_and_no_file_behind() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &[]);
    let connection = connection(&up.printed);
    up.end();
    wait_for_end(connection);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn child_processes_end_when_drydock_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path(), &[]);
    let connection = connection(&up.printed);
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    wait_for_end(connection);
}

#[test]
fn a_controller_that_exits_is_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path(), &["--controller", "echo broken; exit 3"]);
    up.prints("restarting it in 10 s");
    let first = "the controller ended (exit status: 3); last log line: broken; restarting it\n";
    assert!(up.printed.contains(first), "{}", up.printed);
    up.end();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_port_in_use_fails_with_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = drydock_program()
        .args(["up", "--port", &port])
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(
        printed(&output).contains(&format!("127.0.0.1:{port}: the address is in use")),
        "{}",
        printed(&output)
    );
    assert_eq!(printed(&output).lines().count(), 1, "{}", printed(&output));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Interrupts `drydock run` when it starts a program; asserts that nothing of it is left.
fn interrupted_run_leaves_nothing(stage: &str, log: &str, interrupt: Signal) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = drydock_program()
        .args(["run", "vm_dies", "--stage", stage])
        .env("TMPDIR", folder.path())
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The program that writes this log has been started.
    while child.try_wait().unwrap().is_none() && !has_file(folder.path(), log) {
        std::thread::yield_now();
    }
    send(interrupt, &child);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(128 + interrupt as i32), "{stage} {log}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{stage} {log}: {left:?}");
    assert_eq!(processes_of(folder.path()), Vec::<String>::new(), "{stage} {log}");
}

fn has_file(folder: &Path, name: &str) -> bool {
    let folders = std::fs::read_dir(folder).unwrap().flatten();
    folders.into_iter().any(|entry| entry.path().join(name).exists())
}

/// The command lines of processes that mention this folder.
fn processes_of(folder: &Path) -> Vec<String> {
    commands_of(folder).into_iter().map(|(_, command)| command).collect()
}

/// The process ids and commands of processes with this folder in their command.
fn commands_of(folder: &Path) -> Vec<(Pid, String)> {
    let name = folder.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let command = std::fs::read(entry.path().join("cmdline")).ok()?;
            Some((
                Pid::from_raw(process),
                String::from_utf8_lossy(&command).replace('\0', " "),
            ))
        })
        .filter(|(_, command)| command.contains(name))
        .collect()
}

/// The process of mcm among those.
fn mcm_of(folder: &Path) -> Option<Pid> {
    let mcm = |command: &str| {
        command
            .split(' ')
            .next()
            .is_some_and(|program| program.ends_with("/mcm"))
    };
    let mut commands = commands_of(folder).into_iter();
    commands.find(|(_, command)| mcm(command)).map(|(process, _)| process)
}

/// The process of mcm, once its log says that it leads.
async fn leader(folder: &Path, up: &Up) -> Pid {
    let log = up.run_folder().join("mcm.log");
    while !std::fs::read_to_string(&log).unwrap_or_default().contains("leading") {
        Clock::wall().sleep(Duration::from_millis(100)).await;
    }
    mcm_of(folder).unwrap()
}

/// Stops mcm for a time. The Lease of `drydock up` lasts ten seconds.
async fn stop_for(mcm: Pid, seconds: u64) {
    kill(mcm, Signal::SIGSTOP).unwrap();
    Clock::wall().sleep(Duration::from_secs(seconds)).await;
    kill(mcm, Signal::SIGCONT).unwrap();
}

/// A leader renews within the last third of the Lease if it could not try before.
#[tokio::test]
async fn a_stop_shorter_than_the_lease_keeps_leadership() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &[]);
    let mcm = leader(folder.path(), &up).await;
    stop_for(mcm, 7).await;
    Clock::wall().sleep(Duration::from_secs(3)).await;
    assert_eq!(
        mcm_of(folder.path()),
        Some(mcm),
        "mcm lost leadership and was restarted"
    );
    up.end();
}

#[tokio::test]
async fn a_stop_longer_than_the_lease_ends_leadership_and_mcm_is_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path(), &[]);
    let mcm = leader(folder.path(), &up).await;
    stop_for(mcm, 11).await;
    up.prints("restarting it");
    assert!(up.printed.contains("leadership is lost"), "{}", up.printed);
    up.end();
}

#[rstest]
#[case::as_the_cloud_starts("fakecloud.log", Signal::SIGINT)]
#[case::as_mcm_starts("mcm.log", Signal::SIGTERM)]
#[case::as_the_terminal_closes("mcm.log", Signal::SIGHUP)]
#[case::as_the_user_quits("mcm.log", Signal::SIGQUIT)]
fn an_interrupted_run_leaves_no_process_and_no_file(#[case] log: &str, #[case] interrupt: Signal) {
    interrupted_run_leaves_nothing("embedded", log, interrupt);
}

#[rstest]
#[case::as_etcd_starts("etcd.log")]
#[case::as_the_server_starts("kube-apiserver.log")]
#[case::as_the_cloud_starts("fakecloud.log")]
#[ignore = "long: a real control plane"]
fn an_interrupted_run_on_a_real_control_plane_leaves_nothing(#[case] log: &str) {
    match envtest::Programs::find() {
        Ok(_) => interrupted_run_leaves_nothing("envtest", log, Signal::SIGINT),
        Err(missing) => assert_none_is_required(&missing.to_string()),
    }
}

#[test]
fn two_worlds_side_by_side_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        drydock_program()
            .args(["run", "lifecycle", "failover", "--stage", "embedded"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    for child in [run(), run()] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", printed(&output));
    }
}
