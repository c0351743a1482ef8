//! What one client has been sent. Pure; its memory is bounded.

use std::num::NonZeroUsize;

use lru::LruCache;

use super::changes::Recorded;
use crate::registry::FieldSelector;
use crate::selector::LabelSelector;
use crate::store::{Key, Object};

/// The maximum number of collections that are recorded per client; it has not been sent what is in others.
const COLLECTIONS: usize = 512;
/// The maximum number of single objects that are recorded per client: those that were sent last.
const OBJECTS: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();
/// The revision of an object that may have been sent and forgotten: nothing is missing in the client's view of it.
pub(super) const FORGOTTEN: u64 = u64::MAX;

/// What a list or watch covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collection {
    /// The qualified resource.
    pub(crate) resource: String,
    /// `None`: all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    /// The text of the selectors; empty for all objects.
    pub(crate) selector: String,
}

/// A collection of a client, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectionId(usize);

impl Collection {
    /// Whether a list or watch of the collection shows the change.
    pub(super) fn covers(&self, recorded: &Recorded) -> bool {
        let is_in_namespace = |namespace: &String| *namespace == recorded.key().namespace;
        let selects = |object: &Object| self.labels.matches(&object.meta.labels) && self.fields.matches(object);
        self.namespace.as_ref().is_none_or(is_in_namespace)
            && (self.selector.is_empty()
                || selects(&recorded.change.object)
                || recorded
                    .change
                    .previous
                    .as_ref()
                    .is_some_and(|previous| selects(previous)))
    }
}

/// What one client has been sent.
#[derive(Debug)]
pub(super) struct ClientView {
    /// The user's name.
    pub(super) user: String,
    collections: Vec<Collection>,
    /// By collection: lists and watches have sent the changes up to this revision. 0: nothing yet.
    sent: Vec<u64>,
    /// The newest revisions of single objects: from reads of one object, and from responses to the client's writes.
    objects: LruCache<(String, Key), u64>,
    /// Whether an object is no longer in `objects`.
    has_forgotten: bool,
}

impl ClientView {
    pub(super) fn new(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            collections: Vec::new(),
            sent: Vec::new(),
            objects: LruCache::new(OBJECTS),
            has_forgotten: false,
        }
    }

    /// The id of a collection; `None` if the client has too many.
    pub(super) fn collection(&mut self, collection: &Collection) -> Option<CollectionId> {
        if let Some(known) = self.collections.iter().position(|known| known == collection) {
            return Some(CollectionId(known));
        }
        if self.collections.len() >= COLLECTIONS {
            return None;
        }
        self.collections.push(collection.clone());
        self.sent.push(0);
        Some(CollectionId(self.sent.len().saturating_sub(1)))
    }

    /// All changes of the collection up to `revision` have been sent.
    pub(super) fn send_up_to(&mut self, id: CollectionId, revision: u64) {
        if let Some(sent) = self.sent.get_mut(id.0) {
            *sent = revision.max(*sent);
        }
    }

    /// One state of an object has been sent.
    pub(super) fn send_object(&mut self, resource: &str, key: &Key, revision: u64) {
        let id = (resource.to_owned(), key.clone());
        if let Some(known) = self.objects.get_mut(&id) {
            *known = revision.max(*known);
            return;
        }
        self.has_forgotten |= self.objects.push(id, revision).is_some();
    }

    /// By collection the revision up to which its changes have been sent now.
    pub(super) fn sent(&self) -> Vec<u64> {
        self.sent.clone()
    }

    /// The newest revision of a single object; 0: it was not sent. After an object was forgotten, any unknown object may have
    /// been sent: [`FORGOTTEN`].
    pub(super) fn object(&self, resource: &str, key: &Key) -> u64 {
        let id = (resource.to_owned(), key.clone());
        let unknown = if self.has_forgotten { FORGOTTEN } else { 0 };
        self.objects.peek(&id).copied().unwrap_or(unknown)
    }

    /// The collections, with what had been sent of them at the time of `sent`.
    pub(super) fn collections<'a>(&'a self, sent: &'a [u64]) -> impl Iterator<Item = (&'a Collection, u64)> {
        let sent = sent.iter().copied();
        self.collections.iter().zip(sent).filter(|(_, sent)| *sent > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(namespace: Option<&str>) -> Collection {
        Collection {
            resource: "pods".to_owned(),
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::default(),
            fields: FieldSelector::default(),
            selector: String::new(),
        }
    }

    #[test]
    fn a_collection_never_goes_back_and_is_shared_by_lists_and_watches() {
        let mut view = ClientView::new("user");
        let all = view.collection(&pods(None)).unwrap();
        let one = view.collection(&pods(Some("default"))).unwrap();
        assert_ne!(all, one);
        assert_eq!(view.collection(&pods(None)), Some(all));
        assert_eq!(view.collections(&view.sent()).count(), 0, "nothing was sent");
        view.send_up_to(all, 7);
        view.send_up_to(all, 5);
        assert_eq!(view.sent(), [7, 0]);
    }

    #[test]
    fn the_memory_of_a_client_is_bounded_and_what_may_be_forgotten_counts_as_sent() {
        let mut view = ClientView::new("user");
        let key = |number: usize| Key::new("default", &format!("p-{number}"));
        assert_eq!(view.object("pods", &key(0)), 0, "it was not sent");
        for number in 0..OBJECTS.get() {
            view.send_object("pods", &key(number), 10);
        }
        view.send_object("pods", &key(0), 11);
        view.send_object("pods", &key(OBJECTS.get()), 12);
        assert_eq!(view.objects.len(), OBJECTS.get());
        assert_eq!(view.object("pods", &key(0)), 11, "it was sent again");
        assert_eq!(view.object("pods", &key(1)), FORGOTTEN);
        assert_eq!(view.object("pods", &key(2)), 10);
        for number in 0..=COLLECTIONS {
            let namespace = format!("n-{number}");
            let id = view.collection(&pods(Some(&namespace)));
            assert_eq!(id.is_some(), number < COLLECTIONS);
        }
    }
}
