//! A cache of one kind's objects: those that the watch delivered, updated at once by this process's own writes.
//!
//! It provides ordered storage with indexes. An older version never replaces a newer one, and a deleted object never
//! reappears. An object that could not be decoded completely is stored without the fields concerned, or keeps its last
//! version, and is marked as damaged. The module is generic over the kind and does not interpret the objects.

mod index;
mod key;
mod unconfirmed;

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use parking_lot::{Mutex, MutexGuard};
use rpds::HashTrieMapSync;
use runtime::decode::{Decoded, Problems};

pub(crate) use self::index::{Indexed, NoIndex, not_indexed};
pub(crate) use self::key::Key;
use self::unconfirmed::{Source, Unconfirmed};

/// The uids of the most recently deleted objects, from delete events and own deletes. Uids are never reused, so these
/// objects cannot reappear. An object's absence from a list does not prove its deletion: the server may lag.
#[derive(Debug, Default)]
struct DeletedUids {
    uids: BTreeSet<String>,
    in_order: VecDeque<String>,
}

impl DeletedUids {
    /// After this many further deletions no stale copy of an object can still arrive.
    const LIMIT: usize = 10_000;

    fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    fn insert(&mut self, uid: String) {
        if !self.uids.insert(uid.clone()) {
            return;
        }
        self.in_order.push_back(uid);
        if self.in_order.len() > Self::LIMIT
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

/// What one event changed.
#[derive(Clone, Debug)]
pub(crate) struct Change<K> {
    pub(crate) old: Option<Arc<K>>,
    pub(crate) new: Option<Arc<K>>,
    /// Whether it came with the first list or before its end: the object is new to this process, but may be old.
    pub(crate) first_list: bool,
}

impl<K> Change<K> {
    /// Whether an existing object changed in this part.
    pub(crate) fn is_edit<V: PartialEq>(&self, part: impl Fn(&K) -> V) -> bool {
        self.old
            .as_ref()
            .zip(self.new.as_ref())
            .is_some_and(|(old, new)| part(old) != part(new))
    }

    /// Whether an existing object changed in this part, or a new object appeared, so that a retry may succeed.
    pub(crate) fn is_news<V: PartialEq>(&self, part: impl Fn(&K) -> V) -> bool {
        let appeared = self.old.is_none() && self.new.is_some() && !self.first_list;
        appeared || self.is_edit(part)
    }

    /// The object after the change, or before its deletion.
    pub(crate) fn either(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// What could not be decoded of an existing object.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    /// The metadata of the object.
    pub(crate) metadata: ObjectMeta,
    pub(crate) problems: Problems,
}

/// The objects of one kind. Clones share the storage.
pub(crate) struct Cache<K: Indexed>(Arc<Mutex<State<K>>>);

/// The objects of an index, by their value.
type ByValue<K> = BTreeMap<String, BTreeMap<Key, Arc<K>>>;

struct State<K: Indexed> {
    objects: BTreeMap<Key, Arc<K>>,
    /// Deleted objects, of which a watch or a response to a write may still deliver older copies.
    deleted_uids: DeletedUids,
    /// Keys of objects that existed and were reported as deleted; `None`: not tracked.
    deleted_keys: Option<BTreeSet<Key>>,
    /// The objects of which this process stored a version that its watch has not delivered yet.
    unconfirmed: BTreeMap<Key, Unconfirmed<K>>,
    /// Changes by this process that were not taken yet; `None`: not tracked.
    own_changes: Option<Vec<Change<K>>>,
    /// The list in progress.
    listing: Option<Listing<K>>,
    synced: bool,
    /// The objects by their names; `None`: not tracked.
    by_name: Option<HashTrieMapSync<String, Arc<K>>>,
    /// The objects by their value, for every index.
    indexes: BTreeMap<K::Index, ByValue<K>>,
    /// The objects that could not be decoded completely.
    damaged: BTreeMap<Key, Damage>,
    /// The keys of those that [`Cache::take_newly_damaged`] did not return yet.
    newly_damaged: Vec<Key>,
}

/// A list in progress.
struct Listing<K> {
    /// The uids of the objects that were known when the list was requested: only these can be missing from it. The list
    /// does not contain what this process created since.
    before: BTreeMap<Key, Option<String>>,
    /// The objects listed so far.
    listed: BTreeMap<Key, Delivered<K>>,
}

/// An object as the server delivered it.
struct Delivered<K> {
    /// `None`: only its metadata could be decoded.
    object: Option<Arc<K>>,
    damage: Option<Damage>,
}

impl<K: Resource> Delivered<K> {
    fn new(decoded: Decoded<K>) -> Self {
        let metadata = match &decoded {
            Decoded::Whole(_) => None,
            damaged => Some(damaged.meta().clone()),
        };
        let (object, problems) = decoded.into_parts();
        Self {
            object: object.map(Arc::new),
            damage: metadata.map(|metadata| Damage { metadata, problems }),
        }
    }
}

impl<K: Indexed> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Indexed> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

/// A cache of any kind.
pub(crate) trait AnyCache {
    /// Whether the first list is complete.
    fn synced(&self) -> bool;

    /// The number of objects that could not be decoded completely.
    fn damaged_count(&self) -> usize;
}

impl<K: Indexed> AnyCache for Cache<K> {
    fn synced(&self) -> bool {
        self.lock().synced
    }

    fn damaged_count(&self) -> usize {
        self.lock().damaged.len()
    }
}

impl<K: Indexed> Cache<K> {
    /// An empty cache.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            objects: BTreeMap::new(),
            deleted_uids: DeletedUids::default(),
            deleted_keys: None,
            unconfirmed: BTreeMap::new(),
            own_changes: None,
            listing: None,
            synced: false,
            by_name: None,
            indexes: K::INDEXES.iter().map(|index| (*index, BTreeMap::new())).collect(),
            damaged: BTreeMap::new(),
            newly_damaged: Vec::new(),
        })))
    }

    /// Enables tracking of the keys of deleted objects, until [`Self::forget_deletion`].
    pub(crate) fn tracking_deletions(self) -> Self {
        self.lock().deleted_keys = Some(BTreeSet::new());
        self
    }

    /// Enables tracking of this process's own changes, which the watch does not report as changes later.
    pub(crate) fn tracking_own_changes(self) -> Self {
        self.lock().own_changes = Some(Vec::new());
        self
    }

    /// Enables [`Self::by_name`], for a kind without namespaces.
    pub(crate) fn tracking_names(self) -> Self {
        self.lock().by_name = Some(HashTrieMapSync::new_sync());
        self
    }

    /// All objects by their names: a snapshot that shares its storage with the cache. It is empty unless
    /// [`Self::tracking_names`] enabled it.
    pub(crate) fn by_name(&self) -> HashTrieMapSync<String, Arc<K>> {
        let by_name = self.lock().by_name.clone();
        by_name.unwrap_or_else(HashTrieMapSync::new_sync)
    }

    /// The changes by this process since the last call.
    pub(crate) fn take_own_changes(&self) -> Vec<Change<K>> {
        self.lock().own_changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The object with that key.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.lock().objects.get(key).cloned()
    }

    /// All objects in the order of their keys.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.lock().objects.values().cloned().collect()
    }

    /// The objects with this value in the index, in the order of their keys.
    pub(crate) fn find(&self, index: K::Index, value: &str) -> Vec<Arc<K>> {
        let state = self.lock();
        let objects = state.indexes.get(&index).and_then(|index| index.get(value));
        objects
            .map(|objects| objects.values().cloned().collect())
            .unwrap_or_default()
    }

    /// What could not be decoded of the object with that key.
    pub(crate) fn damage(&self, key: &Key) -> Option<Damage> {
        self.lock().damaged.get(key).cloned()
    }

    /// The objects that could not be decoded completely.
    pub(crate) fn damaged(&self) -> Vec<(Key, Damage)> {
        let state = self.lock();
        let damaged = state.damaged.iter();
        damaged.map(|(key, damage)| (key.clone(), damage.clone())).collect()
    }

    /// The keys of objects that could not be decoded completely, or differently than before, since the last call.
    pub(crate) fn take_newly_damaged(&self) -> Vec<Key> {
        std::mem::take(&mut self.lock().newly_damaged)
    }

    /// Whether an object with that key exists, even if it could not be decoded.
    pub(crate) fn exists(&self, key: &Key) -> bool {
        let state = self.lock();
        state.objects.contains_key(key) || state.damaged.contains_key(key)
    }

    /// Whether an object with that key was deleted while this process watched.
    pub(crate) fn was_deleted(&self, key: &Key) -> bool {
        self.lock().deleted_keys.as_ref().is_some_and(|keys| keys.contains(key))
    }

    /// Forgets the deletion of the object with that key.
    pub(crate) fn forget_deletion(&self, key: &Key) {
        self.lock().forget_deletion(key);
    }

    /// Stores the object that a write of this process returned. It may contain other writers' changes that the watch has
    /// not delivered: those are reported once the watch delivers them.
    pub(crate) fn wrote(&self, object: K) -> Arc<K> {
        self.store(object, Unconfirmed::wrote)
    }

    /// Stores the object that a read of this process returned. The changes that the watch has not delivered are reported
    /// once it does.
    pub(crate) fn read(&self, object: K) -> Arc<K> {
        self.store(object, |_, _| ())
    }

    fn store(&self, mut object: K, note: impl FnOnce(&mut Unconfirmed<K>, u64)) -> Arc<K> {
        object.meta_mut().managed_fields = None;
        let object = Arc::new(object);
        let mut state = self.lock();
        if state.accepts(&object) {
            let key = Key::of(&*object);
            let old = state.put(key.clone(), Arc::clone(&object));
            if let Some(revision) = revision(&*object) {
                let unconfirmed = state.unconfirmed.entry(key);
                note(unconfirmed.or_insert_with(|| Unconfirmed::since(old.clone())), revision);
            }
            let new = Some(Arc::clone(&object));
            state.note_own_change(Change {
                old,
                new,
                first_list: false,
            });
        }
        object
    }

    /// Removes an object that this process deleted.
    pub(crate) fn removed(&self, object: &K) {
        let mut state = self.lock();
        let key = Key::of(object);
        if let Some(uid) = object.uid()
            && state
                .objects
                .get(&key)
                .is_some_and(|known| known.uid().as_ref() == Some(&uid))
        {
            let old = state.forget(&key);
            state.deleted_uids.insert(uid);
            state.note_own_change(Change {
                old,
                new: None,
                first_list: false,
            });
        }
    }

    /// Applies an event of the watch; returns the changes. An event with a known or an older version changes nothing, and
    /// neither does an object of which only the metadata could be decoded. A version of another writer that a response to
    /// this process already contained is a change to the cached version.
    pub(crate) fn apply<D: Into<Decoded<K>>>(&self, event: Event<D>) -> Vec<Change<K>> {
        let mut state = self.lock();
        match event {
            Event::Init => {
                state.begin_list();
                Vec::new()
            }
            Event::InitApply(object) => {
                let object = object.into();
                if let Some(listing) = &mut state.listing {
                    listing.listed.insert(Key::of(&object), Delivered::new(object));
                }
                Vec::new()
            }
            Event::InitDone => state.finish_list(),
            Event::Apply(object) => {
                let object = object.into();
                state
                    .deliver(Key::of(&object), Delivered::new(object), Source::Watch)
                    .into_iter()
                    .collect()
            }
            Event::Delete(object) => state.delete(object.into()).into_iter().collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.lock()
    }
}

