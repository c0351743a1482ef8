//! An object in the other versions of its kind, which lists and watches share.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Object;

/// At most one object per version. Each conforms to a revision of the definition, and those of the newest one are kept.
#[derive(Debug, Default)]
pub(super) struct OtherVersions(Mutex<Vec<(u64, Arc<Object>)>>);

impl OtherVersions {
    pub(super) fn get(&self, api_version: &str, definition: u64) -> Option<Arc<Object>> {
        let kept = self.0.lock();
        let found = kept
            .iter()
            .find(|(kept_for, object)| *kept_for == definition && object.api_version() == api_version);
        found.map(|(_, object)| Arc::clone(object))
    }

    pub(super) fn keep(&self, definition: u64, object: Arc<Object>) {
        let mut kept = self.0.lock();
        // A request that began before a change of the definition must not replace the newer form.
        if kept.iter().any(|(kept_for, _)| *kept_for > definition) {
            return;
        }
        kept.retain(|(kept_for, other)| *kept_for == definition && other.api_version() != object.api_version());
        kept.push((definition, object));
    }
}

impl Clone for OtherVersions {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Draft;
    use super::*;

    fn object(version: &str) -> Arc<Object> {
        let value = json!({ "apiVersion": version, "kind": "Widget", "metadata": { "name": "a" } });
        Arc::new(Draft::new(&value, Vec::new()).unwrap().finish(1))
    }

    #[test]
    fn forms_are_kept_per_version_and_replaced_by_those_of_later_definitions() {
        let forms = OtherVersions::default();
        forms.keep(1, object("e/v1"));
        forms.keep(1, object("e/v2"));
        assert!(forms.get("e/v1", 1).is_some() && forms.get("e/v2", 1).is_some());
        let newer = object("e/v1");
        forms.keep(2, Arc::clone(&newer));
        assert!(forms.get("e/v1", 1).is_none() && forms.get("e/v2", 1).is_none());
        forms.keep(1, object("e/v1"));
        assert!(forms.get("e/v1", 2).is_some_and(|kept| Arc::ptr_eq(&kept, &newer)));
    }
}
