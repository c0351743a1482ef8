//! The registry: the semantics of create, update, patch, delete, list and watch for any resource.
//!
//! It is synchronous, takes a clock and an id source, and must not know HTTP. The code is generic over [`Resource`];
//! the special rules of single kinds are in separate files: `namespaces`, `pods`, `definitions`.

mod accounts;
mod addresses;
mod apply;
mod attempt;
mod catalog;
mod create;
mod decode;
mod definitions;
mod delete;
mod eviction;
mod expiry;
mod fields;
mod limits;
mod list;
mod metadata;
mod namespaces;
mod options;
mod owners;
mod part;
mod patch;
mod pods;
mod quotas;
mod references;
mod restore;
mod review;
mod roles;
mod scale;
mod seeds;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unconverted;
mod update;
mod watch;
mod write;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use clock::{Clock, Stream};
use jiff::Timestamp;
use parking_lot::{Mutex, ReentrantMutex, RwLock};
use serde_json::Value;

pub use catalog::{Catalog, Entry};
pub use fields::FieldSelector;
pub use list::Page;
pub use options::{
    DeleteOptions, FieldValidation, ListOptions, ListRevision, Propagation, WatchOptions, WriteOptions, parse_dry_run,
};
pub use owners::FieldManagers;
pub use part::Part;
pub use patch::PatchKind;
pub(crate) use review::let_perform;
pub use watch::{Event, Watch};
pub use write::check_review;

use crate::json;
use crate::network::Network;
use crate::resource::Resource;
use crate::service_port::ServicePort;
use crate::status::{ApiError, FieldError};
use crate::store::{Draft, Key, Object, Store};

/// The result of a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The HTTP code.
    pub code: u16,
    /// The body.
    pub payload: Payload,
    /// The texts of `Warning` headers.
    pub warnings: Vec<String>,
}

impl Written {
    /// Adds warnings.
    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}

/// The body of a response.
#[derive(Clone, Debug)]
pub enum Payload {
    /// An object of the resource.
    Object(Arc<Object>),
    /// Any other value: a Status, a Scale.
    Value(Value),
}

/// The settings of the registry.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether a garbage collector runs for this server. Without one nothing removes the finalizers of foreground
    /// deletion and orphaning, so both act as background deletion.
    pub garbage_collector: bool,
    /// Whether controllers initialize and empty namespaces; otherwise the server does.
    pub namespace_controllers: bool,
    /// The text of `kube-root-ca.crt` in each namespace.
    pub certificate_authority: String,
    /// Whether the server updates the rules of aggregated ClusterRoles.
    pub aggregates_roles: bool,
    /// Whether a new pod gets a service account, which must exist, and a token volume.
    pub service_account_admission: bool,
    /// When the server records who wrote which fields.
    pub field_managers: FieldManagers,
    /// Whether the server keeps an APIService for each group version that definitions serve.
    pub api_services: bool,
    /// Where the services run that webhooks and API services name.
    pub services: BTreeMap<ServicePort, SocketAddr>,
}

/// The registry.
#[derive(Debug)]
pub struct Registry {
    store: Arc<Store>,
    network: Arc<Network>,
    catalog: RwLock<Arc<Catalog>>,
    /// Locked while the resources of a definition are replaced.
    definitions: Mutex<()>,
    /// Locked from the check of a definition's names until the definition is stored.
    naming: ReentrantMutex<()>,
    /// Locked from the allocation of a service's address and ports until the service is stored.
    allocations: ReentrantMutex<()>,
    /// Locked from the check of a namespace's quotas until their status is written.
    consuming: Mutex<()>,
    clock: Clock,
    random: Arc<Mutex<Stream>>,
    settings: Settings,
    expiry: Mutex<expiry::Expiry>,
}

