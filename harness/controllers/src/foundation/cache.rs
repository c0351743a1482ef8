//! An in-memory cache of all objects of one kind, with the indexes that controllers use.
//!
//! Two sources update a cache: the watch, and the responses to this process's own writes. The newer resource
//! version wins. An object that this process has deleted stays absent until the watch confirms the deletion; a
//! late response does not restore an object whose deletion the watch has already reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::resource::{Object, ObjectKey};

/// All objects of one kind, ordered by namespace and name.
#[derive(Debug)]
pub struct Cache<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    by_owner: BTreeMap<String, BTreeSet<ObjectKey>>,
    by_index: BTreeMap<String, BTreeSet<ObjectKey>>,
    index: fn(&K) -> Option<String>,
    /// Uids of objects that a request of this process deleted and that the watch may still report.
    tombstones: BTreeSet<String>,
    /// The newest revision that the watch has reported.
    shown: u64,
    listed: bool,
}

/// An object before and after one update.
pub(super) type Step<K> = (Option<Arc<K>>, Option<Arc<K>>);

impl<K: Object> Cache<K> {
    /// An empty cache; `index` returns the text under which [`Cache::indexed`] finds an object.
    pub fn new(index: fn(&K) -> Option<String>) -> Self {
        Self {
            objects: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            by_index: BTreeMap::new(),
            index,
            tombstones: BTreeSet::new(),
            shown: 0,
            listed: false,
        }
    }

    /// A cache with these objects, for decision tests.
    pub fn holding(index: fn(&K) -> Option<String>, objects: impl IntoIterator<Item = K>) -> Self {
        let mut cache = Self::new(index);
        for object in objects {
            cache.apply(object);
        }
        cache.listed = true;
        cache
    }

    /// Whether the initial list is complete.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether the cache has no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// The object with this name in a namespace.
    pub fn named(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.objects.get(&ObjectKey::new(namespace, name))
    }