impl<K: Indexed> State<K> {
    /// Whether `object` is newer than the cached version.
    fn accepts(&self, object: &K) -> bool {
        if object.uid().is_some_and(|uid| self.deleted_uids.contains(&uid)) {
            return false;
        }
        let known = self.objects.get(&Key::of(object));
        known.is_none_or(|known| revision(object).is_none() || revision(object) > revision(&**known))
    }

    fn apply(&mut self, object: Arc<K>) -> Change<K> {
        let key = Key::of(&*object);
        self.unconfirmed.remove(&key);
        let old = self.put(key, Arc::clone(&object));
        Change {
            old,
            new: Some(object),
            first_list: !self.synced,
        }
    }

    /// Compares a delivered version, which is not newer than the cached one, with this process's own writes.
    fn confirm(&mut self, key: &Key, object: &K, source: Source) -> Option<Change<K>> {
        let delivered = revision(object)?;
        let cached = self.objects.get(key).filter(|cached| cached.uid() == object.uid())?;
        let unconfirmed = self.unconfirmed.get_mut(key)?;
        let by_others = unconfirmed.delivered(delivered, source) && !defect!(ChangeInResponseTriggersNothing);
        let change = by_others.then(|| Change {
            old: unconfirmed.replace_last(Arc::clone(cached)),
            new: Some(Arc::clone(cached)),
            first_list: !self.synced,
        });
        if revision(&**cached) == Some(delivered) {
            self.unconfirmed.remove(key);
        }
        change
    }

