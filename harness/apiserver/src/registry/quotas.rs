//! Resource quotas of a namespace: checks what a write consumes, and records it in their status.

use parking_lot::MutexGuard;
use serde_json::Value;

use super::{Entry, Part, Registry, metadata, tree};
use crate::kinds;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Key, Scope};

const QUOTAS: &str = "resourcequotas";

/// What a write consumes, until it is recorded. No other write of an object with quotas happens meanwhile.
pub(super) struct Consumption<'a> {
    _lock: MutexGuard<'a, ()>,
    changed: Vec<Value>,
}

impl Registry {
    /// What a new object, or an update, consumes of the quotas of its namespace; `None` without quotas.
    ///
    /// # Errors
    /// 403 if a quota is exceeded.
    pub(super) fn consume(
        &self,
        entry: &Entry,
        new: &Value,
        old: Option<(&Value, Part)>,
    ) -> Result<Option<Consumption<'_>>, ApiError> {
        let resource = &entry.resource;
        let namespace = metadata::text(new, "namespace");
        let is_limited = resource.namespaced && old.is_none_or(|(_, part)| can_grow(resource, part));
        if !is_limited || self.quotas_of(namespace)?.is_empty() {
            return Ok(None);
        }
        let lock = self.consuming.lock();
        let quotas = self.quotas_of(namespace)?;
        let changed = kinds::consume(resource, &quotas, new, old.map(|(old, _)| old))
            .map_err(|refusal| ApiError::forbidden(resource, metadata::text(new, "name"), &refusal.to_string()))?;
        Ok(Some(Consumption { _lock: lock, changed }))
    }

    /// Records what a successful write consumed. A quota that another client wrote meanwhile keeps that status: the
    /// quota controller counts the objects after each change of a quota.
    ///
    /// # Errors
    /// Those of an invalid stored object.
    pub(super) fn record_consumption(&self, consumption: Option<Consumption<'_>>) -> Result<(), ApiError> {
        let catalog = self.catalog();
        let Some(entry) = catalog.find("", "v1", QUOTAS) else {
            return Ok(());
        };
        let Some(Consumption { _lock, changed }) = consumption else {
            return Ok(());
        };
        for mut quota in changed {
            let key = Key::new(metadata::text(&quota, "namespace"), metadata::text(&quota, "name"));
            let revision = metadata::text(&quota, "resourceVersion").parse().ok();
            let draft = self.draft(entry, &mut quota)?;
            if self.store.get(&entry.table, &key).map(|object| object.revision) == revision {
                let _raced = self.store.put(&entry.table, revision, draft, None);
            }
        }
        Ok(())
    }

    fn quotas_of(&self, namespace: &str) -> Result<Vec<Value>, ApiError> {
        let scope = Scope {
            namespace: Some(namespace.to_owned()),
            after: None,
        };
        let listing = self.store.list(QUOTAS, &scope, None);
        let objects = listing.map(|listing| listing.objects).unwrap_or_default();
        objects.iter().map(|object| tree(object)).collect()
    }
}

/// Whether an update of this part can consume more. Of pods it is only the subresource `resize`, as upstream: other changes
/// of a pod that is older than its quota must stay possible.
fn can_grow(resource: &Resource, part: Part) -> bool {
    if !resource.group.is_empty() {
        return false;
    }
    match resource.plural.as_str() {
        "pods" => part == Part::Resize,
        "services" | "persistentvolumeclaims" => part == Part::Main,
        _ => false,
    }
}
