//! Proxy variables of the environment: ignored on loopback, honoured elsewhere.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;

use crate::drydock::{drydock_program, printed};
use crate::up::Up;

/// A server name that no resolver knows.
const NAME: &str = "cluster.example.invalid";

/// All proxy variables, with a proxy where nothing listens.
const CLOSED: [(&str, &str); 6] = [
    ("HTTPS_PROXY", "http://127.0.0.1:1"),
    ("https_proxy", "http://127.0.0.1:1"),
    ("HTTP_PROXY", "http://127.0.0.1:1"),
    ("http_proxy", "http://127.0.0.1:1"),
    ("ALL_PROXY", "http://127.0.0.1:1"),
    ("all_proxy", "http://127.0.0.1:1"),
];

#[test]
fn loopback_connections_ignore_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock_program()
        .args(["run", "lifecycle", "--stage", "embedded"])
        .envs(CLOSED)
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
}

/// Starts an API server on loopback. Returns its port and its kubeconfig.
fn api_server(folder: &Path) -> (Up, u16, Value) {
    let up = Up::start(folder, &["--without", "fakecloud"]);
    let kubeconfig = kube::config::Kubeconfig::read_from(up.kubeconfig()).unwrap();
    let kubeconfig = serde_json::to_value(kubeconfig).unwrap();
    let server = kubeconfig["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let port = server.rsplit(':').next().unwrap().parse().unwrap();
    (up, port, kubeconfig)
}

/// A proxy that connects every name to one port of loopback, and reports the first lines of requests.
fn proxy_to(port: u16) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let own = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || tunnel(client.unwrap(), port, &sender));
        }
    });
    (own, requests)
}

fn tunnel(mut client: TcpStream, port: u16, requests: &Sender<String>) -> Option<()> {
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        header.push(byte[0]);
    }
    let header = String::from_utf8(header).unwrap();
    // The receiver ends with the test.
    let _ = requests.send(header.lines().next().unwrap().to_owned());
    let server = TcpStream::connect(("127.0.0.1", port)).ok()?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let (client, server) = (Arc::new(client), Arc::new(server));
    let (from, to) = (Arc::clone(&server), Arc::clone(&client));
    std::thread::spawn(move || copy(&from, &to));
    copy(&client, &server);
    Some(())
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_remote_cluster_is_reached_through_the_proxy_by_all_programs() {
    let folder = tempfile::tempdir().unwrap();
    let (server, port, mut kubeconfig) = api_server(folder.path());
    let cluster = &mut kubeconfig["clusters"][0]["cluster"];
    cluster["server"] = format!("https://{NAME}:6443").into();
    cluster["tls-server-name"] = "localhost".into();
    let path = folder.path().join("remote");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let (proxy, requests) = proxy_to(port);
    let output = drydock_program()
        .args(["run", "lifecycle", "--stage", "kubeconfig", "--yes", "--kubeconfig"])
        .arg(&path)
        .envs(CLOSED)
        .env("HTTPS_PROXY", format!("http://127.0.0.1:{proxy}"))
        .env("NO_PROXY", "other.example, 10.0.0.0/8")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    let lines: Vec<String> = requests.try_iter().collect();
    let expected = format!("CONNECT {NAME}:6443 HTTP/1.1");
    assert_eq!(
        lines.iter().collect::<BTreeSet<_>>(),
        BTreeSet::from([&expected]),
        "no connection to loopback uses the proxy"
    );
    // drydock itself, mcm, and the kubelets of fakecloud.
    assert!(lines.len() >= 3, "{}", lines.len());
    server.end();
}

#[test]
fn an_excluded_name_is_not_sent_to_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": format!("https://{NAME}:6443") } }],
        "users": [{ "name": "u", "user": { "token": "t" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
    });
    std::fs::write(folder.path().join("remote"), kubeconfig.to_string()).unwrap();
    let (proxy, requests) = proxy_to(1);
    let faults = |no: &str| {
        let output = drydock_program()
            .args(["faults", "list", "--kubeconfig", "remote"])
            .env("HTTPS_PROXY", format!("http://127.0.0.1:{proxy}"))
            .env("NO_PROXY", no)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(!output.status.success());
        requests.try_iter().count()
    };
    assert_eq!(faults(".example.invalid"), 0);
    assert_eq!(faults("*"), 0);
    assert!(faults("") > 0);
}
