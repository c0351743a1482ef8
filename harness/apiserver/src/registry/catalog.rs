//! The catalog of resources: built-in ones and those of CustomResourceDefinitions.
//!
//! A catalog is immutable; a new definition replaces it by a new catalog.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::openapi;
use crate::resource::Resource;

/// All served resources.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    resources: Vec<Arc<Resource>>,
    /// Entries by group, plural and version.
    index: BTreeMap<String, BTreeMap<String, BTreeMap<String, Entry>>>,
    /// The index of the OpenAPI documents. It contains the hash of each document, so its creation renders all of
    /// them.
    openapi: OnceLock<Value>,
    /// The OpenAPI v2 document.
    openapi_v2: OnceLock<openapi::v2::Document>,
}

/// A resource and the storage of its objects.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The resource definition.
    pub resource: Arc<Resource>,
    /// The store's table, the same for all versions.
    pub table: Arc<str>,
    /// The `apiVersion` of stored objects, the same for all versions.
    pub stored_version: Arc<str>,
    /// The resource as which objects are stored, if this version has a conversion.
    storage: Option<Arc<Resource>>,
}

impl Entry {
    /// The entry of the storage version, which writes, reads of single objects and errors use. The same entry unless
    /// its version has a conversion.
    pub fn storage(&self) -> Self {
        let Some(storage) = &self.storage else {
            return self.clone();
        };
        Self {
            resource: Arc::clone(storage),
            storage: None,
            ..self.clone()
        }
    }

    /// The entry with another definition of its resource.
    pub fn with_resource(&self, resource: Resource) -> Self {
        Self {
            resource: Arc::new(resource),
            ..self.clone()
        }
    }

    /// Converts an object of this version to the form in which it is stored.
    pub fn convert_to_stored(&self, value: &mut Value) {
        if let Some(conversion) = &self.resource.conversion {
            (conversion.to_stored)(value);
            value["apiVersion"] = (*self.stored_version).into();
        }
    }

    /// Converts a stored object to this version.
    pub fn convert_from_stored(&self, value: &mut Value) {
        if let Some(conversion) = &self.resource.conversion {
            (conversion.from_stored)(value);
        }
        value["apiVersion"] = self.resource.api_version().into();
    }
}

impl Catalog {
    /// A catalog of these resources. The first version of a resource is its storage version.
    pub fn new(resources: Vec<Arc<Resource>>) -> Self {
        let mut index: BTreeMap<String, BTreeMap<String, BTreeMap<String, Entry>>> = BTreeMap::new();
        for resource in &resources {
            let stored = resource.conversion.as_ref().and_then(|conversion| {
                let versions = index.get(conversion.group)?.get(&resource.plural)?;
                versions.get(conversion.version).cloned()
            });
            let versions = index
                .entry(resource.group.clone())
                .or_default()
                .entry(resource.plural.clone())
                .or_default();
            let custom = resource.versions.as_ref().map(|versions| versions.storage().into());
            let (table, stored_version) = match stored.as_ref().or_else(|| versions.values().next()) {
                Some(first) => (Arc::clone(&first.table), Arc::clone(&first.stored_version)),
                None => (resource.qualified().into(), resource.api_version().into()),
            };
            let stored_version = custom.unwrap_or(stored_version);
            let storage = stored.map(|stored| seen_as(&stored.resource, resource));
            versions.insert(
                resource.version.clone(),
                Entry {
                    resource: Arc::clone(resource),
                    table,
                    stored_version,
                    storage,
                },
            );
        }
        Self {
            resources,
            index,
            openapi: OnceLock::new(),
            openapi_v2: OnceLock::new(),
        }
    }

    /// All resource definitions.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// The resource at a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Entry> {
        self.index.get(group)?.get(plural)?.get(version)
    }

    /// The index of the OpenAPI documents, rendered once.
    pub fn openapi_index(&self) -> &Value {
        self.openapi.get_or_init(|| openapi::index(&self.resources))
    }

    /// The OpenAPI v2 document, rendered once.
    pub fn openapi_v2(&self) -> &openapi::v2::Document {
        self.openapi_v2
            .get_or_init(|| openapi::v2::Document::of(&self.resources))
    }

    /// Whether any resource of the group is served.
    pub fn has_group(&self, group: &str) -> bool {
        self.index.get(group).is_some_and(|plurals| !plurals.is_empty())
    }

    /// Whether all resources of the group come from definitions.
    pub fn has_custom_resources_only(&self, group: &str) -> bool {
        let entries = self.index.get(group).into_iter().flat_map(BTreeMap::values);
        entries
            .flat_map(BTreeMap::values)
            .all(|entry| entry.resource.is_custom())
    }

    /// An entry of any version of the resource.
    pub fn any_version(&self, group: &str, plural: &str) -> Option<&Entry> {
        main_version(self.index.get(group)?.get(plural)?)
    }

    /// An entry of any version of the custom resource; `None` for a built-in one, which a definition cannot replace.
    pub fn any_custom_version(&self, group: &str, plural: &str) -> Option<&Entry> {
        self.any_version(group, plural)
            .filter(|entry| entry.resource.is_custom())
    }

    /// Whether a definition can serve a resource: neither the resource nor its group in that version is built in, as
    /// built-in ones have precedence upstream.
    pub fn allows_custom(&self, group: &str, version: &str, plural: &str) -> bool {
        let built_in = |entry: &Entry| !entry.resource.is_custom();
        let Some(plurals) = self.index.get(group) else {
            return true;
        };
        let mut of_version = plurals.values().filter_map(|versions| versions.get(version));
        let same_resource = plurals.get(plural).and_then(|versions| versions.values().next());
        !of_version.any(built_in) && !same_resource.is_some_and(built_in)
    }

    /// One entry per resource.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let resources = self.index.values().flat_map(BTreeMap::values);
        resources.filter_map(main_version)
    }

    /// One entry per namespaced resource.
    pub fn namespaced(&self) -> impl Iterator<Item = &Entry> {
        self.entries().filter(|entry| entry.resource.namespaced)
    }

    /// A catalog with the versions of one resource replaced.
    pub fn replaced(&self, group: &str, plural: &str, resources: Vec<Resource>) -> Self {
        let kept = self
            .resources
            .iter()
            .filter(|resource| resource.group != group || resource.plural != plural)
            .cloned();
        Self::new(kept.chain(resources.into_iter().map(Arc::new)).collect())
    }
}

/// The version in which the objects of a custom resource are stored, if it is served; else any version.
fn main_version(versions: &BTreeMap<String, Entry>) -> Option<&Entry> {
    let stored =
        |entry: &&Entry| entry.resource.versions.is_some() && entry.resource.api_version() == *entry.stored_version;
    versions.values().find(stored).or_else(|| versions.values().next())
}

/// The storage version of a resource as clients of another version see it: with the group of that version in errors about
/// missing and existing objects, and with its checks if it has its own.
fn seen_as(storage: &Resource, version: &Resource) -> Arc<Resource> {
    Arc::new(Resource {
        group: version.group.clone(),
        validate: version.validate.or(storage.validate),
        conversion: version.conversion,
        ..storage.clone()
    })
}
