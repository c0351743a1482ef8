//! Watches: selects events from the changes of a table.
//!
//! A [`Watch`] pulls from the store's history; the front end delivers its events.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Entry, FieldSelector, Registry, WatchOptions};
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::status::ApiError;
use crate::store::{Change, ChangeKind, Cursor, Lost, Object, Scope};

/// The number of changes per read from the store.
const BATCH: usize = 128;

/// One event of a watch.
#[derive(Clone, Debug)]
pub enum Event {
    /// An object was added to the selection, changed in it, or left it.
    Object {
        /// The change from this watch's event_of.
        kind: ChangeKind,
        /// The object; for an object that left the selection, its state before.
        object: Arc<Object>,
        /// The revision of the event, which the object shows.
        revision: u64,
    },
    /// All events up to this revision have been sent.
    Bookmark {
        /// The revision.
        revision: u64,
        /// Whether it ends the initial events of a streaming list.
        initial_events_end: bool,
    },
}

/// A running watch.
#[derive(Debug)]
pub struct Watch {
    entry: Entry,
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    ready: VecDeque<Event>,
    cursor: Cursor,
    /// What ended the watch: the cursor can be behind changes that it did not return.
    end: Option<End>,
}

/// The end of a watch: an error, or `None` if its resource is no longer served.
type End = Option<ApiError>;

impl Watch {
    /// The next event, if available. After `Ok(None)` wait with [`Watch::changed`].
    ///
    /// # Errors
    /// 410 if the watch fell behind the history; 500 if a conversion fails; [`Lost::Gone`] as `Err(None)` if its resource
    /// is no longer served. All later calls return the same error.
    pub fn next(&mut self, registry: &Registry) -> Result<Option<Event>, Option<ApiError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if let Some(end) = &self.end {
                return Err(end.clone());
            }
            match registry.store.read(&mut self.cursor, BATCH) {
                Ok(changes) if changes.is_empty() => return Ok(None),
                Ok(changes) => self.prepare(&self.current_entry(registry), &changes),
                Err(Lost::Compacted) => self.end = Some(Some(too_old(self.cursor.revision(), registry))),
                Err(Lost::Gone) => self.end = Some(None),
            }
        }
    }

    /// Adds the events of changes, up to the first one with an object that cannot be converted.
    fn prepare(&mut self, entry: &Entry, changes: &[Change]) {
        if let Ok(all) = shown(entry, changes) {
            let events: Vec<Event> = all.iter().filter_map(|change| self.event_of(change)).collect();
            self.ready.extend(events);
            return;
        }
        for change in changes.chunks(1) {
            match shown(entry, change) {
                Ok(one) => self.ready.extend(one.first().and_then(|change| self.event_of(change))),
                Err(error) => {
                    self.end = Some(Some(error));
                    return;
                }
            }
        }
    }

    /// Waits until there may be a new event.
    pub async fn changed(&mut self) {
        self.cursor.changed().await;
    }

    /// The number of objects among the initial events, before the first call of [`Watch::next`].
    pub fn initial_objects(&self) -> usize {
        let is_object = |event: &&Event| matches!(event, Event::Object { .. });
        self.ready.iter().filter(is_object).count()
    }

    /// The revision up to which all events have been sent.
    pub fn revision(&self) -> u64 {
        self.cursor.revision()
    }

    /// The error for a watch that must restart.
    pub fn expired(&self, registry: &Registry) -> ApiError {
        too_old(self.cursor.revision(), registry)
    }

    /// The entry of the watched version, which a changed definition replaces.
    fn current_entry(&self, registry: &Registry) -> Entry {
        let resource = &self.entry.resource;
        if !resource.is_custom() {
            return self.entry.clone();
        }
        let catalog = registry.catalog();
        let found = catalog.find(&resource.group, &resource.version, &resource.plural);
        found.unwrap_or(&self.entry).clone()
    }

    fn selects(&self, object: &Object) -> bool {
        self.namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == object.key.namespace)
            && self.labels.matches(&object.meta.labels)
            && self.fields.matches(object)
    }

    /// The event of a change from this watch's event_of.
    fn event_of(&self, change: &Change) -> Option<Event> {
        let before = change.previous.as_ref().filter(|previous| self.selects(previous));
        let revision = change.revision;
        let event = |kind, object: &Arc<Object>| Event::Object {
            kind,
            object: Arc::clone(object),
            revision,
        };
        if change.kind == ChangeKind::Deleted {
            return before.map(|_| event(ChangeKind::Deleted, &change.object));
        }
        match (self.selects(&change.object), before) {
            (true, Some(_)) => Some(event(ChangeKind::Modified, &change.object)),
            (true, None) => Some(event(ChangeKind::Added, &change.object)),
            (false, Some(before)) => Some(event(ChangeKind::Deleted, before)),
            (false, None) => None,
        }
    }
}

