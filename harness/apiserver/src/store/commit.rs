//! Commits, as those hear of them who listen.

use super::Change;

/// One committed change.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// The qualified resource: `pods`, `machines.machine.sapcloud.io`.
    pub resource: &'a str,
    /// What changed.
    pub change: &'a Change,
}

/// Called inside the store's critical section, in the order of revisions: it must be quick and must not call the store.
pub trait CommitListener: Send + Sync + std::fmt::Debug {
    /// A change was committed.
    fn committed(&self, commit: &Commit<'_>);
}
