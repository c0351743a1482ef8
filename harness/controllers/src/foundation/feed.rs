//! Listing and watching one kind, with the list's revision at hand and pauses on the project's clock.
//!
//! A list that is in is never repeated unless the server says that its revision is too old.

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

/// How long a feed rests after an error.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// How long it rests when the kind may not be read: only an operator changes that.
const PAUSE_WHEN_REFUSED: Duration = Duration::from_secs(30);
/// How long it rests when the server has no such kind, doubled each time. Kinds that come and go are
/// not watched by asking; see the catalog.
const PAUSE_WHEN_UNSERVED: Duration = Duration::from_secs(600);
const LONGEST_PAUSE_WHEN_UNSERVED: Duration = Duration::from_secs(24 * 3600);
/// How much longer a watch may be silent than it was asked for before it is given up.
const SILENCE_MARGIN: Duration = Duration::from_secs(10);
/// How long one page of a list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
const PAGE: u32 = 1000;

/// Which objects of a kind are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All of them.
    All,
    /// Those of one namespace.
    Namespace(&'static str),
    /// Those that a field selector of the form `metadata.name=NAME` selects.
    Fields(&'static str),
}

impl Selection {
    /// Whether an object is among those that are watched.
    pub(crate) fn covers(self, object: &Value) -> bool {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        match self {
            Self::All => true,
            Self::Namespace(namespace) => text("namespace") == namespace,
            Self::Fields(fields) => fields.strip_prefix("metadata.name=") == Some(text("name").as_str()),
        }
    }
}

/// What a feed has seen.
#[derive(Debug)]
pub(crate) enum Sighting<T> {
    /// The whole collection.
    Listed {
        /// Every object.
        objects: Vec<T>,
        /// The collection's revision.
        revision: u64,
    },
    /// An object is new or has changed.
    Applied(T),
    /// An object is gone; its last state with the revision of its removal.
    Deleted(T),
    /// The server has no such kind.
    NotServed,
}

/// The endless stream of sightings of one kind; of metadata alone when `metadata` is set.
pub(crate) fn sightings<T>(
    client: Client,
    clock: Clock,
    resource: Arc<ResourceType>,
    selection: Selection,
    metadata: bool,
) -> BoxStream<'static, Sighting<T>>
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
        let sighting = feed.next().await;
        Some((sighting, feed))
    })
    .boxed()
}

/// An item as lists and watches carry it. Cloning is what kube's stream asks of it and never does.
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
    /// Where the watch goes on; `None` when a list is due.
    revision: Option<String>,
    events: Option<BoxStream<'static, kube::Result<WatchEvent<Item<T>>>>>,
    /// Whether the current watch has brought anything.
    heard: bool,
    /// Whether a refusal has been logged.
    reported: bool,
    /// How long to rest if the server still has no such kind.
    pause_when_unserved: Duration,
}

impl<T: Object + DeserializeOwned> Feed<T> {
    async fn next(&mut self) -> Sighting<T> {
        loop {
            let sighting = if self.events.is_some() {
                self.hear().await
            } else if let Some(revision) = self.revision.clone() {
                self.watch(&revision).await;
                None
            } else {
                self.list().await
            };
            if let Some(sighting) = sighting {
                return sighting;
            }
        }
    }

    fn request(&self) -> Request {
        match self.selection {
            Selection::Namespace(namespace) => Request::new(self.resource.path(namespace)),
            Selection::All | Selection::Fields(_) => Request::new(self.resource.path("")),
        }
    }

    async fn list(&mut self) -> Option<Sighting<T>> {
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
            let asked = self.client.request::<ObjectList<Item<T>>>(request);
            let page = match tokio::time::timeout(LIST_TIMEOUT, asked).await {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => return self.refused("list", &error).await,
                Err(_) => return self.failed("list", &"no answer in time").await,
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
                    return Some(Sighting::Listed { objects, revision });
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
        let asked = self.client.request_events::<Item<T>>(request);
        match tokio::time::timeout(LIST_TIMEOUT, asked).await {
            Ok(Ok(events)) => self.events = Some(events.boxed()),
            Ok(Err(kube::Error::Api(status))) if status.code == 410 => self.revision = None,
            Ok(Err(error)) => {
                self.revision = None;
                self.refused("watch", &error).await;
            }
            Err(_) => {
                self.failed("watch", &"no answer in time").await;
            }
        }
    }

    async fn hear(&mut self) -> Option<Sighting<T>> {
        let Some(events) = &mut self.events else {
            return None;
        };
        let limit = Duration::from_secs(u64::from(self.clock.watch_seconds())) + SILENCE_MARGIN;
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
                Arc::into_inner(item.0).map(Sighting::Applied)
            }
            WatchEvent::Deleted(item) => {
                self.revision = item.0.metadata().resource_version.clone();
                Arc::into_inner(item.0).map(Sighting::Deleted)
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

    /// An error that the next attempt may not meet.
    async fn failed(&mut self, verb: &str, error: &(impl std::fmt::Display + ?Sized)) -> Option<Sighting<T>> {
        tracing::warn!(resource = %self.resource, %error, "{verb} failed; trying again");
        self.clock.sleep(PAUSE_AFTER_ERROR).await;
        None
    }

    async fn refused(&mut self, verb: &str, error: &kube::Error) -> Option<Sighting<T>> {
        let kube::Error::Api(status) = error else {
            return self.failed(verb, error).await;
        };
        if !matches!(status.code, 401 | 403 | 404 | 405) {
            return self.failed(verb, error).await;
        }
        let first = !std::mem::replace(&mut self.reported, true);
        if matches!(status.code, 404 | 405) {
            if first {
                return Some(Sighting::NotServed);
            }
            self.clock.sleep(self.pause_when_unserved).await;
            self.pause_when_unserved = (self.pause_when_unserved * 2).min(LONGEST_PAUSE_WHEN_UNSERVED);
            return None;
        }
        if first {
            tracing::warn!(resource = %self.resource, %error, "may not {verb}; asking again every {PAUSE_WHEN_REFUSED:?}");
        }
        self.clock.sleep(PAUSE_WHEN_REFUSED).await;
        None
    }
}
