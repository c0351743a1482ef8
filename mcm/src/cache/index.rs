//! Which indexes the cache of a kind has.

use std::fmt;

use kube::Resource;

/// A kind that is cached. An index is a variant of its [`Indexed::Index`], so that one of another kind does not compile.
pub(crate) trait Indexed: Resource + Sized + 'static {
    /// The indexes.
    type Index: Copy + Ord + fmt::Debug + Send + 'static;

    /// All indexes.
    const INDEXES: &'static [Self::Index];

    /// The value under which the index has the object; `None`: it does not have it.
    fn value(&self, index: Self::Index) -> Option<String>;
}

/// The indexes of a kind that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoIndex {}

/// Makes kinds [`Indexed`] without an index.
macro_rules! not_indexed {
    ($($kind:ty),+ $(,)?) => {
        $(impl $crate::cache::Indexed for $kind {
            type Index = $crate::cache::NoIndex;
            const INDEXES: &'static [Self::Index] = &[];

            fn value(&self, index: Self::Index) -> Option<String> {
                match index {}
            }
        })+
    };
}
pub(crate) use not_indexed;
