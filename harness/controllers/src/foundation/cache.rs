//! What is known of all objects of one kind, with the indexes that controllers look things up by.
//!
//! Two sources write here: the watch, and the answers to this process' own writes. The newer
//! resource version wins; an object that this process has seen removed stays gone until the watch
//! agrees, and one whose removal the watch has shown is not brought back by an answer that is late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::resource::{Object, ObjectKey};

/// All objects of one kind, in order of namespace and name.
#[derive(Debug)]
pub struct Cache<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    by_owner: BTreeMap<String, BTreeSet<ObjectKey>>,
    by_index: BTreeMap<String, BTreeSet<ObjectKey>>,
    index: fn(&K) -> Option<String>,
    /// Uids of objects that a write of this process removed and that the watch may still show.
    tombstones: BTreeSet<String>,
    /// The newest revision that the watch has shown.
    shown: u64,
    listed: bool,
}

/// What an update did to one object.
pub(super) type Step<K> = (Option<Arc<K>>, Option<Arc<K>>);

impl<K: Object> Cache<K> {
    /// An empty cache; `index` says under which text an object is found by [`Cache::indexed`].
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

    /// A cache that holds these objects, for tests of decisions.
    pub fn holding(index: fn(&K) -> Option<String>, objects: impl IntoIterator<Item = K>) -> Self {
        let mut cache = Self::new(index);
        for object in objects {
            cache.apply(object);
        }
        cache.listed = true;
        cache
    }

    /// Whether the first list is in.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// The object of that name in a namespace.
    pub fn named(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.objects.get(&ObjectKey::new(namespace, name))
    }

    /// Every object, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<K>)> {
        self.objects.iter()
    }

    /// Every object from that key on, in order.
    pub fn from<'a>(&'a self, first: &ObjectKey) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<K>)> + use<'a, K> {
        self.objects.range(first.clone()..)
    }

    /// Every object of a namespace, in order of names.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<K>)> {
        self.objects
            .range(ObjectKey::new(namespace, "")..)
            .take_while(move |(key, _)| key.namespace == namespace)
    }

    /// Every object that names this uid among its owners, in order.
    pub fn owned_by<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Arc<K>> {
        self.look_up(self.by_owner.get(uid))
    }

    /// Every object under this text in the kind's index, in order.
    pub fn indexed<'a>(&'a self, text: &str) -> impl Iterator<Item = &'a Arc<K>> {
        self.look_up(self.by_index.get(text))
    }

    /// Every text of the kind's index, in order.
    pub fn index_texts(&self) -> impl Iterator<Item = &String> {
        self.by_index.keys()
    }

    fn look_up<'a>(&'a self, keys: Option<&'a BTreeSet<ObjectKey>>) -> impl Iterator<Item = &'a Arc<K>> {
        keys.into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    /// Takes a copy of an object, unless a newer one is known or it has been removed.
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

    /// Takes the answer to a write of this process. What is not known here and not newer than what the
    /// watch has shown has been removed since.
    pub(super) fn learn(&mut self, object: K) -> Option<(Option<Arc<K>>, Arc<K>)> {
        if object.revision() <= self.shown && !self.objects.contains_key(&ObjectKey::of(&object)) {
            return None;
        }
        self.apply(object)
    }

    /// Takes what the watch shows of an object.
    pub(super) fn show(&mut self, object: K) -> Option<(Option<Arc<K>>, Arc<K>)> {
        self.shown = self.shown.max(object.revision());
        self.apply(object)
    }

    /// Takes note of a removal that the watch shows.
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

    /// Takes note of a removal that an answer shows; the watch may still bring older copies.
    pub(super) fn entomb(&mut self, key: &ObjectKey, uid: &str) -> Option<Arc<K>> {
        let known = self.objects.get(key)?;
        if !uid.is_empty() && known.uid() != uid {
            return None;
        }
        self.tombstones.insert(known.uid().to_owned());
        self.take(key)
    }

    /// Takes a whole list as of `revision`. What was written after that stays.
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

    /// Empties the cache: its kind is served no more.
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
    fn an_older_copy_changes_nothing() {
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
    fn what_was_removed_stays_gone_until_the_watch_agrees() {
        let mut cache = cache();
        cache.apply(pod("1", 7, "a"));
        assert!(cache.entomb(&ObjectKey::new("n", "p"), "1").is_some());
        assert!(cache.apply(pod("1", 8, "a")).is_none(), "the watch lags behind");
        assert!(cache.apply(pod("2", 10, "a")).is_some(), "another object of that name");
        assert!(cache.remove(&pod("1", 9, "a")).is_none(), "the old one's removal");
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_the_watch_showed_going() {
        let mut cache = cache();
        cache.show(pod("1", 7, "a"));
        cache.remove(&pod("1", 9, "a"));
        assert!(cache.learn(pod("1", 8, "a")).is_none(), "the answer was on its way");
        assert!(cache.is_empty());
        assert!(cache.learn(pod("2", 10, "a")).is_some(), "another object of that name");
        cache.replace(Vec::new(), 12);
        assert!(
            cache.learn(pod("3", 11, "a")).is_none(),
            "made and removed before the list"
        );
    }

    #[test]
    fn a_list_keeps_what_was_written_after_it() {
        let mut cache = cache();
        cache.apply(pod("1", 20, "a"));
        assert!(cache.replace(Vec::new(), 15).is_empty());
        assert_eq!(cache.len(), 1);
        assert_eq!(cache.replace(Vec::new(), 25).len(), 1);
        assert!(cache.is_empty());
    }
}
