//! CustomResourceDefinitions: adds their resources to the catalog and removes them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::attempt::{Attempt, refusal};
use super::{Catalog, Entry, Registry, Written, metadata, tree};
use crate::custom::TakenNames;
use crate::resource::Resource;
use crate::status::{ApiError, FieldError};
use crate::store::{Key, Object, Scope};

pub(super) const GROUP: &str = "apiextensions.k8s.io";
pub(super) const PLURAL: &str = "customresourcedefinitions";
pub(super) const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// The finalizer that keeps a definition until its last object is removed.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(super) fn is_definition(resource: &Resource) -> bool {
    resource.group == GROUP && resource.plural == PLURAL
}

/// The group of a definition, from its name.
pub(super) fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

impl Registry {
    /// Updates the catalog for a definition that was created, changed or removed.
    pub(super) fn refresh_definition(&self, name: &str) -> Result<(), ApiError> {
        let _exchange = self.definitions.lock();
        let Some((plural, group)) = name.split_once('.') else {
            return Ok(());
        };
        let catalog = self.catalog();
        let mut resources = match self.store.get(TABLE, &Key::new("", name)) {
            None => Vec::new(),
            Some(object) => self
                .resources_of(&catalog, &tree(&object)?, object.revision)
                .map_err(|errors| ApiError::invalid(GROUP, "CustomResourceDefinition", name, &errors))?,
        };
        resources.retain(|resource| catalog.allows_custom(group, &resource.version, plural));
        let served_before = catalog.any_custom_version(group, plural).is_some();
        if resources.is_empty() && !served_before {
            return Ok(());
        }
        if resources.is_empty() {
            self.set_catalog(catalog.replaced(group, plural, resources));
            self.store.retire(name).map_err(ApiError::internal)?;
        } else {
            self.store.open(name);
            self.set_catalog(catalog.replaced(group, plural, resources));
        }
        Ok(())
    }

    /// The resources of a definition, with the versions between which they convert.
    fn resources_of(
        &self,
        catalog: &Catalog,
        definition: &Value,
        revision: u64,
    ) -> Result<Vec<Resource>, Vec<FieldError>> {
        let mut resources = crate::custom::resources(definition)?;
        let network = Arc::clone(&self.network);
        let mut versions = crate::custom::versions(definition, &resources, revision, network)?;
        let (plural, group) = metadata::text(definition, "name").split_once('.').unwrap_or_default();
        let previous = catalog.any_custom_version(group, plural);
        if let Some(previous) = previous.and_then(|entry| entry.resource.versions.as_ref()) {
            versions = versions.after(previous);
        }
        let versions = Arc::new(versions);
        for resource in &mut resources {
            resource.versions = Some(Arc::clone(&versions));
        }
        Ok(resources)
    }

    /// The names that the other definitions of the group use.
    pub(super) fn names_of_others(&self, definition: &Value) -> Result<TakenNames, ApiError> {
        let (name, group) = (metadata::text(definition, "name"), definition["spec"]["group"].as_str());
        let mut taken = TakenNames::default();
        for (other, value) in self.definitions_of(group.unwrap_or_default())? {
            if other.key.name != name {
                taken.add(&value);
            }
        }
        Ok(taken)
    }

    fn definitions_of(&self, group: &str) -> Result<Vec<(Arc<Object>, Value)>, ApiError> {
        let listing = self.store.list(TABLE, &Scope::default(), None);
        let objects = listing.map(|listing| listing.objects).unwrap_or_default();
        let of_group = |object: &Arc<Object>| object.key.name.split_once('.').is_some_and(|(_, found)| found == group);
        let with_tree = |object: Arc<Object>| tree(&object).map(|value| (object, value));
        objects.into_iter().filter(of_group).map(with_tree).collect()
    }

    /// Updates the catalog for a definition that was changed or removed, and establishes those that waited for its names.
    pub(super) fn definition_changed(&self, entry: &Entry, name: &str) -> Result<(), ApiError> {
        self.refresh_definition(name)?;
        let group = group_of(name);
        self.accept_free_names(entry, group, Some(name))?;
        self.sync_api_services(group)
    }

