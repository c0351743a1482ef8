//! Admission by policies and webhooks: which of them a request concerns, and what they decide.
//!
//! The checks of the stored policies themselves are in [`crate::kinds`]. This module reads policies, parameters and
//! namespaces from the registry; it must not know HTTP.

mod authorizer;
mod bound;
mod effect;
mod equivalent;
mod matching;
mod mutating;
mod mutations;
mod params;
mod refusal;
mod request;
mod review;
mod validating;
mod values;
mod webhooks;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

pub(crate) use request::{Kind, Request};

use mutating::Mutator;

use crate::authorization::Authorizer;
use crate::policies::{Base, Binding, MutatingPolicy, Policy, Webhook};
use crate::registry::{Entry, Registry};
use crate::reviewer::{Reviewer, Subject};
use crate::signal;
use crate::status::ApiError;
use crate::store::{Scope, Store};

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const MUTATING_POLICIES: &str = "mutatingadmissionpolicies.admissionregistration.k8s.io";
const MUTATING_BINDINGS: &str = "mutatingadmissionpolicybindings.admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

/// The parts of the server that decisions need.
pub(crate) trait Context: Debug + Send + Sync + 'static {
    fn registry(&self) -> &Registry;
    fn authorizer(&self) -> &Authorizer;
    /// A new identity for a question.
    fn uid(&self) -> String;
}

/// The policies and webhooks of one server.
#[derive(Debug)]
pub(crate) struct Admission {
    cache: Mutex<Cache>,
}

#[derive(Debug)]
struct Cache {
    /// Notify of changed policies, bindings and configurations of webhooks.
    changes: Vec<signal::Receiver<u64>>,
    plugins: Option<Arc<Plugins>>,
}

/// The policies and webhooks at one time.
#[derive(Debug, Default)]
struct Plugins {
    /// The policies with bindings.
    policies: Vec<(Policy, Vec<Binding>)>,
    /// Policies with bindings, then webhooks.
    mutating: Vec<Mutator>,
    validating: Vec<Webhook>,
}

impl Admission {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            cache: Mutex::new(Cache {
                changes: [
                    POLICIES,
                    BINDINGS,
                    MUTATING_POLICIES,
                    MUTATING_BINDINGS,
                    MUTATING,
                    VALIDATING,
                ]
                .iter()
                .filter_map(|table| store.subscribe(table))
                .collect(),
                plugins: None,
            }),
        }
    }

    /// What decides about a write; `None` if nothing does.
    pub(crate) fn reviewer(
        &self,
        context: &Arc<impl Context>,
        request: impl FnOnce() -> Request,
    ) -> Option<Arc<dyn Reviewer>> {
        let plugins = self.plugins(context.registry().store());
        if plugins.is_empty() {
            return None;
        }
        let request = request();
        if request.is_exempt() {
            return None;
        }
        let context: Arc<dyn Context> = context.clone();
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

    /// Whether the server can call webhooks.
    pub(crate) fn has_webhooks(&self, store: &Store) -> bool {
        let plugins = self.plugins(store);
        let is_webhook = |mutator: &Mutator| matches!(mutator, Mutator::Webhook(_));
        !plugins.validating.is_empty() || plugins.mutating.iter().any(is_webhook)
    }
}

impl Plugins {
    fn read(store: &Store) -> Self {
        let policies = objects(store, POLICIES).into_iter();
        let policies = policies.map(|policy| Policy::read(&policy).0);
        let mutating = objects(store, MUTATING_POLICIES).into_iter();
        let mutating = mutating.map(|policy| MutatingPolicy::read(&policy).0);
        let mutating = with_bindings(mutating, bindings(store, MUTATING_BINDINGS), |policy| &policy.base);
        let mutating = mutating
            .into_iter()
            .map(|(policy, bindings)| Mutator::Policy(policy, bindings));
        let webhooks = read_webhooks(store, MUTATING).into_iter().map(Mutator::Webhook);
        Self {
            policies: with_bindings(policies, bindings(store, BINDINGS), |policy| &policy.base),
            mutating: mutating.chain(webhooks).collect(),
            validating: read_webhooks(store, VALIDATING),
        }
    }

    fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.mutating.is_empty() && self.validating.is_empty()
    }
}

fn bindings(store: &Store, table: &str) -> Vec<Binding> {
    objects(store, table).iter().map(Binding::read).collect()
}

/// The policies that have bindings, with these.
fn with_bindings<P>(
    policies: impl Iterator<Item = P>,
    bindings: Vec<Binding>,
    base: impl Fn(&P) -> &Base,
) -> Vec<(P, Vec<Binding>)> {
    let bound = policies.map(|policy| {
        let is_own = |binding: &&Binding| binding.policy == base(&policy).name;
        let own = bindings.iter().filter(is_own).cloned().collect();
        (policy, own)
    });
    bound.filter(|(_, own): &(P, Vec<Binding>)| !own.is_empty()).collect()
}

/// The webhooks of all configurations, in the order in which they are called.
fn read_webhooks(store: &Store, table: &str) -> Vec<Webhook> {
    let configurations = objects(store, table).into_iter();
    configurations
        .flat_map(|configuration| Webhook::read_all(&configuration).0)
        .collect()
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

impl Review {
    /// The entry of the request's version, if its objects are stored in another form.
    fn converting(&self) -> Option<Entry> {
        let target = &self.request.target;
        let catalog = self.context.registry().catalog();
        let entry = catalog.find(&target.group, &target.version, &target.resource)?;
        let is_converted = entry.resource.conversion.is_some() && target.subresource != "scale";
        is_converted.then(|| entry.clone())
    }

    /// Lets `decide` see the objects in the version of the request.
    fn in_requested_version<T>(
        &self,
        subject: Subject<'_>,
        decide: impl FnOnce(Option<&Entry>, (&Request, &Subject<'_>)) -> T,
    ) -> T {
        let entry = self.converting();
        let [new, old] = requested(entry.as_ref(), &subject);
        let subject = Subject {
            new: new.as_deref(),
            old: old.as_deref(),
            ..subject
        };
        decide(entry.as_ref(), (&self.request, &subject))
    }
}

impl Reviewer for Review {
    fn mutate(&self, subject: Subject<'_>, warnings: &mut Vec<String>) -> Result<Option<Value>, ApiError> {
        self.in_requested_version(subject, |entry, request| {
            let mut changed = mutating::mutate(&self.context, &self.plugins.mutating, request, warnings)?;
            if let (Some(entry), Some(changed)) = (entry, &mut changed) {
                entry.convert_to_stored(changed);
            }
            Ok(changed)
        })
    }

    fn validate(&self, subject: Subject<'_>, warnings: &mut Vec<String>) -> Result<(), ApiError> {
        self.in_requested_version(subject, |_, request| {
            validating::validate(&self.context, &self.plugins.policies, request, warnings)?;
            webhooks::validate(&self.context, &self.plugins.validating, request, warnings)
        })
    }
}

/// The new and the old object in the version of the request.
fn requested<'a>(entry: Option<&Entry>, subject: &Subject<'a>) -> [Option<Cow<'a, Value>>; 2] {
    [subject.new, subject.old].map(|object| {
        let object = object?;
        Some(match entry {
            None => Cow::Borrowed(object),
            Some(entry) => {
                let mut object = object.clone();
                entry.convert_from_stored(&mut object);
                Cow::Owned(object)
            }
        })
    })
}