    /// Applies a delivered version. One that could not be decoded at all leaves the last version in place.
    fn deliver(&mut self, key: Key, Delivered { object, damage }: Delivered<K>, source: Source) -> Option<Change<K>> {
        let known = self.damaged.get(&key).map(|damage| damage.problems.clone());
        let change = match object {
            Some(object) if !self.accepts(&object) => return self.confirm(&key, &object, source),
            Some(object) => Some(self.apply(object)),
            None => None,
        };
        if let Some(damage) = damage {
            if known.as_ref() != Some(&damage.problems) {
                self.newly_damaged.push(key.clone());
            }
            self.damaged.insert(key, damage);
        }
        change
    }

    fn delete(&mut self, object: Decoded<K>) -> Option<Change<K>> {
        let key = Key::of(&object);
        let uid = object.uid();
        if let Some(uid) = &uid {
            self.deleted_uids.insert(uid.clone());
        }
        let another = self.objects.get(&key).is_some_and(|known| known.uid() != uid);
        if another {
            return None;
        }
        self.note_deletion(&key);
        self.damaged.remove(&key);
        Some(Change {
            old: Some(self.forget(&key).or_else(|| object.into_parts().0.map(Arc::new))?),
            new: None,
            first_list: !self.synced,
        })
    }

    fn begin_list(&mut self) {
        let known = self.objects.iter();
        self.listing = Some(Listing {
            before: known.map(|(key, object)| (key.clone(), object.uid())).collect(),
            listed: BTreeMap::new(),
        });
    }

