//! Restores the content of a log, and completes what the end of the previous process interrupted.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::definitions::{self, TABLE};
use super::delete::is_finished;
use super::{Registry, addresses, expiry, namespaces, tree};
use crate::json;
use crate::status::ApiError;
use crate::store::log::{Entry as LogEntry, Loaded, Record};
use crate::store::{Object, Scope};

impl Registry {
    /// Fills the empty store with the content of a log. Built-in kinds come first, because definitions decide which other
    /// kinds exist; objects of kinds that are not served any more are dropped.
    ///
    /// # Errors
    /// 500 with the reason: an object of the log is not valid.
    pub fn restore(&self, loaded: &Loaded) -> Result<(), ApiError> {
        let is_custom = |table: &str| {
            let (plural, group) = split(table);
            self.catalog().any_version(group, plural).is_none()
        };
        let custom: BTreeSet<&str> = loaded.tables().into_iter().filter(|table| is_custom(table)).collect();
        for custom_kinds in [false, true] {
            let wanted = |table: &str| custom.contains(table) == custom_kinds;
            let mut revision = loaded.base;
            for entry in loaded.objects.iter().filter(|entry| wanted(&entry.table)) {
                self.restore_entry(entry, None)?;
            }
            for change in &loaded.changes {
                match change {
                    Record::Put(entry) | Record::Delete(entry) => {
                        revision = revision.max(entry.revision);
                        if wanted(&entry.table) {
                            self.restore_entry(entry, Some(matches!(change, Record::Delete(_))))?;
                        }
                    }
                    Record::Retire(table) if wanted(table) => self.store.restore_retirement(table, revision),
                    Record::Retire(_) => {}
                }
            }
            if !custom_kinds {
                for definition in self.objects_of(TABLE) {
                    self.refresh_definition(&definition.key.name)?;
                }
            }
        }
        self.store.restore_revision(loaded.revision());
        Ok(())
    }

    /// Inserts an object, or repeats a change; `removed`: whether the change removed it.
    fn restore_entry(&self, stored: &LogEntry, removed: Option<bool>) -> Result<(), ApiError> {
        let catalog = self.catalog();
        let (plural, group) = split(&stored.table);
        let Some(entry) = catalog.any_version(group, plural) else {
            return Ok(());
        };
        let mut value = json::parse(stored.text.as_bytes()).map_err(ApiError::internal)?;
        let draft = match &entry.resource.versions {
            // It keeps the version in which it was stored.
            Some(_) => entry.stored_draft(&value)?,
            None => self.draft(entry, &mut value)?,
        };
        match removed {
            None => self.store.restore_object(&stored.table, draft, stored.revision),
            Some(removed) => self
                .store
                .restore_change(&stored.table, draft, stored.revision, removed),
        }
        Ok(())
    }

    /// Completes requests of which the previous process wrote only the first changes.
    ///
    /// # Errors
    /// 500, which indicates a bug, or a write that the log refuses.
    pub fn complete_interrupted(&self, loaded: &Loaded) -> Result<(), ApiError> {
        let catalog = self.catalog();
        for table in loaded.tables() {
            let (plural, group) = split(table);
            if catalog.any_version(group, plural).is_none() {
                // Its objects were dropped: the next start must not read them again.
                self.store.retire(table).map_err(ApiError::internal)?;
            }
        }
        if let Some(entry) = catalog.any_version(definitions::GROUP, definitions::PLURAL) {
            let definitions = self.objects_of(TABLE);
            let groups: BTreeSet<&str> = definitions.iter().map(|object| split(&object.key.name).1).collect();
            for group in groups {
                self.accept_free_names(entry, group, None)?;
                self.sync_api_services(group)?;
            }
        }
        for entry in catalog.entries() {
            for object in self.objects_of(&entry.table) {
                let name = object.key.name.as_str();
                if addresses::is_service(&entry.resource) {
                    self.sync_addresses(&object.key, Some(&tree(&object)?), None)?;
                }
                if expiry::is_event(&entry.resource) {
                    self.event_written(entry, &object)?;
                }
                if !object.meta.deleting {
                    if namespaces::is_namespace(&entry.resource) {
                        self.initialize_namespace(name)?;
                    }
                    continue;
                }
                if definitions::is_definition(&entry.resource) {
                    self.delete_objects_of(name)?;
                } else if namespaces::is_namespace(&entry.resource) {
                    self.empty_namespace(name)?;
                } else if is_finished(&entry.resource, &tree(&object)?) {
                    // Only its metadata decides, which all versions share.
                    self.take(entry, &object, false)?;
                }
            }
        }
        self.aggregate_roles()
    }

    fn objects_of(&self, table: &str) -> Vec<Arc<Object>> {
        let listing = self.store.list(table, &Scope::default(), None);
        listing.map(|listing| listing.objects).unwrap_or_default()
    }
}

/// The plural and group of a table.
fn split(table: &str) -> (&str, &str) {
    table.split_once('.').unwrap_or((table, ""))
}
