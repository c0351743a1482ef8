//! Authorization: RBAC over the stored roles and bindings.
//!
//! Makes decisions only. It knows actions and identities and reads four tables of the store; it must not know HTTP or
//! authentication. `docs/reference/embedded-server.md` lists the differences from upstream.

mod action;
pub(crate) mod aggregate;
mod defaults;
mod escalation;
mod index;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

pub use action::{Action, ResourceAction};
pub(crate) use defaults::seeds;
pub use rule::Rule;

use index::{Binding, Index, Role, Verdict};

use crate::guard::Guard;
use crate::identity::Identity;
use crate::resource::Resource;
use crate::signal;
use crate::store::{Key, Scope, Store};

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
const ROLE_TABLES: [&str; 2] = [
    "clusterroles.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
];
const BINDING_TABLES: [&str; 2] = [
    "clusterrolebindings.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
];

/// The authorization mode of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// All authenticated users may do everything.
    #[default]
    AlwaysAllow,
    /// Roles and bindings decide (RBAC); members of `system:masters` may do everything. The server has the initial
    /// roles and bindings of a Kubernetes cluster.
    Rbac,
}

/// A decision and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// May be empty.
    pub(crate) reason: String,
}

/// The authorizer of one server.
#[derive(Debug)]
pub(crate) struct Authorizer {
    /// `None` if everything is allowed.
    cache: Option<Mutex<Cache>>,
}

/// The index and its sources.
#[derive(Debug)]
struct Cache {
    /// Notify of changed roles and bindings.
    changes: Vec<signal::Receiver<u64>>,
    roles: BTreeMap<Key, (u64, Arc<Role>)>,
    bindings: BTreeMap<Key, (u64, Arc<Binding>)>,
    index: Option<Arc<Index>>,
}

impl Authorizer {
    pub(crate) fn new(mode: Authorization, store: &Store) -> Self {
        let cache = (mode == Authorization::Rbac).then(|| {
            let tables = ROLE_TABLES.iter().chain(&BINDING_TABLES);
            Mutex::new(Cache {
                changes: tables.filter_map(|table| store.subscribe(table)).collect(),
                roles: BTreeMap::new(),
                bindings: BTreeMap::new(),
                index: None,
            })
        });
        Self { cache }
    }

    /// Whether the mode is RBAC.
    pub(crate) fn is_rbac(&self) -> bool {
        self.cache.is_some()
    }

    fn index(&self, store: &Store) -> Option<Arc<Index>> {
        let mut cache = self.cache.as_ref()?.lock();
        Some(cache.index(store))
    }

    /// Whether the action is allowed. An allowed action has no reason.
    pub(crate) fn check(&self, store: &Store, who: &Identity, action: &Action) -> Decision {
        self.decide(store, who, action, false)
    }

    /// Like [`Authorizer::check`], with a reason for allowed actions.
    pub(crate) fn explain(&self, store: &Store, who: &Identity, action: &Action) -> Decision {
        self.decide(store, who, action, true)
    }

    fn decide(&self, store: &Store, who: &Identity, action: &Action, explain: bool) -> Decision {
        // Superusers need no index, which an administrator who writes many roles would otherwise rebuild for each.
        let index = match Index::is_superuser(who) {
            true => None,
            false => self.index(store),
        };
        let verdict = index.map_or(Verdict::Superuser, |index| index.decide(who, action, explain));
        match verdict {
            Verdict::Superuser => Decision {
                allowed: true,
                reason: String::new(),
            },
            Verdict::Granted(reason) => Decision { allowed: true, reason },
            Verdict::Denied(reason) => Decision { allowed: false, reason },
        }
    }

    /// The user's rules in a namespace, and the reason why they may be incomplete.
    pub(crate) fn rules(&self, store: &Store, who: &Identity, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        match self.index(store) {
            Some(index) => index.rules(who, namespace),
            None => (Rule::everything().into(), Vec::new()),
        }
    }

    /// The check for writes of that resource; `None` if there is none.
    pub(crate) fn guard(
        &self,
        store: &Store,
        who: &Identity,
        resource: &Arc<Resource>,
        namespace: &str,
    ) -> Option<Arc<dyn Guard>> {
        if resource.group != GROUP || Index::is_superuser(who) {
            return None;
        }
        Some(Arc::new(escalation::NoEscalation {
            index: self.index(store)?,
            writer: who.clone(),
            resource: Arc::clone(resource),
            namespace: namespace.to_owned(),
        }))
    }
}

impl Cache {
    fn index(&mut self, store: &Store) -> Arc<Index> {
        let mut changed = false;
        for receiver in &mut self.changes {
            if receiver.has_changed() {
                receiver.mark_unchanged();
                changed = true;
            }
        }
        match &self.index {
            Some(index) if !changed => Arc::clone(index),
            _ => {
                let index = Arc::new(self.rebuild(store));
                self.index = Some(Arc::clone(&index));
                index
            }
        }
    }

    /// Reads the changes since the last index and builds a new one.
    fn rebuild(&mut self, store: &Store) -> Index {
        refresh(&mut self.roles, store, &ROLE_TABLES, |_, role| Role {
            rules: Rule::of_role(role),
        });
        refresh(&mut self.bindings, store, &BINDING_TABLES, Binding::new);
        let roles = self
            .roles
            .iter()
            .map(|(key, (_, role))| (key.clone(), Arc::clone(role)));
        let bindings = self.bindings.values().map(|(_, binding)| Arc::clone(binding));
        Index::new(roles.collect(), bindings)
    }
}

/// Updates `known` from the tables; parses only objects with a new revision.
fn refresh<T>(
    known: &mut BTreeMap<Key, (u64, Arc<T>)>,
    store: &Store,
    tables: &[&str],
    read: impl Fn(&Key, &serde_json::Value) -> T,
) {
    let mut old = std::mem::take(known);
    for table in tables {
        let listing = store.list(table, &Scope::default(), None);
        for object in listing.map(|listing| listing.objects).unwrap_or_default() {
            let kept = old
                .remove(&object.key)
                .filter(|(revision, _)| *revision == object.revision);
            let entry = match kept {
                Some(entry) => entry,
                None => match object.value() {
                    Ok(value) => (object.revision, Arc::new(read(&object.key, &value))),
                    Err(error) => {
                        tracing::error!(%error, name = object.key.name, "a role or binding is invalid and is ignored");
                        continue;
                    }
                },
            };
            known.insert(object.key.clone(), entry);
        }
    }
}
