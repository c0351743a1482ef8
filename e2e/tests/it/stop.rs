//! mcm ends soon after a signal, whatever it waits for.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use stage::ports::free_port;

use crate::programs::program;

/// How long the end may take on a loaded computer.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts mcm with an API server at `server` and a user with these credentials.
fn mcm(folder: &Path, server: &str, user: Value) -> Child {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": server } }],
        "users": [{ "name": "u", "user": user }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
    });
    let path = folder.join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let mut command = program("mcm");
    command.args([
        format!("--control-kubeconfig={}", path.display()),
        format!("--target-kubeconfig={}", path.display()),
        format!("--port={}", free_port().unwrap()),
        "--address=127.0.0.1".to_owned(),
        "--driver=grpc://127.0.0.1:1".to_owned(),
    ]);
    let errors = File::create(folder.join("errors")).unwrap();
    command.stdout(Stdio::null()).stderr(errors).spawn().unwrap()
}

/// Waits for what blocks. Fails after the limit with what mcm wrote.
fn within<T: Send + 'static>(folder: &Path, blocking: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(blocking()));
    let limited = result.recv_timeout(LIMIT);
    limited.unwrap_or_else(|_| panic!("not within {LIMIT:?}: {}", errors(folder)))
}

/// What mcm wrote to standard error.
fn errors(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("errors")).unwrap()
}

/// Sends SIGTERM. Returns the exit status and what the program wrote to standard error.
fn terminate(folder: &Path, mut child: Child) -> (Option<i32>, String) {
    let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(process, Signal::SIGTERM).unwrap();
    let status = within(folder, move || child.wait().unwrap().code());
    (status, errors(folder))
}

#[test]
fn mcm_ends_while_the_api_server_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let child = mcm(folder.path(), &server, json!({}));
    // mcm waits for an answer from now on.
    let _connection = within(folder.path(), move || silent.accept().unwrap());
    let (status, errors) = terminate(folder.path(), child);
    assert_eq!(status, Some(0), "{errors}");
}

/// A credential plugin blocks the thread that runs everything else.
#[test]
fn mcm_ends_while_its_thread_is_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let [plugin, started, end] = ["plugin", "started", "end"].map(|name| folder.path().join(name));
    assert!(
        Command::new("mkfifo")
            .args([&started, &end])
            .status()
            .unwrap()
            .success()
    );
    // Each open waits for the other side.
    let script = format!(
        "#!/bin/sh\necho started > {}\ncat {}\n",
        started.display(),
        end.display()
    );
    std::fs::write(&plugin, script).unwrap();
    std::fs::set_permissions(&plugin, PermissionsExt::from_mode(0o700)).unwrap();
    let plugin = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "interactiveMode": "Never",
    });
    let child = mcm(folder.path(), "http://127.0.0.1:1", json!({ "exec": plugin }));
    let started = within(folder.path(), move || std::fs::read_to_string(started).unwrap());
    assert_eq!(started, "started\n");
    let (status, errors) = terminate(folder.path(), child);
    drop(File::create(&end).unwrap());
    assert_eq!(status, Some(130), "{errors}");
    assert!(errors.contains("of the signal"), "{errors}");
}
