//! Group versions that other API servers serve: which they are, whether they are available, and which resources they have.
//! The front end forwards requests for them.
//!
//! An APIService with a service registers one. While this server listens, it asks each of the other servers for its
//! resources, at the latest every 30 seconds, and writes the condition Available.

mod availability;
mod discovered;
mod registration;
mod user;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

pub(crate) use availability::Available;
pub(crate) use discovered::Discovered;
pub(crate) use registration::Registration;
pub(crate) use user::{CONFIGURATION as REQUEST_HEADERS, name_user};

use crate::authority::Authority;
use crate::identity::Identity;
use crate::keys::Issued;
use crate::network::{Connection, NotConnected, Peer, Place, Tls};
use crate::signal;
use crate::store::{Scope, Store};

/// The table of APIServices.
pub(crate) const API_SERVICES: &str = "apiservices.apiregistration.k8s.io";
/// The user whose certificate this server shows to other servers.
pub(crate) const PROXY_USER: &str = "front-proxy-client";

/// The group versions that other servers serve.
#[derive(Debug)]
pub(crate) struct ApiServices {
    cache: Mutex<Cache>,
    /// What the last successful checks found, by the name of the APIService.
    discovered: Mutex<BTreeMap<String, Arc<Discovered>>>,
    /// The certificate of the user of this server.
    client: OnceLock<Option<Issued>>,
}

#[derive(Debug)]
struct Cache {
    /// Notifies of changed APIServices.
    changes: Option<signal::Receiver<u64>>,
    registrations: Option<Arc<Vec<Arc<Registration>>>>,
}

impl ApiServices {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            cache: Mutex::new(Cache {
                changes: store.subscribe(API_SERVICES),
                registrations: None,
            }),
            discovered: Mutex::default(),
            client: OnceLock::new(),
        }
    }

    /// All registrations of other servers.
    pub(crate) fn registrations(&self, store: &Store) -> Arc<Vec<Arc<Registration>>> {
        let mut cache = self.cache.lock();
        let mut changed = false;
        if let Some(changes) = cache.changes.as_mut().filter(|changes| changes.has_changed()) {
            changes.mark_unchanged();
            changed = true;
        }
        match &cache.registrations {
            Some(registrations) if !changed => Arc::clone(registrations),
            _ => {
                let registrations = Arc::new(read(store));
                cache.registrations = Some(Arc::clone(&registrations));
                registrations
            }
        }
    }

    /// The registration of a group version.
    pub(crate) fn find(&self, store: &Store, group: &str, version: &str) -> Option<Arc<Registration>> {
        let registrations = self.registrations(store);
        let is_it = |found: &&Arc<Registration>| found.group == group && found.version == version;
        registrations.iter().find(is_it).cloned()
    }

    /// The resources of a registered group version; `None`: it is not available.
    pub(crate) fn discovered(&self, registration: &Registration) -> Option<Arc<Discovered>> {
        let discovered = self.discovered.lock();
        discovered
            .get(&registration.name)
            .filter(|_| registration.is_available)
            .cloned()
    }

    /// Keeps what a check found; `None`: the server of the APIService is not available.
    pub(crate) fn found(&self, name: &str, discovered: Option<Discovered>) {
        let mut known = self.discovered.lock();
        match discovered {
            Some(discovered) => known.insert(name.to_owned(), Arc::new(discovered)),
            None => known.remove(name),
        };
    }

    /// Connects to the server of a registration.
    pub(crate) async fn connect(
        &self,
        registration: &Registration,
        place: Place,
        authority: Option<&Authority>,
    ) -> Result<Connection, NotConnected> {
        let issue = || authority.and_then(|authority| authority.issue(&Identity::user(PROXY_USER)).ok());
        let peer = Peer {
            place,
            tls: Some(Tls {
                name: registration.host(),
                trust: registration.trust.clone(),
                client: self.client.get_or_init(issue).clone(),
            }),
        };
        Connection::open(&peer).await
    }
}

/// The registrations of other servers, by the names of the APIServices.
fn read(store: &Store) -> Vec<Arc<Registration>> {
    let listing = store.list(API_SERVICES, &Scope::default(), None);
    let objects = listing.map(|listing| listing.objects).unwrap_or_default();
    let values = objects.iter().filter_map(|object| object.value().ok());
    values
        .filter_map(|value| Registration::read(&value))
        .map(Arc::new)
        .collect()
}
