//! Lists and watches one kind, tracks the list's revision, and pauses on the project's clock.
//!
//! A feed relists only if the server reports that the revision is too old.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use futures::stream::{BoxStream, StreamExt};
use kube::Client;
use kube::api::{ListParams, Request, WatchEvent, WatchParams};
use kube::core::ObjectList;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::resource::{Object, ResourceType};

/// The pause after an error.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The pause when the server denies access; only an operator changes that.
const PAUSE_WHEN_REFUSED: Duration = Duration::from_secs(30);
/// The first pause when the server does not serve the kind, doubled each time. Kinds that come and go are not
/// polled; see the catalog.
const PAUSE_WHEN_UNSERVED: Duration = Duration::from_secs(600);
const LONGEST_PAUSE_WHEN_UNSERVED: Duration = Duration::from_secs(24 * 3600);
/// How long a watch may stay open beyond its requested timeout before the feed abandons it.
const SILENCE_MARGIN: Duration = Duration::from_secs(10);
/// The timeout for one page of a list.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
const PAGE: u32 = 1000;

/// The subset of a kind's objects that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All objects.
    All,
    /// The objects of one namespace.
    Namespace(&'static str),
    /// The object that the field selector `metadata.name=NAME` selects.
    Fields(&'static str),
}

impl Selection {
    /// Whether an object belongs to this subset.
    pub(crate) fn covers(self, object: &Value) -> bool {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        match self {
            Self::All => true,
            Self::Namespace(namespace) => text("namespace") == namespace,
            Self::Fields(fields) => fields.strip_prefix("metadata.name=") == Some(text("name").as_str()),
        }
    }
}

/// One event of a feed.
#[derive(Debug)]
pub(crate) enum FeedEvent<T> {
    /// A complete list.
    Listed {
        /// All objects.
        objects: Vec<T>,
        /// The list's revision.
        revision: u64,
    },
    /// An object was created or updated.
    Applied(T),
    /// An object was deleted; its last state, with the revision of the deletion.
    Deleted(T),
    /// The server does not serve the kind.
    NotServed,
}

/// The endless stream of events of one kind; metadata only when `metadata` is set.
pub(crate) fn feed_events<T>(
    client: Client,
    clock: Clock,
    resource: Arc<ResourceType>,
    selection: Selection,
    metadata: bool,
) -> BoxStream<'static, FeedEvent<T>>
where
    T: Object + DeserializeOwned,
{
    let feed = Feed {
        client,
        clock,
        resource,
        selection,
        metadata,
        revision: None,
        events: None,
        heard: true,
        reported: false,
        pause_when_unserved: PAUSE_WHEN_UNSERVED,
    };
    futures::stream::unfold(feed, |mut feed| async move {
        let feed_event = feed.next().await;
        Some((feed_event, feed))
    })
    .boxed()
}

/// An item of a list or watch. kube's stream requires `Clone` but never clones.
#[derive(Deserialize)]
#[serde(transparent)]
struct Item<T>(Arc<T>);

impl<T> Clone for Item<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Feed<T> {
    client: Client,
    clock: Clock,
    resource: Arc<ResourceType>,
    selection: Selection,
    metadata: bool,
    /// The revision from which the watch continues; `None` when a list is due.
    revision: Option<String>,
    events: Option<BoxStream<'static, kube::Result<WatchEvent<Item<T>>>>>,
    /// Whether the current watch has delivered an event.
    heard: bool,
    /// Whether the refusal has been logged.
    reported: bool,
    /// The next pause if the server still does not serve the kind.
    pause_when_unserved: Duration,
}

impl<T: Object + DeserializeOwned> Feed<T> {
    async fn next(&mut self) -> FeedEvent<T> {
        loop {
            let feed_event = if self.events.is_some() {
                self.next_event().await
            } else if let Some(revision) = self.revision.clone() {
                self.watch(&revision).await;
                None
            } else {
                self.list().await
            };
            if let Some(feed_event) = feed_event {
                return feed_event;
            }
        }
    }

    fn request(&self) -> Request {
        match self.selection {
            Selection::Namespace(namespace) => Request::new(self.resource.path(namespace)),
            Selection::All | Selection::Fields(_) => Request::new(self.resource.path("")),
        }
    }

    async fn list(&mut self) -> Option<FeedEvent<T>> {
        let mut parameters = ListParams::default().limit(PAGE);
        if let Selection::Fields(fields) = self.selection {
            parameters = parameters.fields(fields);
        }
        let mut objects = Vec::new();
        loop {
            let request = if self.metadata {
                self.request().list_metadata(&parameters)
            } else {
                self.request().list(&parameters)
            };
            let request = match request {
                Ok(request) => request,
                Err(error) => return self.failed("list", &error).await,
            };
            let response = self.client.request::<ObjectList<Item<T>>>(request);
            let page = match tokio::time::timeout(LIST_TIMEOUT, response).await {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => return self.refused("list", &error).await,
                Err(_) => return self.failed("list", &"timed out").await,
            };
            objects.extend(page.items.into_iter().filter_map(|item| Arc::into_inner(item.0)));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => {
                    let text = page.metadata.resource_version.unwrap_or_default();
                    let revision = text.parse().unwrap_or_default();
                    self.revision = Some(text);
                    self.reported = false;
                    self.pause_when_unserved = PAUSE_WHEN_UNSERVED;
                    return Some(FeedEvent::Listed { objects, revision });
                }
            }
        }
    }

    async fn watch(&mut self, revision: &str) {
        if !self.heard {
            self.clock.sleep(PAUSE_AFTER_ERROR).await;
        }
        self.heard = false;
        let mut parameters = WatchParams::default().timeout(self.clock.watch_seconds());
        if let Selection::Fields(fields) = self.selection {
            parameters = parameters.fields(fields);
        }
        let request = if self.metadata {
            self.request().watch_metadata(&parameters, revision)
        } else {
            self.request().watch(&parameters, revision)
        };
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                self.failed("watch", &error).await;
                return;
            }
        };
        let response = self.client.request_events::<Item<T>>(request);
        match tokio::time::timeout(LIST_TIMEOUT, response).await {
            Ok(Ok(events)) => self.events = Some(events.boxed()),
            Ok(Err(kube::Error::Api(status))) if status.code == 410 => self.revision = None,
            Ok(Err(error)) => {
                self.revision = None;
                self.refused("watch", &error).await;
            }
            Err(_) => {
                self.failed("watch", &"timed out").await;
            }
        }
    }

    async fn next_event(&mut self) -> Option<FeedEvent<T>> {
        let Some(events) = &mut self.events else {
            return None;
        };
        let limit = Duration::from_secs(u64::from(self.clock.watch_seconds())).saturating_add(SILENCE_MARGIN);
        let event = match tokio::time::timeout(limit, events.next()).await {
            Ok(Some(Ok(event))) => event,
            Ok(Some(Err(error))) => {
                self.events = None;
                return self.failed("watch", &error).await;
            }
            Ok(None) | Err(_) => {
                self.events = None;
                return None;
            }
        };
        self.heard = true;
        match event {
            WatchEvent::Added(item) | WatchEvent::Modified(item) => {
                self.revision = item.0.metadata().resource_version.clone();
                Arc::into_inner(item.0).map(FeedEvent::Applied)
            }
            WatchEvent::Deleted(item) => {
                self.revision = item.0.metadata().resource_version.clone();
                Arc::into_inner(item.0).map(FeedEvent::Deleted)
            }
            WatchEvent::Bookmark(bookmark) => {
                self.revision = Some(bookmark.metadata.resource_version);
                None
            }
            WatchEvent::Error(status) => {
                self.events = None;
                self.revision = None;
                if status.code == 410 {
                    None
                } else {
                    self.failed("watch", &status).await
                }
            }
        }
    }

    /// Handles a transient error.
    async fn failed(&mut self, verb: &str, error: &(impl std::fmt::Display + ?Sized)) -> Option<FeedEvent<T>> {
        tracing::warn!(resource = %self.resource, %error, "{verb} failed; retrying");
        self.clock.sleep(PAUSE_AFTER_ERROR).await;
        None
    }

    async fn refused(&mut self, verb: &str, error: &kube::Error) -> Option<FeedEvent<T>> {
        let kube::Error::Api(status) = error else {
            return self.failed(verb, error).await;
        };
        if !matches!(status.code, 401 | 403 | 404 | 405) {
            return self.failed(verb, error).await;
        }
        let first = !std::mem::replace(&mut self.reported, true);
        if matches!(status.code, 404 | 405) {
            if first {
                return Some(FeedEvent::NotServed);
            }
            self.clock.sleep(self.pause_when_unserved).await;
            self.pause_when_unserved = self
                .pause_when_unserved
                .saturating_mul(2)
                .min(LONGEST_PAUSE_WHEN_UNSERVED);
            return None;
        }
        if first {
            tracing::warn!(resource = %self.resource, %error, "{verb} forbidden; retry every {PAUSE_WHEN_REFUSED:?}");
        }
        self.clock.sleep(PAUSE_WHEN_REFUSED).await;
        None
    }
}
