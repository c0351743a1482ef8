//! Containers of the images: start, requests, stop.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::time::Duration;

use clock::Clock;
use fakecloud::certificates::{Certificates, Subject};
use mcm_driver::tls::{Tls, TlsFiles};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a container may take to start.
const STARTUP: Duration = Duration::from_secs(30);
/// How long the programs may take to stop.
const END: Duration = Duration::from_secs(2);

/// New certificates, as files on the host.
pub struct Authority {
    folder: TempDir,
    certificates: Certificates,
}

impl Authority {
    pub fn new() -> Self {
        let subject = Subject {
            name: "fakecloud".to_owned(),
            namespace: "default".to_owned(),
            days: 1,
        };
        let certificates = Certificates::issue(subject, Clock::wall().now()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        certificates.write(folder.path()).unwrap();
        Self { folder, certificates }
    }

    /// The TLS configuration of a machine controller on the host.
    pub fn client(&self) -> Tls {
        self.tls("client")
    }

    /// The TLS configuration of a control client on the host.
    pub fn control(&self) -> Tls {
        self.tls("control")
    }

    fn tls(&self, side: &str) -> Tls {
        Tls {
            files: TlsFiles {
                ca: self.folder.path().join("ca.crt"),
                cert: self.folder.path().join(format!("{side}.crt")),
                key: self.folder.path().join(format!("{side}.key")),
            },
            server_name: None,
        }
    }

    /// Private keys; no log may contain them.
    pub fn keys(&self) -> [&str; 3] {
        let Certificates {
            server,
            client,
            control,
            ..
        } = &self.certificates;
        [&server.key, &client.key, &control.key]
    }
}

/// The files of a container.
pub fn files(authority: &Authority, kubeconfig: &str) -> Vec<(&'static str, String)> {
    let Certificates {
        authority,
        control_authority,
        server,
        client,
        ..
    } = &authority.certificates;
    vec![
        ("/tls/ca.crt", authority.clone()),
        ("/tls/control-ca.crt", control_authority.clone()),
        ("/tls/server.crt", server.certificate.clone()),
        ("/tls/server.key", server.key.clone()),
        ("/tls/client.crt", client.certificate.clone()),
        ("/tls/client.key", client.key.clone()),
        ("/kubeconfig", kubeconfig.to_owned()),
    ]
}

/// A container. It is removed when it is dropped.
pub struct Container {
    id: String,
}

impl Drop for Container {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = Command::new("docker").args(["logs", &self.id]).status();
        }
        let _ = Command::new("docker")
            .args(["rm", "--force", "--volumes", &self.id])
            .output();
    }
}

/// Runs a command of the engine's client that must succeed.
fn docker(arguments: &[&str]) -> Output {
    let call = || Command::new("docker").args(arguments).output().unwrap();
    // The API server of the test runs on the same threads.
    let output = tokio::task::block_in_place(call);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "docker {arguments:?}: {errors}");
    output
}

impl Container {
    /// A running container on the host's network, without capabilities.
    fn run(image: &str, arguments: &[&str], files: Vec<(&'static str, String)>) -> Self {
        let create = ["create", "--network=host", "--cap-drop=ALL", image];
        let created = docker(&[&create, arguments].concat());
        let container = Self {
            id: String::from_utf8(created.stdout).unwrap().trim().to_owned(),
        };
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = folder.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o444)).unwrap();
        }
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let copied = format!("{}/.", folder.path().display());
        docker(&["cp", &copied, &format!("{}:/", container.id)]);
        docker(&["start", &container.id]);
        container
    }

    /// The complete output.
    pub fn log(&self) -> String {
        let Output { stdout, stderr, .. } = docker(&["logs", &self.id]);
        String::from_utf8([stdout, stderr].concat()).unwrap()
    }

    /// Waits until the container exits; returns its status.
    fn exit_code(&self) -> String {
        String::from_utf8(docker(&["wait", &self.id]).stdout)
            .unwrap()
            .trim()
            .to_owned()
    }

    fn is_running(&self) -> bool {
        docker(&["inspect", "--format={{.State.Running}}", &self.id])
            .stdout
            .starts_with(b"true")
    }
}

/// Starts a container and waits until its output contains `ready`.
pub async fn start(image: &str, arguments: &[&str], files: Vec<(&'static str, String)>, ready: &str) -> Container {
    let container = Container::run(image, arguments, files);
    let clock = Clock::wall();
    let started = clock.now();
    loop {
        // Read the state first: a container that ended has written its last line.
        let running = container.is_running();
        let log = container.log();
        if log.contains(ready) {
            return container;
        }
        let waited = Duration::try_from(clock.now().duration_since(started)).unwrap();
        assert!(
            running && waited < STARTUP,
            "no line with {ready:?} after {waited:?}: {log}"
        );
        clock.sleep(Duration::from_millis(50)).await;
    }
}

/// Runs a container that must fail; returns its output.
pub fn fails(image: &str, arguments: &[&str]) -> String {
    let container = Container::run(image, arguments, Vec::new());
    assert_ne!(container.exit_code(), "0");
    container.log()
}

/// Asserts that the container exits with status 0 in time after SIGTERM.
pub fn assert_stops_gracefully(container: &Container) {
    let clock = Clock::wall();
    let signalled = clock.now();
    docker(&["kill", "--signal=TERM", &container.id]);
    assert_eq!(container.exit_code(), "0", "{}", container.log());
    let took = Duration::try_from(clock.now().duration_since(signalled)).unwrap();
    assert!(took < END, "it took {took:?}: {}", container.log());
}

/// The response to a GET: status line, headers and body.
pub async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The metrics; asserts that every line is valid for a scraper.
pub async fn metrics(address: SocketAddr) -> String {
    let answer = get(address, "/metrics").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body.lines().last(), Some("# EOF"));
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let name = name.split('{').next().unwrap();
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
        assert!(!name.is_empty() && name.bytes().all(letters), "{line}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    body.to_owned()
}
