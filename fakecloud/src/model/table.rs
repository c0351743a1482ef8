//! Rows by key, with a list of touched rows for the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

/// Rows in the order of their keys. Reads use the map; all changes use the methods.
#[derive(Debug)]
pub(super) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    touched: BTreeSet<K>,
    noting: bool,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            touched: BTreeSet::new(),
            noting: false,
        }
    }
}

impl<K, V> Deref for Table<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &BTreeMap<K, V> {
        &self.rows
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    /// Starts to record the keys of touched rows.
    pub(super) fn note_changes(&mut self) {
        self.noting = true;
    }

    fn touch(&mut self, key: &K) {
        if self.noting {
            self.touched.insert(key.clone());
        }
    }

    pub(super) fn insert(&mut self, key: K, row: V) {
        self.touch(&key);
        self.rows.insert(key, row);
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.rows.remove(key);
        if removed.is_some() {
            self.touch(key);
        }
        removed
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        if self.rows.contains_key(key) {
            self.touch(key);
        }
        self.rows.get_mut(key)
    }

    /// Keys of all rows that were touched since the last call, including removed ones.
    pub(super) fn take_touched(&mut self) -> BTreeSet<K> {
        std::mem::take(&mut self.touched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_row_are_recorded_once_and_reads_are_not() {
        let mut table = Table::default();
        table.insert("before", 1);
        table.note_changes();
        table.insert("a", 1);
        table.insert("b", 2);
        if let Some(row) = table.get_mut(&"b") {
            *row = 3;
        }
        assert_eq!(table.get("before"), Some(&1));
        assert_eq!(table.get_mut(&"none"), None);
        assert_eq!(table.take_touched(), BTreeSet::from(["a", "b"]));
        table.remove(&"a");
        table.remove(&"none");
        assert_eq!(table.take_touched(), BTreeSet::from(["a"]));
        assert_eq!(table.len(), 2);
    }
}
