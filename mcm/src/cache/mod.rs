//! One kind's objects as this process knows them: what the watch delivered, and what this process wrote and has not seen
//! back yet.
//!
//! What lives here: ordered storage with indexes, and the rules that nothing known is replaced by anything older and that
//! a deleted object never comes back. What must not: which kinds there are, and what the objects mean.

mod index;
mod key;

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::index::{Indexed, NoIndex, not_indexed};
pub(crate) use self::key::Key;

/// The uids of the objects that went last, by an event or an own delete: no uid is given twice, so none of them comes
/// back. That a list lacks an object proves nothing: the server may lag.
#[derive(Debug, Default)]
struct Departed {
    uids: BTreeSet<String>,
    in_order: VecDeque<String>,
}

impl Departed {
    /// Copies that are older than so many removals are not on their way any more.
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
    /// Whether it came with the first list, or before that was complete: what is new to this process need not be.
    pub(crate) first_list: bool,
}

impl<K> Change<K> {
    /// Whether this part of an object that stays was changed; finalizers and status are none of it.
    pub(crate) fn is_edit<V: PartialEq>(&self, part: impl Fn(&K) -> V) -> bool {
        self.old
            .as_ref()
            .zip(self.new.as_ref())
            .is_some_and(|(old, new)| part(old) != part(new))
    }

    /// The same, or the object has appeared: what failed without it may succeed now.
    pub(crate) fn is_news<V: PartialEq>(&self, part: impl Fn(&K) -> V) -> bool {
        let appeared = self.old.is_none() && self.new.is_some() && !self.first_list;
        appeared || self.is_edit(part)
    }