    /// Establishes the definitions of a group whose names have become free, except for the changed one.
    pub(super) fn accept_free_names(&self, entry: &Entry, group: &str, changed: Option<&str>) -> Result<(), ApiError> {
        let _names = self.naming.lock();
        for (object, old) in self.definitions_of(group)? {
            if Some(object.key.name.as_str()) == changed || !crate::custom::waits_for_names(&old) {
                continue;
            }
            let mut new = old.clone();
            self.complete(entry, &mut new, Some(&old))?;
            let draft = self.draft(entry, &mut new)?;
            if draft.same_content(&object) {
                continue;
            }
            match self.store.put(&entry.table, Some(object.revision), draft, None) {
                Ok(_) => self.refresh_definition(&object.key.name)?,
                // A concurrent write accepts the names itself.
                Err(refused) => {
                    if let Some(error) = refusal(refused, entry, &object.key.name) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// # Errors
    /// 405 if the resource's definition is being deleted.
    pub(super) fn check_definition_is_live(&self, resource: &Resource) -> Result<(), ApiError> {
        if !resource.is_custom() {
            return Ok(());
        }
        let definition = self.store.get(TABLE, &Key::new("", &resource.qualified()));
        if definition.is_some_and(|definition| definition.meta.deleting) {
            let message = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::new(405, "MethodNotAllowed", message));
        }
        Ok(())
    }

    /// Starts the removal of a definition: marks it, deletes its objects, and removes it if none is left. Returns the
    /// marked definition; `None` after a concurrent write.
    pub(super) fn end_definition(
        &self,
        entry: &Entry,
        current: &Arc<Object>,
        dry_run: bool,
    ) -> Result<Option<Written>, ApiError> {
        let name = &current.key.name;
        let now = self.now_text();
        let mut value = tree(current)?;
        let metadata = metadata::of_mut(&mut value);
        let mut finalizers = metadata::texts(metadata.get("finalizers"));
        if !finalizers.contains(&CLEANUP) {
            finalizers.push(CLEANUP);
        }
        let finalizers = Value::from(finalizers);
        metadata.insert("finalizers".to_owned(), finalizers);
        metadata.insert("deletionTimestamp".to_owned(), now.as_str().into());
        let condition = json!({
            "type": "Terminating", "status": "True", "lastTransitionTime": now, "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        });
        if let Some(conditions) = value.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
            conditions.push(condition);
        }
        let marked = match self.replace(entry, current, value, dry_run, Vec::new())? {
            Attempt::Done(marked) if dry_run => return Ok(Some(marked)),
            Attempt::Done(marked) => marked,
            Attempt::Raced => return Ok(None),
        };
        self.delete_objects_of(name)?;
        Ok(Some(marked))
    }

    /// Deletes all objects of a definition that is being deleted, and the definition if none is left.
    pub(super) fn delete_objects_of(&self, name: &str) -> Result<(), ApiError> {
        let catalog = self.catalog();
        let (plural, group) = name.split_once('.').unwrap_or_default();
        if let Some(custom) = catalog.any_custom_version(group, plural) {
            let objects = self
                .store
                .list(&custom.table, &Scope::default(), None)
                .map(|list| list.objects);
            for object in objects.unwrap_or_default() {
                self.delete_dependent(custom, &object.key)?;
            }
        }
        self.finish_definition(name)
    }

    /// Removes a definition whose last object was removed.
    pub(super) fn finish_definition(&self, name: &str) -> Result<(), ApiError> {
        let catalog = self.catalog();
        let Some(entry) = catalog.any_version(GROUP, PLURAL) else {
            return Ok(());
        };
        loop {
            let Some(current) = self
                .store
                .get(TABLE, &Key::new("", name))
                .filter(|current| current.meta.deleting)
            else {
                return Ok(());
            };
            let (plural, group) = name.split_once('.').unwrap_or_default();
            let is_served = catalog.any_custom_version(group, plural).is_some();
            if is_served && !self.store.is_empty(name, None) {
                return Ok(());
            }
            let mut value = tree(&current)?;
            let metadata = metadata::of_mut(&mut value);
            let mut finalizers = metadata::texts(metadata.get("finalizers"));
            finalizers.retain(|finalizer| *finalizer != CLEANUP);
            let left = (!finalizers.is_empty()).then(|| Value::from(finalizers));
            metadata::put(metadata, "finalizers", left);
            match self.replace(entry, &current, value, false, Vec::new())? {
                Attempt::Done(_) => return Ok(()),
                Attempt::Raced => {}
            }
        }
    }
}
