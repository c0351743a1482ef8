//! Defects that replace rules of an owner's list.

use mcm_api::{PreservationEntry, PreservedBy};

use super::owners_list::SweptList;

impl SweptList {
    /// Releases the same number of machines, but those that were entered first. `known` is the previous list.
    pub(crate) fn misjudged(mut self, known: &[PreservationEntry]) -> Self {
        let before = |entry: &PreservationEntry| known.iter().any(|one| one.uid == entry.uid && one.released);
        let chosen = |entry: &&mut PreservationEntry| entry.by == PreservedBy::Auto && !before(entry);
        let ending = self.entries.iter_mut().filter(chosen).filter(|entry| entry.released);
        let mut count = ending.count();
        for entry in self.entries.iter_mut().filter(chosen) {
            entry.released = count > 0;
            count = count.saturating_sub(1);
        }
        self
    }
}
