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

/// The first invalid tag: its key, if the error concerns one, and the error.
pub(super) fn check_tags(tags: &BTreeMap<String, String>, limits: &PartLimits) -> Result<(), (Option<String>, String)> {
    at_most("tags", tags.len(), limits.tags).map_err(|reason| (None, reason))?;
    for (key, value) in tags {
        for (what, text, limit) in [("key", key, limits.tag_key), ("value", value, limits.tag_value)] {
            let length = text.chars().count();
            if length > limit {
                let shown = key.chars().take(40).collect();
                let reason = format!("the {what} has {length} characters; at most {limit} are allowed");
                return Err((Some(shown), reason));
            }
        }
        if key.is_empty() {
            return Err((Some(String::new()), "the key is empty; give it a name".to_owned()));
        }
    }
    Ok(())
}

/// Checks the number of something.
pub(super) fn at_most(what: &str, count: usize, limit: usize) -> Result<(), String> {
    if count > limit {
        return Err(format!("there are {count} {what}; at most {limit} are allowed"));
    }
    Ok(())
}
