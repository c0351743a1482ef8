//! Admission by policies and webhooks: which of them a request concerns, and what they decide.
//!
//! The checks of the stored policies themselves are in [`crate::kinds`]. This module reads policies, parameters and
//! namespaces from the registry; it must not know HTTP requests.

mod authorizer;
mod matching;
mod params;
mod request;
mod validating;
mod values;

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

pub(crate) use request::{Kind, Request};

use crate::authorization::Authorizer;
use crate::policies::{Binding, Policy};
use crate::registry::Registry;
use crate::reviewer::{Reviewer, Subject};
use crate::signal;
use crate::status::ApiError;
use crate::store::{Scope, Store};

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

/// The parts of the server that decisions need.
pub(crate) trait Context: Debug + Send + Sync + 'static {
    fn registry(&self) -> &Registry;
    fn authorizer(&self) -> &Authorizer;
}

/// The policies of one server.
#[derive(Debug)]
pub(crate) struct Admission {
    cache: Mutex<Cache>,
}

#[derive(Debug)]
struct Cache {
    /// Notify of changed policies and bindings.
    changes: Vec<signal::Receiver<u64>>,
    plugins: Option<Arc<Plugins>>,
}

/// The policies at one time.
#[derive(Debug, Default)]
struct Plugins {
    /// Those with bindings.
    validating: Vec<(Policy, Vec<Binding>)>,
}

impl Admission {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            cache: Mutex::new(Cache {
                changes: [POLICIES, BINDINGS]
                    .iter()
                    .filter_map(|table| store.subscribe(table))
                    .collect(),
                plugins: None,
            }),
        }
    }

    /// What decides about a write; `None` if nothing does.
    pub(crate) fn reviewer(&self, context: Arc<dyn Context>, request: Request) -> Option<Arc<dyn Reviewer>> {
        if request.is_exempt() {
            return None;
        }
        let plugins = self.plugins(context.registry().store());
        if plugins.validating.is_empty() {
            return None;
        }
        Some(Arc::new(Review {
            context,
            plugins,
            request,
        }))
    }

    fn plugins(&self, store: &Store) -> Arc<Plugins> {
        let mut cache = self.cache.lock();
        let mut changed = false;
        for receiver in &mut cache.changes {
            if receiver.has_changed() {
                receiver.mark_unchanged();
                changed = true;
            }
        }
        match &cache.plugins {
            Some(plugins) if !changed => Arc::clone(plugins),
            _ => {
                let plugins = Arc::new(Plugins::read(store));
                cache.plugins = Some(Arc::clone(&plugins));
                plugins
            }
        }
    }
}

impl Plugins {
    fn read(store: &Store) -> Self {
        let bindings: Vec<Binding> = objects(store, BINDINGS).iter().map(Binding::read).collect();
        // Stored policies are parsed before they are stored.
        let policies = objects(store, POLICIES).into_iter();
        let policies = policies.filter_map(|policy| Policy::read(&policy).ok());
        let bound = policies.map(|policy| {
            let own = bindings.iter().filter(|binding| binding.policy == policy.name).cloned();
            let own: Vec<Binding> = own.collect();
            (policy, own)
        });
        Self {
            validating: bound.filter(|(_, bindings)| !bindings.is_empty()).collect(),
        }
    }
}

/// All objects of a table, by name.
fn objects(store: &Store, table: &str) -> Vec<Value> {
    let listing = store.list(table, &Scope::default(), None);
    let objects = listing.map(|listing| listing.objects).unwrap_or_default();
    objects.iter().filter_map(|object| object.value().ok()).collect()
}

/// The review of one write.
#[derive(Debug)]
struct Review {
    context: Arc<dyn Context>,
    plugins: Arc<Plugins>,
    request: Request,
}

impl Reviewer for Review {
    fn mutate(&self, _subject: Subject<'_>, _warnings: &mut Vec<String>) -> Result<Option<Value>, ApiError> {
        Ok(None)
    }

    fn validate(&self, subject: Subject<'_>, warnings: &mut Vec<String>) -> Result<(), ApiError> {
        validating::validate(
            &self.context,
            &self.plugins.validating,
            &self.request,
            &subject,
            warnings,
        )
    }
}