impl Registry {
    /// A registry of these resources on an empty store.
    pub fn new(store: Store, resources: Vec<Resource>, clock: Clock, random: Stream, settings: Settings) -> Self {
        let catalog = Catalog::new(resources.into_iter().map(Arc::new).collect());
        for resource in catalog.resources() {
            store.open(&resource.qualified());
        }
        let catalog = RwLock::new(Arc::new(catalog));
        let store = Arc::new(store);
        let random = Arc::new(Mutex::new(random));
        let network = Network::new(
            Arc::clone(&store),
            clock.clone(),
            Arc::clone(&random),
            settings.services.clone(),
        );
        Self {
            store,
            network: Arc::new(network),
            catalog,
            definitions: Mutex::new(()),
            naming: ReentrantMutex::new(()),
            allocations: ReentrantMutex::new(()),
            consuming: Mutex::new(()),
            clock,
            random,
            settings,
            expiry: Mutex::default(),
        }
    }

    /// The underlying store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Calls of webhooks.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The currently served resources.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read())
    }

    fn set_catalog(&self, catalog: Catalog) {
        *self.catalog.write() = Arc::new(catalog);
    }

    /// Reads an object.
    ///
    /// # Errors
    /// 404.
    pub fn get(&self, entry: &Entry, key: &Key) -> Result<Arc<Object>, ApiError> {
        self.store
            .get(&entry.table, key)
            .ok_or_else(|| ApiError::not_found(&entry.resource, &key.name))
    }

    /// Runs `draw` on the id source.
    pub fn random<T>(&self, draw: impl FnOnce(&mut Stream) -> T) -> T {
        draw(&mut self.random.lock())
    }

    /// The current time in Kubernetes format: UTC, whole seconds.
    fn now_text(&self) -> String {
        time_text(self.clock.now())
    }

    /// Encodes an object for the store, without its managers if it is too deep or too large with them.
    ///
    /// # Errors
    /// 422 for an object that is too deep to be read back, 500 for one that is too large, as upstream.
    fn draft(&self, entry: &Entry, value: &mut Value) -> Result<Draft, ApiError> {
        match encode(entry, value) {
            Err(error) if exceeds_limit(&error) && owners::encoded(value).is_some() => {
                metadata::of_mut(value).remove("managedFields");
                encode(entry, value)
            }
            result => result,
        }
    }
}

/// Whether an object is too deep or too large to be stored.
fn exceeds_limit(error: &ApiError) -> bool {
    error.code == 422 || error.message == write::too_large().message
}

fn encode(entry: &Entry, value: &mut Value) -> Result<Draft, ApiError> {
    let resource = &entry.resource;
    if !json::fits(value, json::MAX_DEPTH) {
        let why = format!("exceeded max depth of {}", json::MAX_DEPTH);
        let error = FieldError::invalid("<nil>", Value::Null, why);
        let name = metadata::text(value, "name");
        return Err(ApiError::invalid(&resource.group, &resource.kind, name, &[error]));
    }
    value["kind"] = resource.kind.as_str().into();
    let draft = match &resource.versions {
        Some(versions) if resource.api_version() != *entry.stored_version => {
            let stored = versions.encode(value)?;
            Draft::new(&stored, fields::extract(versions.selectable(), &stored))
        }
        _ => {
            value["apiVersion"] = (*entry.stored_version).into();
            Draft::new(value, fields::extract(&resource.selectable, value))
        }
    };
    let draft = draft.map_err(ApiError::internal)?;
    if draft.size() > json::MAX_OBJECT {
        return Err(write::too_large());
    }
    Ok(draft)
}

/// A time in Kubernetes format: UTC, whole seconds.
pub fn time_text(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// The object as a tree.
///
/// # Errors
/// 500, which indicates a bug.
pub fn tree(object: &Object) -> Result<Value, ApiError> {
    object.value().map_err(ApiError::internal)
}

fn success(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = serde_json::json!({ "name": name, "kind": resource.plural, "uid": uid });
    if !resource.group.is_empty() {
        details["group"] = resource.group.as_str().into();
    }
    serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    })
}
