//! MachineNames of machines to be created, and those whose creation may or may not have had its effect.

use std::collections::BTreeMap;

use clock::Stream;
use parking_lot::Mutex;

use crate::cache::Key;

/// Letters of names: no vowels, and no digits that look like them.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

const SUFFIX: usize = 5;

/// Longest prefix of a name, so that the whole fits a label.
const PREFIX: usize = 58;

/// MachineNames of machines to be made.
#[derive(Debug)]
pub(crate) struct MachineNames {
    stream: Mutex<Stream>,
    /// MachineNames by set whose creation may or may not have had its effect: they are used again first, so that no machine is
    /// made twice.
    doubtful: Mutex<BTreeMap<Key, Vec<String>>>,
}

impl MachineNames {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream: Mutex::new(stream),
            doubtful: Mutex::default(),
        }
    }

    pub(crate) fn next(&self, set: &Key) -> String {
        let mut doubtful = self.doubtful.lock();
        let known = doubtful.get_mut(set).and_then(Vec::pop);
        known.unwrap_or_else(|| {
            let prefix: String = set.name.chars().take(PREFIX).collect();
            let suffix = self.stream.lock().text(SUFFIX, ALPHABET);
            format!("{prefix}-{suffix}")
        })
    }

    pub(crate) fn doubt(&self, set: &Key, name: String) {
        let mut doubtful = self.doubtful.lock();
        doubtful.entry(set.clone()).or_default().push(name);
    }

    /// There is no such set any more.
    pub(crate) fn forget(&self, set: &Key) {
        self.doubtful.lock().remove(set);
    }
}
