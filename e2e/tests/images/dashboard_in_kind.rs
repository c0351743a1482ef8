//! The dashboard of `drydock up --stage kind`, which follows pods of a real cluster.

use std::io::Read;

use crate::dashboard_client::DashboardClient;
use crate::session::{END_LIMIT, Session};

/// Waits until the events of an open page have all texts.
fn shows(page: &DashboardClient, texts: &[&str]) {
    let mut stream = page.send("GET /api/events", "");
    let (mut seen, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let events = String::from_utf8_lossy(&seen);
        if texts.iter().all(|text| events.contains(text)) {
            return;
        }
        let read = stream.read(&mut part).unwrap_or(0);
        assert!(read > 0, "{texts:?} are not all in {events}");
        seen.extend_from_slice(&part[..read]);
    }
}

/// The status line of the answer to an injected fault.
fn inject(page: &DashboardClient, fault: &str) -> String {
    page.request("POST /api/faults", &format!("{{\"fault\":{fault:?}}}")).0
}

#[tokio::test]
async fn it_shows_the_nodes_of_the_cluster_and_restarts_mcm() {
    let mut session = Session::new(&["up", "--stage", "kind", "--nodes", "1", "--buttons", "--seed", "7"]);
    let mut running = session.start();
    running.wait_for_line("The dashboard is at ").await;
    let page = DashboardClient::log_in(&running.printed.join("\n"), "The dashboard is at ");
    shows(&page, &["-control-plane", "node-0"]);
    let restarted = inject(&page, "process.restart");
    assert!(restarted.starts_with("HTTP/1.1 200"), "{restarted}");
    let refused = inject(&page, "process.pause");
    assert!(refused.starts_with("HTTP/1.1 4"), "{refused}");
    running.interrupt();
    let (status, printed, error) = running.ends(END_LIMIT).await;
    assert_eq!(status, Some(0), "{error}");
    session.assert_nothing_is_left("up", &printed).await;
}
