//! The forms of an object in the other versions of its kind, which lists and watches share.

use std::sync::Arc;

use parking_lot::Mutex;

/// Forms of an object. Each conforms to a revision of the definition, and those of the newest one are kept.
#[derive(Debug)]
pub(super) struct Forms<T>(Mutex<Vec<(u64, Arc<T>)>>);

impl<T> Forms<T> {
    /// The form for that revision of the definition.
    pub(super) fn get(&self, definition: u64, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let kept = self.0.lock();
        let found = kept
            .iter()
            .find(|(kept_for, form)| *kept_for == definition && is_it(form));
        found.map(|(_, form)| Arc::clone(form))
    }

    /// Keeps a form instead of those that it replaces and those for earlier revisions of the definition.
    pub(super) fn keep(&self, definition: u64, form: Arc<T>, is_replaced: impl Fn(&T) -> bool) {
        let mut kept = self.0.lock();
        // A request that began before a change of the definition must not replace the newer form.
        if kept.iter().any(|(kept_for, _)| *kept_for > definition) {
            return;
        }
        kept.retain(|(kept_for, other)| *kept_for == definition && !is_replaced(other));
        kept.push((definition, form));
    }
}

impl<T> Default for Forms<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Clone for Forms<T> {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_kept_per_version_and_replaced_by_those_of_later_definitions() {
        let forms = Forms::default();
        let keep = |definition, text: &str| {
            let version = text.chars().next();
            forms.keep(definition, Arc::new(text.to_owned()), |other: &String| {
                other.chars().next() == version
            });
        };
        let get = |definition, version: &str| forms.get(definition, |form| form.starts_with(version));
        keep(1, "1 old");
        keep(1, "2 old");
        assert!(get(1, "1").is_some() && get(1, "2").is_some());
        keep(2, "1 new");
        assert!(get(1, "1").is_none() && get(1, "2").is_none());
        keep(1, "1 late");
        assert_eq!(get(2, "1").as_deref().map(String::as_str), Some("1 new"));
    }
}
