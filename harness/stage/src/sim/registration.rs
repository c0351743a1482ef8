//! Driver processes that register with the replicas of mcm in a simulated world.
//!
//! Their calls pass the gate of the replica that requested them, as if that replica called the cloud: they are its
//! effects, and the cloud's log names it as the caller.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use clock::Stream;
use futures::future::join_all;
use mcm_driver::Driver;
use mcm_driver::registration::{Registrant, Registry};
use scenario::fixtures;
use tokio::sync::watch;

use crate::CLASS_KINDS;

/// The pause before the next registration with a replica.
const AGAIN: Duration = Duration::from_secs(1);

/// Where drivers register with one replica of mcm. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Endpoint(watch::Sender<Option<Replica>>);

/// The current incarnation of a replica.
#[derive(Clone, Debug)]
struct Replica {
    registry: Registry,
    /// The cloud's driver behind the gate of this incarnation.
    cloud: Arc<dyn Driver>,
}

/// Closes the endpoint when dropped, which ends the streams of all drivers.
#[derive(Debug)]
pub(super) struct Opened(Endpoint);

impl Endpoint {
    /// Opens the endpoint for an incarnation, which calls the cloud with `cloud`. Returns the driver of the incarnation.
    pub(super) fn open(&self, cloud: Arc<dyn Driver>, mut sessions: Stream) -> (Arc<dyn Driver>, Opened) {
        let registry = Registry::new(move || sessions.uuid());
        let driver: Arc<dyn Driver> = Arc::new(registry.clone());
        self.0.send_replace(Some(Replica { registry, cloud }));
        (driver, Opened(self.clone()))
    }

    /// Registers with each incarnation, again after a pause.
    async fn stay_registered(self, name: &str) -> Infallible {
        let mut current = self.0.subscribe();
        loop {
            let replica = current.borrow_and_update().clone();
            let registration = async {
                let Some(Replica { registry, cloud }) = replica else {
                    return std::future::pending().await;
                };
                let registrant = Registrant::new(cloud, fixtures::PROVIDER, name).converting([CLASS_KINDS]);
                registrant.run(registry.into_server(), |_| {}).await
            };
            tokio::select! {
                biased;
                // The sender lives as long as `self`.
                _ = current.changed() => {}
                ended = registration => tracing::info!(name, reason = %ended, "the registration ended"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.0.send_replace(None);
    }
}

/// Runs a driver process, which registers with all replicas.
pub(super) async fn stay_registered(replicas: Vec<Endpoint>, name: String) -> Infallible {
    join_all(replicas.into_iter().map(|replica| replica.stay_registered(&name))).await;
    std::future::pending().await
}
