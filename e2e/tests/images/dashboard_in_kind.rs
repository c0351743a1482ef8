//! The dashboard of `drydock up --stage kind`, which follows pods of a real cluster.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::session::{END_LIMIT, Running, Session};

/// How long the page may take to show something: pods start meanwhile.
const SHOWN_LIMIT: Duration = Duration::from_secs(60);
/// How long a restart of mcm may take.
const RESTART_LIMIT: Duration = Duration::from_mins(2);

/// A client with the secret of the dashboard.
struct Dashboard {
    address: String,
    secret: String,
}

impl Dashboard {
    /// That of a session which printed its address.
    fn of(session: &Running) -> Self {
        let line = session.printed.last().unwrap();
        let (_, url) = line.split_once("http://").unwrap();
        let (address, secret) = url.split_once("/?token=").unwrap();
        Self {
            address: address.to_owned(),
            secret: secret.to_owned(),
        }
    }

    /// The connection on which a request was sent.
    async fn send(&self, request: &str, headers: &str, body: &str) -> TcpStream {
        let Self { address, secret } = self;
        let (_, port) = address.split_once(':').unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "{request} HTTP/1.1\r\nhost: {address}\r\ncookie: drydock-dashboard-{port}={secret}\r\n{headers}\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// Waits until the events of an open page have all texts.
    async fn shows(&self, texts: &[&str]) {
        let mut stream = self.send("GET /api/events", "", "").await;
        let mut seen = Vec::new();
        let reading = async {
            while stream.read_buf(&mut seen).await.unwrap() > 0 {
                let events = String::from_utf8_lossy(&seen);
                if texts.iter().all(|text| events.contains(text)) {
                    return;
                }
            }
        };
        let shown = tokio::time::timeout(SHOWN_LIMIT, reading).await;
        let events = String::from_utf8_lossy(&seen);
        assert!(
            shown.is_ok() && texts.iter().all(|text| events.contains(text)),
            "{events}"
        );
    }

    /// The answer to an injected fault.
    async fn inject(&self, fault: &str) -> String {
        let headers = format!("origin: http://{}\r\nx-drydock-request: 1\r\n", self.address);
        let body = format!("{{\"fault\":{fault:?}}}");
        let mut stream = self.send("POST /api/faults", &headers, &body).await;
        let mut answer = String::new();
        let read = tokio::time::timeout(RESTART_LIMIT, stream.read_to_string(&mut answer)).await;
        read.unwrap().unwrap();
        answer
    }
}

#[tokio::test]
async fn it_shows_the_nodes_of_the_cluster_and_restarts_mcm() {
    let mut session = Session::new(&["up", "--stage", "kind", "--nodes", "1", "--buttons"]);
    let mut running = session.start();
    running.wait_for_line("The dashboard is at ").await;
    let dashboard = Dashboard::of(&running);
    dashboard.shows(&["-control-plane", "node-0"]).await;
    let answer = dashboard.inject("process.restart").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let refused = dashboard.inject("process.pause").await;
    assert!(refused.starts_with("HTTP/1.1 4"), "{refused}");
    running.interrupt();
    let (status, printed, error) = running.ends(END_LIMIT).await;
    assert_eq!(status, Some(0), "{error}");
    session.assert_nothing_is_left("up", &printed).await;
}