    /// All objects, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        self.objects.iter()
    }

    /// All objects from this key on, in order.
    pub fn from<'a>(&'a self, first: &ObjectKey) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<K>)> + use<'a, K> {
        self.objects.range(first.clone()..)
    }

    /// All objects of a namespace, ordered by name.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<K>)> {
        self.objects
            .range(ObjectKey::new(namespace, "")..)
            .take_while(move |(key, _)| key.namespace == namespace)
    }

    /// All objects with this uid in their owner references, in order.
    pub fn owned_by<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Arc<K>> {
        self.look_up(self.by_owner.get(uid))
    }

    /// All objects that the kind's index finds under this text, in order.
    pub fn indexed<'a>(&'a self, text: &str) -> impl Iterator<Item = &'a Arc<K>> {
        self.look_up(self.by_index.get(text))
    }

    /// All texts of the kind's index, in order.
    pub fn index_texts(&self) -> impl Iterator<Item = &String> {
        self.by_index.keys()
    }

    fn look_up<'a>(&'a self, keys: Option<&'a BTreeSet<ObjectKey>>) -> impl Iterator<Item = &'a Arc<K>> {
        keys.into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    /// Stores an object, unless the cache holds a newer version or the object has been deleted.
    pub fn apply(&mut self, mut object: K) -> Option<(Option<Arc<K>>, Arc<K>)> {
        object.metadata_mut().managed_fields = None;
        if self.tombstones.contains(object.uid()) {
            return None;
        }
        let key = ObjectKey::of(&object);
        let before = self.objects.get(&key).cloned();
        if let Some(known) = &before {
            if known.revision() > object.revision() {
                return None;
            }
            if known.revision() == object.revision() && known.uid() == object.uid() && object.revision() != 0 {
                return None;
            }
            self.unindex(&key, known);
        }
        let after = Arc::new(object);
        self.index(&key, &after);
        self.objects.insert(key, Arc::clone(&after));
        Some((before, after))
    }

    /// Stores the response to a write of this process. An object that is neither cached nor newer than the
    /// newest watch event has been deleted since the write.
    pub(super) fn apply_response(&mut self, object: K) -> Option<(Option<Arc<K>>, Arc<K>)> {
        if object.revision() <= self.shown && !self.objects.contains_key(&ObjectKey::of(&object)) {
            return None;
        }
        self.apply(object)
    }

    /// Stores an object that a watch event reports.
    pub(super) fn apply_event(&mut self, object: K) -> Option<(Option<Arc<K>>, Arc<K>)> {
        self.shown = self.shown.max(object.revision());
        self.apply(object)
    }

    /// Removes an object whose deletion a watch event reports.
    pub fn remove(&mut self, object: &K) -> Option<Arc<K>> {
        self.shown = self.shown.max(object.revision());
        self.tombstones.remove(object.uid());
        let key = ObjectKey::of(object);
        let known = self.objects.get(&key)?;
        if known.uid() != object.uid() {
            return None;
        }
        self.take(&key)
    }

    /// Removes an object that a request of this process deleted; the watch may still report older versions.
    pub(super) fn record_deletion(&mut self, key: &ObjectKey, uid: &str) -> Option<Arc<K>> {
        let known = self.objects.get(key)?;
        if !uid.is_empty() && known.uid() != uid {
            return None;
        }
        self.tombstones.insert(known.uid().to_owned());
        self.take(key)
    }

    /// Replaces the content with a list as of `revision`. Objects written after that revision stay.
    pub(super) fn replace(&mut self, objects: Vec<K>, revision: u64) -> Vec<Step<K>> {
        self.shown = self.shown.max(revision);
        let keys: BTreeSet<ObjectKey> = objects.iter().map(|object| ObjectKey::of(object)).collect();
        let uids: BTreeSet<&str> = objects.iter().map(Object::uid).collect();
        self.tombstones.retain(|uid| uids.contains(uid.as_str()));
        let gone: Vec<ObjectKey> = self
            .objects
            .iter()
            .filter(|(key, known)| !keys.contains(*key) && known.revision() <= revision)
            .map(|(key, _)| key.clone())
            .collect();
        let mut steps: Vec<Step<K>> = gone.iter().map(|key| (self.take(key), None)).collect();
        for object in objects {
            if let Some((before, after)) = self.apply(object) {
                steps.push((before, Some(after)));
            }
        }
        self.listed = true;
        steps
    }

    /// Empties the cache; the API server no longer serves the kind.
    pub(super) fn clear(&mut self) -> Vec<Step<K>> {
        let shown = self.shown;
        let steps = self.replace(Vec::new(), u64::MAX);
        self.shown = shown;
        steps
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Arc<K>> {
        let known = self.objects.remove(key)?;
        self.unindex(key, &known);
        Some(known)
    }

    fn index(&mut self, key: &ObjectKey, object: &K) {
        for owner in object.metadata().owner_references.iter().flatten() {
            self.by_owner.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        if let Some(text) = (self.index)(object) {
            self.by_index.entry(text).or_default().insert(key.clone());
        }
    }

    fn unindex(&mut self, key: &ObjectKey, object: &K) {
        for owner in object.metadata().owner_references.iter().flatten() {
            drop_entry(&mut self.by_owner, &owner.uid, key);
        }
        if let Some(text) = (self.index)(object) {
            drop_entry(&mut self.by_index, &text, key);
        }
    }
}

fn drop_entry(index: &mut BTreeMap<String, BTreeSet<ObjectKey>>, text: &str, key: &ObjectKey) {
    if let Some(keys) = index.get_mut(text) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, PodSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn pod(uid: &str, revision: u64, node: &str) -> Pod {
        Pod {
            metadata: ObjectMeta {
                namespace: Some("n".to_owned()),
                name: Some("p".to_owned()),
                uid: Some(uid.to_owned()),
                resource_version: Some(revision.to_string()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                node_name: Some(node.to_owned()),
                ..PodSpec::default()
            }),
            status: None,
        }
    }

    fn cache() -> Cache<Pod> {
        Cache::new(|pod| pod.spec.as_ref()?.node_name.clone())
    }

    fn on(cache: &Cache<Pod>, node: &str) -> usize {
        cache.indexed(node).count()
    }

    #[test]
    fn a_stale_object_changes_nothing() {
        let mut cache = cache();
        assert!(cache.apply(pod("1", 7, "a")).is_some());
        assert!(cache.apply(pod("1", 6, "b")).is_none());
        assert!(cache.apply(pod("1", 7, "b")).is_none());
        assert_eq!((on(&cache, "a"), on(&cache, "b")), (1, 0));
    }

    #[test]
    fn the_index_follows_the_object() {
        let mut cache = cache();
        cache.apply(pod("1", 7, "a"));
        cache.apply(pod("1", 8, "b"));
        assert_eq!((on(&cache, "a"), on(&cache, "b")), (0, 1));
        cache.remove(&pod("1", 9, "b"));
        assert_eq!(on(&cache, "b"), 0);
        assert_eq!(cache.index_texts().count(), 0);
    }

    #[test]
    fn a_deleted_object_stays_absent_until_the_watch_confirms_it() {
        let mut cache = cache();
        cache.apply(pod("1", 7, "a"));
        assert!(cache.record_deletion(&ObjectKey::new("n", "p"), "1").is_some());
        assert!(cache.apply(pod("1", 8, "a")).is_none(), "a stale watch event");
        assert!(
            cache.apply(pod("2", 10, "a")).is_some(),
            "another object with the same name"
        );
        assert!(
            cache.remove(&pod("1", 9, "a")).is_none(),
            "the deletion of the first object"
        );
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_late_response_does_not_restore_an_object_that_the_watch_reported_as_deleted() {
        let mut cache = cache();
        cache.apply_event(pod("1", 7, "a"));
        cache.remove(&pod("1", 9, "a"));
        assert!(cache.apply_response(pod("1", 8, "a")).is_none(), "a late response");
        assert!(cache.is_empty());
        assert!(
            cache.apply_response(pod("2", 10, "a")).is_some(),
            "another object with the same name"
        );
        cache.replace(Vec::new(), 12);
        assert!(
            cache.apply_response(pod("3", 11, "a")).is_none(),
            "created and deleted before the list"
        );
    }

    #[test]
    fn a_list_keeps_objects_that_were_written_after_it() {
        let mut cache = cache();
        cache.apply(pod("1", 20, "a"));
        assert!(cache.replace(Vec::new(), 15).is_empty());
        assert_eq!(cache.len(), 1);
        assert_eq!(cache.replace(Vec::new(), 25).len(), 1);
        assert!(cache.is_empty());
    }
}
