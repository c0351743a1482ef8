//! What one VM can have at most.

use std::collections::BTreeMap;

/// What one VM can have at most, and each tag.
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

/// The tags that make no sense: the key, where one is at fault, and why.
pub(super) fn check_tags(tags: &BTreeMap<String, String>, limits: &PartLimits) -> Result<(), (Option<String>, String)> {
    at_most("tags", tags.len(), limits.tags).map_err(|reason| (None, reason))?;
    for (key, value) in tags {
        for (what, text, most) in [("key", key, limits.tag_key), ("value", value, limits.tag_value)] {
            let length = text.chars().count();
            if length > most {
                let shown = key.chars().take(40).collect();
                let reason = format!("the {what} has {length} characters; at most {most} are possible");
                return Err((Some(shown), reason));
            }
        }
        if key.is_empty() {
            return Err((Some(String::new()), "the key is empty; give it a name".to_owned()));
        }
    }
    Ok(())
}

/// That there are not too many of something.
pub(super) fn at_most(what: &str, count: usize, most: usize) -> Result<(), String> {
    if count > most {
        return Err(format!("there are {count} {what}; at most {most} are possible"));
    }
    Ok(())
}
