//! Watch connections: a stream of lines, bookmarks, and the end of it.

use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, stream};
use jiff::{SignedDuration, Timestamp};

use super::render::{Presentation, error_event};
use crate::observe::DeliveryRecord;
use crate::registry::{Entry, Event, Watch};
use crate::server::Inner;
use crate::status::ApiError;

const BOOKMARK_PERIOD: SignedDuration = SignedDuration::from_secs(60);
/// A last bookmark goes out this long before a watch ends.
const BOOKMARK_LEAD: SignedDuration = SignedDuration::from_secs(2);

/// One watch connection.
pub(super) struct Feed {
    pub(super) server: Arc<Inner>,
    pub(super) client: String,
    pub(super) entry: Entry,
    pub(super) watch: Watch,
    pub(super) presentation: Presentation,
    pub(super) deadline: Timestamp,
    pub(super) bookmarks: bool,
}

/// Where a feed is.
struct State {
    feed: Feed,
    next_bookmark: Timestamp,
    first: bool,
    ended: bool,
}

impl Feed {
    /// The lines of the watch, until it ends.
    pub(super) fn lines(self) -> impl Stream<Item = Bytes> + Send + 'static {
        let now = self.server.registry.clock().now();
        let next_bookmark = following_bookmark(now, self.deadline);
        let state = State {
            feed: self,
            next_bookmark,
            first: true,
            ended: false,
        };
        stream::unfold(state, |mut state| async move {
            let line = state.line().await?;
            Some((line, state))
        })
    }
}

impl State {
    async fn line(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        loop {
            let feed = &mut self.feed;
            if feed.server.shutdown.is_cancelled() {
                return None;
            }
            let event = match feed.watch.next(&feed.server.registry) {
                Ok(event) => event,
                Err(Some(error)) => {
                    self.ended = true;
                    deliver(&self.feed, "ERROR", "", "", self.feed.watch.revision());
                    return Some(error_event(&error));
                }
                Err(None) => return None,
            };
            let now = feed.server.registry.clock().now();
            if let Some(event) = event {
                return Some(self.send(&event, now));
            }
            if now >= feed.deadline {
                return None;
            }
            if feed.bookmarks && now >= self.next_bookmark {
                self.next_bookmark = following_bookmark(now, feed.deadline);
                let event = Event::Bookmark {
                    revision: feed.watch.revision(),
                    initial_events_end: false,
                };
                return Some(self.send(&event, now));
            }
            let wake = if feed.bookmarks {
                feed.deadline.min(self.next_bookmark)
            } else {
                feed.deadline
            };
            let server = Arc::clone(&feed.server);
            tokio::select! {
                biased;
                () = server.shutdown.cancelled() => return None,
                () = feed.watch.changed() => {}
                () = server.registry.clock().sleep_until(wake) => {}
            }
        }
    }

    fn send(&mut self, event: &Event, now: Timestamp) -> Bytes {
        let feed = &self.feed;
        match event {
            Event::Object { kind, object, revision } => {
                deliver(feed, kind.event(), &object.key.namespace, &object.key.name, *revision);
            }
            Event::Bookmark { revision, .. } => deliver(feed, "BOOKMARK", "", "", *revision),
        }
        let first = std::mem::take(&mut self.first);
        let line: Result<Bytes, ApiError> = feed.presentation.event(&feed.entry, event, now, first);
        line.unwrap_or_else(|error| {
            self.ended = true;
            error_event(&error)
        })
    }
}

/// A minute from now, but no later than shortly before the end.
fn following_bookmark(now: Timestamp, deadline: Timestamp) -> Timestamp {
    let regular = now + BOOKMARK_PERIOD;
    let last = deadline - BOOKMARK_LEAD;
    if now < last { regular.min(last) } else { deadline }
}

fn deliver(feed: &Feed, event: &str, namespace: &str, name: &str, revision: u64) {
    if let Some(observer) = &feed.server.observer {
        let resource = &feed.entry.table;
        observer.delivery(&DeliveryRecord {
            client: &feed.client,
            resource,
            event,
            namespace,
            name,
            revision,
        });
    }
}
