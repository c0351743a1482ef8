//! The connection to the API servers of machines and nodes, as health checks see it: whether it exists, and when the last
//! outage ended.
//!
//! A check must not take the time of an outage for time in which a machine was unhealthy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mcm_core::health_check;
use mcm_core::safety::api_health::ApiHealth;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The connection. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the connection is lost or exists again.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The kinds whose watch failed, and does not work again so far.
    failed: BTreeSet<String>,
    lost: Option<Timestamp>,
    /// When this process began to observe the clusters.
    begun: Option<Timestamp>,
    after_outage: Option<Timestamp>,
}

impl Connection {
    /// The watch of that kind failed.
    pub(crate) fn watch_failed(&self, kind: &str) {
        self.0.state.lock().failed.insert(kind.to_owned());
    }

    /// The watch of that kind works.
    pub(crate) fn watch_works(&self, kind: &str) {
        let mut state = self.0.state.lock();
        if !state.failed.is_empty() {
            state.failed.remove(kind);
        }
    }

    /// Compares the state of watches and probes with the last one. An outage that is shorter than `tolerated` does not
    /// count when it is over.
    pub(crate) fn observe(&self, health: ApiHealth, tolerated: Duration, now: Timestamp) {
        let mut state = self.0.state.lock();
        state.begun.get_or_insert(now);
        let since = match health {
            ApiHealth::Down { since } => Some(since),
            ApiHealth::Frozen => Some(now),
            ApiHealth::Up | ApiHealth::Unknown => None,
        };
        let since = since.or((!state.failed.is_empty()).then_some(now));
        match (state.lost, since) {
            (None, Some(since)) => state.lost = Some(since),
            (Some(lost), None) => {
                state.lost = None;
                if Duration::try_from(now.duration_since(lost)).unwrap_or_default() >= tolerated {
                    state.after_outage = Some(now);
                }
            }
            _ => return,
        }
        self.0.changed.notify_one();
    }

    /// Waits until the connection is lost or exists again.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// The connection for a decision.
    pub(crate) fn current(&self) -> health_check::Connection {
        let state = self.0.state.lock();
        match state.lost {
            Some(since) => health_check::Connection::Lost { since },
            None => health_check::Connection::Up {
                since: state.begun,
                after_outage: state.after_outage,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERATED: Duration = Duration::from_secs(30);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_end_of_a_long_outage_is_remembered() {
        let connection = Connection::default();
        let up = |after_outage| health_check::Connection::Up {
            since: Some(at(110)),
            after_outage,
        };
        connection.observe(ApiHealth::Down { since: at(100) }, TOLERATED, at(110));
        assert_eq!(connection.current(), health_check::Connection::Lost { since: at(100) });
        connection.observe(ApiHealth::Up, TOLERATED, at(120));
        assert_eq!(connection.current(), up(None), "a short outage does not count");
        connection.watch_failed("Node");
        connection.observe(ApiHealth::Up, TOLERATED, at(200));
        connection.observe(ApiHealth::Frozen, TOLERATED, at(250));
        connection.watch_works("Machine");
        connection.observe(ApiHealth::Up, TOLERATED, at(260));
        assert_eq!(connection.current(), health_check::Connection::Lost { since: at(200) });
        connection.watch_works("Node");
        connection.observe(ApiHealth::Up, TOLERATED, at(270));
        assert_eq!(connection.current(), up(Some(at(270))));
    }
}
