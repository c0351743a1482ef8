//! Which indexes the cache of a kind has.

use std::fmt;

use kube::Resource;

/// A cached kind. Its indexes are an enum, so that using an index of another kind does not compile.
pub(crate) trait Indexed: Resource + Sized + 'static {
    /// The enum of indexes.
    type Index: Copy + Ord + fmt::Debug + Send + 'static;

    /// All indexes.
    const INDEXES: &'static [Self::Index];

    /// The object's value in the index; `None`: the index does not contain it.
    fn value(&self, index: Self::Index) -> Option<String>;
}

/// The index type of kinds without indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoIndex {}

/// Implements [`Indexed`] for kinds without indexes.
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