    /// The object after the change, or before it where it is gone.
    pub(crate) fn either(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// The objects of one kind. Clones share them.
pub(crate) struct Cache<K: Indexed>(Arc<Mutex<State<K>>>);

struct State<K: Indexed> {
    objects: BTreeMap<Key, Arc<K>>,
    /// Objects that went: an answer to a write, or a watch, may still bring older copies of them.
    departed: Departed,
    /// Keys that were there and were reported gone; `None`: nobody asks.
    gone: Option<BTreeSet<Key>>,
    /// What this process changed and nobody was told of; `None`: nobody asks.
    own: Option<Vec<Change<K>>>,
    /// The list under way.
    listing: Option<BTreeMap<Key, Arc<K>>>,
    synced: bool,
    /// The keys of the objects by their value, for every index.
    indexes: BTreeMap<K::Index, BTreeMap<String, BTreeSet<Key>>>,
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

impl<K: Indexed> Cache<K> {
    /// An empty cache.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            objects: BTreeMap::new(),
            departed: Departed::default(),
            gone: None,
            own: None,
            listing: None,
            synced: false,
            indexes: K::INDEXES.iter().map(|index| (*index, BTreeMap::new())).collect(),
        })))
    }

    /// The same, and it remembers which objects went, until it is told to forget them.
    pub(crate) fn remembering_gone(self) -> Self {
        self.lock().gone = Some(BTreeSet::new());
        self
    }

    /// The same, and it remembers what this process changed, until it is asked for: the watch will bring nothing new.
    pub(crate) fn remembering_own(self) -> Self {
        self.lock().own = Some(Vec::new());
        self
    }

    /// What this process changed since the last call.
    pub(crate) fn take_own(&self) -> Vec<Change<K>> {
        self.lock().own.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether the first list is complete.
    pub(crate) fn synced(&self) -> bool {
        self.lock().synced
    }

    /// The object of that key.
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
        let keys = state.indexes.get(&index).and_then(|index| index.get(value));
        keys.into_iter()
            .flatten()
            .filter_map(|key| state.objects.get(key).cloned())
            .collect()
    }

    /// Whether an object of that key was there and went while this process watched.
    pub(crate) fn is_gone(&self, key: &Key) -> bool {
        self.lock().gone.as_ref().is_some_and(|gone| gone.contains(key))
    }

    /// Forgets that an object of that key was ever there.
    pub(crate) fn forget_gone(&self, key: &Key) {
        self.lock().back(key);
    }

    /// Takes over what a write of this process returned.
    pub(crate) fn wrote(&self, object: K) -> Arc<K> {
        let object = Arc::new(object);
        let mut state = self.lock();
        if state.accepts(&object) {
            let old = state.put(Key::of(&*object), Arc::clone(&object));
            let new = Some(Arc::clone(&object));
            state.did(Change {
                old,
                new,
                first_list: false,
            });
        }
        object
    }

    /// Takes over that a delete of this process removed an object.
    pub(crate) fn removed(&self, object: &K) {
        let mut state = self.lock();
        let key = Key::of(object);
        if let Some(uid) = object.uid()
            && state
                .objects
                .get(&key)
                .is_some_and(|known| known.uid().as_ref() == Some(&uid))
        {
            let old = state.take(&key);
            state.departed.insert(uid);
            state.did(Change {
                old,
                new: None,
                first_list: false,
            });
        }
    }

    /// Takes over an event of the watch; gives what changed. An event about what is known already, or
    /// about something older, changes nothing.
    pub(crate) fn apply(&self, event: Event<K>) -> Vec<Change<K>> {
        let mut state = self.lock();
        match event {
            Event::Init => {
                state.listing = Some(BTreeMap::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                let object = Arc::new(object);
                state.listing.get_or_insert_default().insert(Key::of(&*object), object);
                Vec::new()
            }
            Event::InitDone => state.finish_list(),
            Event::Apply(object) => state.apply(Arc::new(object)).into_iter().collect(),
            Event::Delete(object) => state.delete(object).into_iter().collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.lock()
    }
}

impl<K: Indexed> State<K> {
    /// Whether `object` is newer than what is known of it.
    fn accepts(&self, object: &K) -> bool {
        if object.uid().is_some_and(|uid| self.departed.contains(&uid)) {
            return false;
        }
        let known = self.objects.get(&Key::of(object));
        known.is_none_or(|known| revision(object).is_none() || revision(object) > revision(&**known))
    }

    fn apply(&mut self, object: Arc<K>) -> Option<Change<K>> {
        if !self.accepts(&object) {
            return None;
        }
        let old = self.put(Key::of(&*object), Arc::clone(&object));
        Some(Change {
            old,
            new: Some(object),
            first_list: !self.synced,
        })
    }

    fn delete(&mut self, object: K) -> Option<Change<K>> {
        let key = Key::of(&object);
        let uid = object.uid();
        if let Some(uid) = &uid {
            self.departed.insert(uid.clone());
        }
        let another = self.objects.get(&key).is_some_and(|known| known.uid() != uid);
        if another {
            return None;
        }
        self.went(&key);
        Some(Change {
            old: Some(self.take(&key).unwrap_or_else(|| Arc::new(object))),
            new: None,
            first_list: !self.synced,
        })
    }

    fn finish_list(&mut self) -> Vec<Change<K>> {
        let listed = self.listing.take().unwrap_or_default();
        let missing: Vec<Key> = self
            .objects
            .keys()
            .filter(|key| !listed.contains_key(*key))
            .cloned()
            .collect();
        let missing =
            if defect!(UnlistedMachineBelievedPresent) && TypeId::of::<K>() == TypeId::of::<mcm_api::Machine>() {
                Vec::new()
            } else {
                missing
            };
        let mut changes = Vec::new();
        for key in missing {
            let old = self.take(&key);
            self.went(&key);
            changes.push(Change {
                old,
                new: None,
                first_list: !self.synced,
            });
        }
        changes.extend(listed.into_values().filter_map(|object| self.apply(object)));
        self.synced = true;
        changes
    }

    fn did(&mut self, change: Change<K>) {
        if let Some(own) = &mut self.own {
            own.push(change);
        }
    }

    fn went(&mut self, key: &Key) {
        if let Some(gone) = &mut self.gone {
            gone.insert(key.clone());
        }
    }

    fn back(&mut self, key: &Key) {
        if let Some(gone) = &mut self.gone {
            gone.remove(key);
        }
    }

    fn put(&mut self, key: Key, object: Arc<K>) -> Option<Arc<K>> {
        let old = self.take(&key);
        self.back(&key);
        for (index, by_value) in &mut self.indexes {
            if let Some(value) = object.value(*index) {
                by_value.entry(value).or_default().insert(key.clone());
            }
        }
        self.objects.insert(key, object);
        old
    }

    fn take(&mut self, key: &Key) -> Option<Arc<K>> {
        let old = self.objects.remove(key)?;
        for (index, by_value) in &mut self.indexes {
            if let Some(value) = old.value(*index)
                && let Some(keys) = by_value.get_mut(&value)
            {
                keys.remove(key);
                if keys.is_empty() {
                    by_value.remove(&value);
                }
            }
        }
        Some(old)
    }
}

/// The revision as a number: servers of today promise that it can be compared.
fn revision<K: Resource>(object: &K) -> Option<u64> {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests;
