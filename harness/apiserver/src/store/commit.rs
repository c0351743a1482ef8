//! Commits as listeners receive them.

use super::Change;

/// One committed change.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// The qualified resource: `pods`, `machines.machine.sapcloud.io`.
    pub resource: &'a str,
    /// The change.
    pub change: &'a Change,
}

/// The store calls a listener inside its critical section, in the order of revisions: the listener must be quick and
/// must not call the store.
pub trait CommitListener: Send + Sync + std::fmt::Debug {
    /// A change was committed.
    fn committed(&self, commit: &Commit<'_>);
}
