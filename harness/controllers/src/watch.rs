//! Watching one kind of object, with a pause after errors that is kept on the project's clock.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use clock::Clock;
use futures::{Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// How long a watch rests after an error before it is tried again.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// The endless list-and-watch of one kind of object.
///
/// kube's own back-off jitters from a source outside the seed, hence this one.
pub(crate) struct Watch<K> {
    what: &'static str,
    clock: Clock,
    events: Pin<Box<dyn Stream<Item = watcher::Result<Event<K>>> + Send>>,
    paused_until: Option<Timestamp>,
}

impl<K> Watch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    /// Watches everything that `api` reaches; `what` names it in logs.
    pub(crate) fn new(what: &'static str, api: Api<K>, clock: Clock) -> Self {
        let events = Box::pin(watcher(api, watcher::Config::default()));
        Self {
            what,
            clock,
            events,
            paused_until: None,
        }
    }

    /// The next event. May be dropped and called again without losing one.
    pub(crate) async fn next(&mut self) -> Event<K> {
        loop {
            if let Some(until) = self.paused_until {
                self.clock.sleep_until(until).await;
                self.paused_until = None;
            }
            match self.events.next().await {
                Some(Ok(event)) => return event,
                Some(Err(error)) => {
                    tracing::warn!(what = self.what, %error, "watch broke off; trying again");
                    self.paused_until =
                        Some(self.clock.now() + SignedDuration::try_from(PAUSE_AFTER_ERROR).unwrap_or_default());
                }
                None => std::future::pending().await,
            }
        }
    }
}
