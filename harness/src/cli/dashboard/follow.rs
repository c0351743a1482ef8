//! Follows the world for the open pages. Without them nothing is watched after a while, so that an unused dashboard costs nothing.

use std::time::Duration;

use clock::Clock;
use dashboard::Shared;
use dashboard::server::Readers;
use futures::stream::{self, StreamExt};
use scenario::kinds;
use scenario::observation::Seen;
use stage::audit::Audit;
use stage::cloud::CloudClient;
use stage::clusters::Clusters;

use super::cloud::{CloudChange, follow_cloud};
use crate::engine::observe::{Raw, watch_kinds};

/// How long the world is followed after the last page was closed: a page that is loaded again goes on.
const LINGER: Duration = Duration::from_mins(5);

/// The first status of a response that refuses a request.
const FIRST_REFUSAL: u16 = 400;

/// What changed.
enum Change {
    Object(Raw),
    Cloud(CloudChange),
}

/// What is watched, and for whom.
pub(super) struct Watched {
    pub(super) clusters: Clusters,
    pub(super) cloud: CloudClient,
    pub(super) clock: Clock,
    pub(super) readers: Readers,
    /// The records of the controller's requests; empty: the API server is not one of drydock.
    pub(super) audits: Vec<Audit>,
}

impl Watched {
    /// Follows the world while pages are open.
    pub(super) async fn follow(self, world: &Shared) {
        loop {
            while self.readers.count() == 0 {
                self.readers.changed().await;
            }
            world.lock().restart(self.clock.now());
            tokio::select! {
                () = self.observe(world) => {}
                () = self.all_closed() => {}
            }
        }
    }

    /// Passes all observations to the model.
    async fn observe(&self, world: &Shared) {
        let kinds: Vec<_> = kinds::watched().collect();
        let objects = watch_kinds(&self.clusters, &kinds, &self.clock).map(Change::Object);
        let cloud = follow_cloud(self.cloud.clone(), self.clock.clone()).map(Change::Cloud);
        let requests = stream::select_all(self.audits.iter().map(Audit::follow))
            .filter(|request| std::future::ready(request.code >= FIRST_REFUSAL))
            .map(|request| Change::Object(Raw::Request(request)));
        let mut changes = stream::select(stream::select(objects, cloud), requests);
        while let Some(change) = changes.next().await {
            let now = self.clock.now();
            let mut world = world.lock();
            let raw = match change {
                Change::Object(raw) => raw,
                Change::Cloud(CloudChange::Vms(vms)) => {
                    world.listed_vms(now, vms);
                    continue;
                }
                Change::Cloud(CloudChange::Event(event)) => Raw::Cloud(event),
                Change::Cloud(CloudChange::Failed(what)) => Raw::Failure(what),
            };
            match raw {
                Raw::Applied(kind, object) => world.observe(now, Seen::Applied(kind, object)),
                Raw::Deleted(kind, object) => world.observe(now, Seen::Deleted(kind, object)),
                Raw::Left(kind, names) => world.listed(now, kind, &names),
                Raw::Cloud(event) => world.observe(now, Seen::Cloud(event)),
                Raw::Request(request) => world.observe(now, Seen::Request(request)),
                Raw::Note(what) | Raw::Failure(what) => world.observe(now, Seen::Note(what)),
                Raw::Listed(_) | Raw::NotServed(_) => {}
            }
        }
    }

    /// Waits until no page has been open for some time.
    async fn all_closed(&self) {
        loop {
            while self.readers.count() > 0 {
                self.readers.changed().await;
            }
            tokio::select! {
                () = self.clock.sleep(LINGER) => return,
                () = self.readers.changed() => {}
            }
        }
    }
}