/// The changes with their objects in the version of the entry, converted together.
fn shown(entry: &Entry, changes: &[Change]) -> Result<Vec<Change>, ApiError> {
    let mut changes = changes.to_vec();
    if !entry.resource.is_custom() {
        return Ok(changes);
    }
    let of_change = |change: &Change| [Some(Arc::clone(&change.object)), change.previous.clone()];
    let objects = changes.iter().flat_map(of_change).flatten().collect();
    let mut objects = entry.shown_all(objects)?.into_iter();
    let mut next = || {
        objects
            .next()
            .ok_or_else(|| ApiError::internal("a conversion has no result"))
    };
    for change in &mut changes {
        change.object = next()?;
        if let Some(previous) = &mut change.previous {
            *previous = next()?;
        }
    }
    Ok(changes)
}

impl Registry {
    /// Starts a watch of one namespace or of all objects.
    ///
    /// # Errors
    /// 410 if the history does not reach back to the revision; the front end sends it as an event.
    pub fn watch(&self, entry: &Entry, namespace: Option<&str>, options: &WatchOptions) -> Result<Watch, ApiError> {
        let scope = Scope {
            namespace: namespace.map(str::to_owned),
            after: None,
        };
        let gone = |resource: &Resource| ApiError::not_found(resource, "");
        let start = |cursor, ready| Watch {
            entry: entry.clone(),
            namespace: scope.namespace.clone(),
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            ready,
            cursor,
            end: None,
        };
        let after = options.revision.filter(|revision| *revision > 0);
        if let (Some(after), None) = (after, options.initial_events) {
            return match self.store.cursor(&entry.table, Some(after)) {
                Ok(cursor) => Ok(start(cursor, VecDeque::new())),
                Err(Lost::Gone) => Err(gone(&entry.resource)),
                Err(Lost::Compacted) => Err(too_old(after, self)),
            };
        }
        let (listing, cursor) = self
            .store
            .snapshot(&entry.table, &scope)
            .map_err(|_| gone(&entry.resource))?;
        let mut watch = start(cursor, VecDeque::new());
        if options.initial_events == Some(false) {
            return Ok(watch);
        }
        let selected: Vec<_> = entry
            .shown_all(listing.objects)?
            .into_iter()
            .filter(|object| watch.selects(object))
            .collect();
        watch.ready.extend(selected.into_iter().map(|object| {
            let revision = object.revision;
            Event::Object {
                kind: ChangeKind::Added,
                object,
                revision,
            }
        }));
        if options.initial_events == Some(true) && options.bookmarks {
            watch.ready.push_back(Event::Bookmark {
                revision: listing.revision,
                initial_events_end: true,
            });
        }
        Ok(watch)
    }
}

fn too_old(revision: u64, registry: &Registry) -> ApiError {
    ApiError::expired(format!(
        "too old resource version: {revision} ({})",
        registry.store.revision()
    ))
}
