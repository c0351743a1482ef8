//! Containers of the images: start, requests, stop.

use std::net::SocketAddr;
use std::time::Duration;

use clock::Clock;
use fakecloud::certificates::{Certificates, Subject};
use mcm_driver::tls::{Tls, TlsFiles};
use tempfile::TempDir;
use testcontainers::core::WaitFor;
use testcontainers::core::wait::ExitWaitStrategy;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, CopyTargetOptions, GenericImage, ImageExt};
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

    /// The TLS configuration of a client on the host.
    pub fn client(&self) -> Tls {
        let file = |name: &str| self.folder.path().join(name);
        Tls {
            files: TlsFiles {
                ca: file("ca.crt"),
                cert: file("client.crt"),
                key: file("client.key"),
            },
            server_name: None,
        }
    }

    /// Private keys; no log may contain them.
    pub fn keys(&self) -> [&str; 2] {
        [&self.certificates.server.key, &self.certificates.client.key]
    }
}

/// The files of a container.
pub fn files(authority: &Authority, kubeconfig: &str) -> Vec<(&'static str, String)> {
    let Certificates {
        authority,
        server,
        client,
        ..
    } = &authority.certificates;
    vec![
        ("/tls/ca.crt", authority.clone()),
        ("/tls/server.crt", server.certificate.clone()),
        ("/tls/server.key", server.key.clone()),
        ("/tls/client.crt", client.certificate.clone()),
        ("/tls/client.key", client.key.clone()),
        ("/kubeconfig", kubeconfig.to_owned()),
    ]
}

fn request(
    image: GenericImage,
    arguments: &[&str],
    files: Vec<(&'static str, String)>,
    wait: WaitFor,
) -> ContainerRequest<GenericImage> {
    let mut request = image
        .with_wait_for(wait)
        .with_cmd(arguments.iter().copied())
        .with_network("host")
        .with_readonly_rootfs(false)
        .with_cap_drop("ALL")
        .with_startup_timeout(STARTUP);
    for (path, text) in files {
        request = request.with_copy_to(CopyTargetOptions::new(path).with_mode(0o444), text.into_bytes());
    }
    request
}

/// Starts a container and waits until its output contains `ready`.
pub async fn start(
    image: GenericImage,
    arguments: &[&str],
    files: Vec<(&'static str, String)>,
    ready: &str,
) -> ContainerAsync<GenericImage> {
    request(image, arguments, files, WaitFor::message_on_either_std(ready))
        .start()
        .await
        .unwrap()
}

/// Runs a container that must fail; returns its output.
pub async fn fails(image: GenericImage, arguments: &[&str]) -> String {
    let wait = WaitFor::exit(ExitWaitStrategy::new());
    let container = request(image, arguments, Vec::new(), wait).start().await.unwrap();
    assert_ne!(container.exit_code().await.unwrap(), Some(0));
    log(&container).await
}

/// The complete output.
pub async fn log(container: &ContainerAsync<GenericImage>) -> String {
    let mut log = container.stdout_to_vec().await.unwrap();
    log.extend(container.stderr_to_vec().await.unwrap());
    String::from_utf8(log).unwrap()
}

/// Asserts that the container exits with status 0 in time after SIGTERM.
pub async fn assert_stops_gracefully(container: &ContainerAsync<GenericImage>) {
    let clock = Clock::wall();
    let signalled = clock.now();
    container.stop_with_timeout(Some(10)).await.unwrap();
    let took = Duration::try_from(clock.now().duration_since(signalled)).unwrap();
    assert_eq!(
        container.exit_code().await.unwrap(),
        Some(0),
        "{}",
        log(container).await
    );
    assert!(took < END, "it took {took:?}: {}", log(container).await);
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
