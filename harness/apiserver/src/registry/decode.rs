//! Stored objects in the version of a request. Those of custom resources can have been stored in another version, or
//! under an earlier schema.

use std::sync::Arc;

use serde_json::Value;

use super::fields::extract;
use super::{Entry, tree};
use crate::conversion::Versions;
use crate::status::ApiError;
use crate::store::{Draft, Object};

impl Entry {
    /// The object as a tree: in the version of the entry for a custom resource, else as stored.
    ///
    /// # Errors
    /// 500 if a conversion fails.
    pub fn decoded(&self, object: &Object) -> Result<Value, ApiError> {
        match self.outdated(object) {
            None => tree(object),
            Some(versions) => {
                let decoded = versions.decode(vec![tree(object)?], &self.resource.api_version())?;
                decoded
                    .into_iter()
                    .next()
                    .ok_or_else(|| ApiError::internal("a conversion has no result"))
            }
        }
    }

    /// The object in the version of the entry for a custom resource, else as stored.
    ///
    /// # Errors
    /// 500 if a conversion fails.
    pub fn shown(&self, object: &Arc<Object>) -> Result<Arc<Object>, ApiError> {
        match self.outdated(object) {
            None => Ok(Arc::clone(object)),
            Some(_) => self.encoded_form(object, &self.decoded(object)?),
        }
    }

    /// The same for the objects of a list or watch, which remember their form: all watches and lists share it.
    ///
    /// # Errors
    /// 500 if a conversion fails.
    pub(super) fn shown_all(&self, objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, ApiError> {
        let Some(versions) = &self.resource.versions else {
            return Ok(objects);
        };
        let version = self.resource.api_version();
        let mut shown = Vec::with_capacity(objects.len());
        let mut missing = Vec::new();
        for object in objects {
            let known = match self.outdated(&object) {
                None => Some(Arc::clone(&object)),
                Some(_) => object.in_other_version(&version, versions.since()),
            };
            if known.is_none() {
                missing.push(shown.len());
            }
            shown.push(known.unwrap_or(object));
        }
        if missing.is_empty() {
            return Ok(shown);
        }
        let stored: Vec<&Arc<Object>> = missing.iter().filter_map(|index| shown.get(*index)).collect();
        let trees: Result<Vec<Value>, ApiError> = stored.into_iter().map(|object| tree(object)).collect();
        for (index, value) in missing.into_iter().zip(versions.decode(trees?, &version)?) {
            if let Some(place) = shown.get_mut(index) {
                let form = self.encoded_form(place, &value)?;
                place.keep_other_version(versions.since(), Arc::clone(&form));
                *place = form;
            }
        }
        Ok(shown)
    }

    /// The versions that convert the object; `None` if its stored form is that of the entry.
    fn outdated(&self, object: &Object) -> Option<&Versions> {
        let versions = self.resource.versions.as_deref()?;
        let is_current = (object.revision == 0 || object.revision > versions.since())
            && object.api_version() == self.resource.api_version();
        (!is_current).then_some(versions)
    }

    /// The draft of a stored object, unconverted.
    ///
    /// # Errors
    /// 500, which indicates a bug.
    pub(super) fn stored_draft(&self, stored: &Value) -> Result<Draft, ApiError> {
        let fields = match &self.resource.versions {
            Some(versions) => versions.selectable(),
            None => &self.resource.selectable,
        };
        Draft::new(stored, extract(fields, stored)).map_err(ApiError::internal)
    }

    fn encoded_form(&self, object: &Object, value: &Value) -> Result<Arc<Object>, ApiError> {
        let draft = Draft::new(value, extract(&self.resource.selectable, value));
        Ok(Arc::new(draft.map_err(ApiError::internal)?.finish(object.revision)))
    }
}
