//! Names of machines to create, including names of creations with unknown outcome.

use std::collections::BTreeMap;

use clock::Stream;
use parking_lot::Mutex;

use crate::cache::Key;

/// The alphabet of suffixes: no vowels, and no digits that look like vowels.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

const SUFFIX: usize = 5;

/// The maximum length of a name's prefix, so that the name with separator and suffix is valid as a label value.
const PREFIX: usize = mcm_api::MAX_LABEL_VALUE - SUFFIX - 1;

/// Generates names of machines to create.
#[derive(Debug)]
pub(crate) struct MachineNames {
    stream: Mutex<Stream>,
    /// Names of creations with unknown outcome, by set: they are used first, so that no machine is created twice.
    uncertain: Mutex<BTreeMap<Key, Vec<String>>>,
}

impl MachineNames {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream: Mutex::new(stream),
            uncertain: Mutex::default(),
        }
    }

    pub(crate) fn next(&self, set: &Key) -> String {
        let mut uncertain = self.uncertain.lock();
        let known = uncertain.get_mut(set).and_then(Vec::pop);
        known.unwrap_or_else(|| {
            let prefix = set.name.get(..PREFIX).unwrap_or(&set.name);
            let prefix = prefix.trim_end_matches(['-', '.']);
            let suffix = self.stream.lock().text(SUFFIX, ALPHABET);
            format!("{prefix}-{suffix}")
        })
    }

    /// Returns a name whose creation had an unknown outcome to the generator.
    pub(crate) fn reuse_first(&self, set: &Key, name: String) {
        let mut uncertain = self.uncertain.lock();
        uncertain.entry(set.clone()).or_default().push(name);
    }

    /// Forgets a set that does not exist any more.
    pub(crate) fn forget(&self, set: &Key) {
        self.uncertain.lock().remove(set);
    }
}

#[cfg(test)]
mod tests {
    use clock::Seed;
    use mcm_api::{MAX_LABEL_VALUE, NodeName};

    use super::*;

    #[test]
    fn a_generated_name_fits_a_label_and_begins_with_the_name_of_its_set() {
        let names = MachineNames::new(Seed::new(1).stream("names"));
        let sets = [1, 56, 57, 58, 60, 253].map(|length| "s".repeat(length));
        let dotted = format!("{}-.{}", "s".repeat(55), "t".repeat(10));
        for set in sets.into_iter().chain([dotted]) {
            let name = names.next(&Key::new("default", &set));
            assert!(
                name.len() <= MAX_LABEL_VALUE && NodeName::new(&*name).unwrap().is_label_value(),
                "{name}"
            );
            let (prefix, suffix) = name.rsplit_once('-').unwrap();
            assert!(set.starts_with(prefix) && !prefix.ends_with(['-', '.']), "{name}");
            assert_eq!(suffix.len(), SUFFIX);
        }
    }
}
