//! Limits of one VM.

use std::collections::BTreeMap;

/// Limits of one VM and of its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartLimits {
    /// Disks of a VM.
    pub disks: usize,
    /// Network interfaces of a VM.
    pub nics: usize,
    /// Tags of a VM, a disk or an interface.
    pub tags: usize,
    /// Characters of a tag's key.
    pub tag_key: usize,
    /// Characters of a tag's value.
    pub tag_value: usize,
}

/// Why parts of a VM are invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum PartError {
    /// There are too many of them.
    #[error("there are {count} {what}; at most {limit} are allowed")]
    TooMany {
        what: &'static str,
        count: usize,
        limit: usize,
    },
    /// The key or value of a tag is too long; `key` is shortened.
    #[error("the {what} has {length} characters; at most {limit} are allowed")]
    TooLong {
        key: String,
        what: &'static str,
        length: usize,
        limit: usize,
    },
    /// A tag has no key.
    #[error("the key is empty; give it a name")]
    EmptyKey,
}

impl PartError {
    /// The key of the invalid tag, if the error concerns one tag.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::TooMany { .. } => None,
            Self::TooLong { key, .. } => Some(key),
            Self::EmptyKey => Some(""),
        }
    }
}

/// Checks tags.
///
/// # Errors
/// The first invalid one, or their number.
pub(super) fn check_tags(tags: &BTreeMap<String, String>, limits: &PartLimits) -> Result<(), PartError> {
    at_most("tags", tags.len(), limits.tags)?;
    for (key, value) in tags {
        for (what, text, limit) in [("key", key, limits.tag_key), ("value", value, limits.tag_value)] {
            let length = text.chars().count();
            if length > limit {
                let key = key.chars().take(40).collect();
                return Err(PartError::TooLong {
                    key,
                    what,
                    length,
                    limit,
                });
            }
        }
        if key.is_empty() {
            return Err(PartError::EmptyKey);
        }
    }
    Ok(())
}

/// Checks the number of something.
pub(super) fn at_most(what: &'static str, count: usize, limit: usize) -> Result<(), PartError> {
    if count > limit {
        return Err(PartError::TooMany { what, count, limit });
    }
    Ok(())
}