    fn finish_list(&mut self) -> Vec<Change<K>> {
        let Some(Listing { before, listed }) = self.listing.take() else {
            return Vec::new();
        };
        let missing: Vec<Key> = self
            .objects
            .iter()
            .filter(|(key, object)| !listed.contains_key(*key) && before.get(*key) == Some(&object.uid()))
            .map(|(key, _)| key.clone())
            .collect();
        let missing =
            if defect!(UnlistedMachineBelievedPresent) && TypeId::of::<K>() == TypeId::of::<mcm_api::Machine>() {
                Vec::new()
            } else {
                missing
            };
        self.damaged.retain(|key, _| listed.contains_key(key));
        let mut changes = Vec::new();
        for key in missing {
            let old = self.forget(&key);
            self.note_deletion(&key);
            changes.push(Change {
                old,
                new: None,
                first_list: !self.synced,
            });
        }
        let delivered = listed.into_iter();
        changes.extend(delivered.filter_map(|(key, delivered)| self.deliver(key, delivered, Source::List)));
        self.synced = true;
        changes
    }

    fn note_own_change(&mut self, change: Change<K>) {
        if let Some(changes) = &mut self.own_changes {
            changes.push(change);
        }
    }

    fn note_deletion(&mut self, key: &Key) {
        if let Some(keys) = &mut self.deleted_keys {
            keys.insert(key.clone());
        }
    }

    fn forget_deletion(&mut self, key: &Key) {
        if let Some(keys) = &mut self.deleted_keys {
            keys.remove(key);
        }
    }

    fn put(&mut self, key: Key, object: Arc<K>) -> Option<Arc<K>> {
        let old = self.take(&key);
        self.damaged.remove(&key);
        self.forget_deletion(&key);
        for (index, by_value) in &mut self.indexes {
            if let Some(value) = object.value(*index) {
                let objects = by_value.entry(value).or_default();
                objects.insert(key.clone(), Arc::clone(&object));
            }
        }
        if let Some(by_name) = &mut self.by_name {
            by_name.insert_mut(key.name.clone(), Arc::clone(&object));
        }
        self.objects.insert(key, object);
        old
    }

    /// Removes a deleted object.
    fn forget(&mut self, key: &Key) -> Option<Arc<K>> {
        self.unconfirmed.remove(key);
        self.take(key)
    }

    fn take(&mut self, key: &Key) -> Option<Arc<K>> {
        let old = self.objects.remove(key)?;
        if let Some(by_name) = &mut self.by_name {
            by_name.remove_mut(&key.name);
        }
        for (index, by_value) in &mut self.indexes {
            if let Some(value) = old.value(*index)
                && let Some(objects) = by_value.get_mut(&value)
            {
                objects.remove(key);
                if objects.is_empty() {
                    by_value.remove(&value);
                }
            }
        }
        Some(old)
    }
}

/// The resourceVersion as a number: current API servers guarantee that resourceVersions are comparable.
fn revision<K: Resource>(object: &K) -> Option<u64> {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests;
