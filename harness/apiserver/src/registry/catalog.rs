//! The table of resources: built-in rows and those of CustomResourceDefinitions.
//!
//! A catalog never changes; a new definition makes a new catalog, which takes the place of the old.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::resource::Resource;

/// All resources that are served.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    rows: Vec<Arc<Resource>>,
    /// Group, plural, version.
    index: BTreeMap<String, BTreeMap<String, BTreeMap<String, Entry>>>,
    /// The index of the OpenAPI documents: it has the hash of each, so making it makes all of them.
    openapi: OnceLock<Value>,
}

/// A resource and where its objects are stored.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The row.
    pub resource: Arc<Resource>,
    /// The store's table, the same for all versions.
    pub table: Arc<str>,
    /// The `apiVersion` that objects are stored with, the same for all versions.
    pub stored_version: Arc<str>,
}

impl Catalog {
    /// A catalog of these rows. The first version of a resource is the one its objects are stored
    /// with.
    pub fn new(rows: Vec<Arc<Resource>>) -> Self {
        let mut index: BTreeMap<String, BTreeMap<String, BTreeMap<String, Entry>>> = BTreeMap::new();
        for row in &rows {
            let versions = index
                .entry(row.group.clone())
                .or_default()
                .entry(row.plural.clone())
                .or_default();
            let (table, stored_version) = match versions.values().next() {
                Some(first) => (Arc::clone(&first.table), Arc::clone(&first.stored_version)),
                None => (row.qualified().into(), row.api_version().into()),
            };
            versions.insert(
                row.version.clone(),
                Entry {
                    resource: Arc::clone(row),
                    table,
                    stored_version,
                },
            );
        }
        Self {
            rows,
            index,
            openapi: OnceLock::new(),
        }
    }

    /// Every row.
    pub fn rows(&self) -> &[Arc<Resource>] {
        &self.rows
    }

    /// The resource of that path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Entry> {
        self.index.get(group)?.get(plural)?.get(version)
    }

    /// The index of the OpenAPI documents, made once.
    pub fn openapi_index(&self) -> &Value {
        self.openapi.get_or_init(|| crate::openapi::index(&self.rows))
    }

    /// Whether anything of the group is served.
    pub fn has_group(&self, group: &str) -> bool {
        self.index.get(group).is_some_and(|plurals| !plurals.is_empty())
    }

    /// Any version of the resource.
    pub fn any_version(&self, group: &str, plural: &str) -> Option<&Entry> {
        self.index.get(group)?.get(plural)?.values().next()
    }

    /// One entry for each resource whose objects live in namespaces.
    pub fn namespaced(&self) -> impl Iterator<Item = &Entry> {
        let resources = self.index.values().flat_map(BTreeMap::values);
        resources
            .filter_map(|versions| versions.values().next())
            .filter(|entry| entry.resource.namespaced)
    }

    /// The rows without those of a resource, and with others in their place.
    pub fn replaced(&self, group: &str, plural: &str, rows: Vec<Resource>) -> Self {
        let kept = self
            .rows
            .iter()
            .filter(|row| row.group != group || row.plural != plural)
            .cloned();
        Self::new(kept.chain(rows.into_iter().map(Arc::new)).collect())
    }
}
