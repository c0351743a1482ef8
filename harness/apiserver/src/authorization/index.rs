//! The index of grants: for each user and group, the bindings that name it.
//!
//! It is immutable and built from the stored roles and bindings; a change of one of them replaces it. A decision
//! reads only the grants of one user and its groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Action, rule::Rule};
use crate::identity::Identity;
use crate::store::Key;

const SUPERUSERS: &str = "system:masters";

/// A parsed role. The namespace of its key is empty for a ClusterRole.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) rules: Vec<Rule>,
}

/// The role that a binding refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoleReference {
    pub(super) kind: String,
    pub(super) name: String,
}

impl RoleReference {
    pub(super) fn of_binding(binding: &Value) -> Self {
        Self {
            kind: text(binding, "/roleRef/kind"),
            name: text(binding, "/roleRef/name"),
        }
    }

    /// The plural of the role's kind.
    pub(super) fn resource(&self) -> &'static str {
        if self.kind == "Role" { "roles" } else { "clusterroles" }
    }

    fn key(&self, namespace: &str) -> Key {
        Key::new(if self.kind == "Role" { namespace } else { "" }, &self.name)
    }

    fn not_found(&self) -> String {
        format!(
            "{}.rbac.authorization.k8s.io {:?} not found",
            self.kind.to_lowercase(),
            self.name
        )
    }
}

#[derive(Clone, Debug)]
enum Subject {
    User(String),
    Group(String),
}

/// A parsed binding.
#[derive(Debug)]
pub(super) struct Binding {
    key: Key,
    role: RoleReference,
    /// The subjects and their names in messages.
    subjects: Vec<(Subject, String)>,
}

impl Binding {
    /// Parses the binding with that key; its namespace is empty for a ClusterRoleBinding.
    pub(super) fn new(key: &Key, binding: &Value) -> Self {
        let subjects = binding.get("subjects").and_then(Value::as_array).into_iter().flatten();
        Self {
            key: key.clone(),
            role: RoleReference::of_binding(binding),
            subjects: subjects.filter_map(|value| subject(value, &key.namespace)).collect(),
        }
    }
}

fn subject(value: &Value, namespace: &str) -> Option<(Subject, String)> {
    let (kind, name, own) = (text(value, "/kind"), text(value, "/name"), text(value, "/namespace"));
    let subject = match kind.as_str() {
        "User" => Subject::User(name.clone()),
        "Group" => Subject::Group(name.clone()),
        "ServiceAccount" => {
            let namespace = if own.is_empty() { namespace } else { &own };
            if namespace.is_empty() {
                return None;
            }
            Subject::User(format!("system:serviceaccount:{namespace}:{name}"))
        }
        _ => return None,
    };
    let named = if own.is_empty() { name } else { format!("{name}/{own}") };
    Some((subject, format!("{kind} {named:?}")))
}

fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// One subject of one binding, with its rules.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    /// The position of the binding among those of its kind, by name.
    order: usize,
    subject: usize,
    binding: Arc<Binding>,
    /// `None` if the role does not exist.
    role: Option<Arc<Role>>,
}

impl Grant {
    fn rules(&self) -> &[Rule] {
        self.role.as_ref().map(|role| role.rules.as_slice()).unwrap_or_default()
    }

    /// For instance `RBAC: allowed by RoleBinding "a/default" of Role "b" to User "c"`.
    fn reason(&self) -> String {
        let Binding { key, role, subjects } = &*self.binding;
        let binding = if key.namespace.is_empty() {
            format!("ClusterRoleBinding {:?}", key.name)
        } else {
            format!("RoleBinding \"{}/{}\"", key.name, key.namespace)
        };
        let subject = subjects
            .get(self.subject)
            .map(|(_, text)| text.as_str())
            .unwrap_or_default();
        format!(
            "RBAC: allowed by {binding} of {} {:?} to {subject}",
            role.kind, role.name
        )
    }
}

#[derive(Debug, Default)]
struct Grants {
    users: BTreeMap<String, Vec<Grant>>,
    groups: BTreeMap<String, Vec<Grant>>,
}

impl Grants {
    /// All grants of the user, in no particular order.
    fn all(&self, who: &Identity) -> impl Iterator<Item = &Grant> {
        let groups = who.groups.iter().filter_map(|group| self.groups.get(group));
        self.users.get(&who.user).into_iter().chain(groups).flatten()
    }

    /// The grants of the user, one per binding, in the order of bindings.
    fn of(&self, who: &Identity) -> Vec<&Grant> {
        let mut grants: Vec<&Grant> = self.all(who).collect();
        grants.sort_by_key(|grant| (grant.order, grant.subject));
        grants.dedup_by_key(|grant| grant.order);
        grants
    }
}

/// A decision.
#[derive(Debug)]
pub(super) enum Verdict {
    Superuser,
    /// The reason.
    Granted(String),
    /// The roles that could not be resolved.
    Denied(String),
}

#[derive(Debug, Default)]
pub(super) struct Index {
    roles: BTreeMap<Key, Arc<Role>>,
    cluster: Grants,
    namespaces: BTreeMap<String, Grants>,
}

impl Index {
    /// Builds the index of these roles and bindings.
    pub(super) fn new(roles: BTreeMap<Key, Arc<Role>>, bindings: impl IntoIterator<Item = Arc<Binding>>) -> Self {
        let mut index = Self {
            roles,
            ..Self::default()
        };
        for (order, binding) in bindings.into_iter().enumerate() {
            let namespace = &binding.key.namespace;
            let role = index.roles.get(&binding.role.key(namespace)).cloned();
            let grants = if namespace.is_empty() {
                &mut index.cluster
            } else {
                index.namespaces.entry(namespace.clone()).or_default()
            };
            for (number, (subject, _)) in binding.subjects.iter().enumerate() {
                let grant = Grant {
                    order,
                    subject: number,
                    binding: Arc::clone(&binding),
                    role: role.clone(),
                };
                let of_subject = match subject {
                    Subject::User(name) => grants.users.entry(name.clone()).or_default(),
                    Subject::Group(name) => grants.groups.entry(name.clone()).or_default(),
                };
                of_subject.push(grant);
            }
        }
        index
    }

    /// The grants that apply in a namespace: those of the cluster, then its own.
    fn grants(&self, who: &Identity, namespace: &str) -> impl Iterator<Item = &Grant> {
        let own = self.namespaces.get(namespace).map(|grants| grants.of(who));
        self.cluster.of(who).into_iter().chain(own.into_iter().flatten())
    }

    /// The same grants in no particular order, possibly repeated.
    fn unordered(&self, who: &Identity, namespace: &str) -> impl Iterator<Item = &Grant> {
        let own = self.namespaces.get(namespace).into_iter();
        own.chain([&self.cluster]).flat_map(|grants| grants.all(who))
    }

    /// Whether the user bypasses all checks.
    pub(super) fn is_superuser(who: &Identity) -> bool {
        who.groups.iter().any(|group| group == SUPERUSERS)
    }

    pub(super) fn decide(&self, who: &Identity, action: &Action, explain: bool) -> Verdict {
        if Self::is_superuser(who) {
            return Verdict::Superuser;
        }
        // Only explanations depend on which of several grants allows the action.
        let allows = |grant: &Grant| grant.rules().iter().any(|rule| rule.allows(action));
        if !explain && self.unordered(who, action.namespace()).any(allows) {
            return Verdict::Granted(String::new());
        }
        let mut missing = Vec::new();
        for grant in self.grants(who, action.namespace()) {
            if allows(grant) {
                return Verdict::Granted(if explain { grant.reason() } else { String::new() });
            }
            if grant.role.is_none() {
                missing.push(grant.binding.role.not_found());
            }
        }
        missing.dedup();
        Verdict::Denied(match missing.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        })
    }

    /// All rules of the user in a namespace, and the roles that could not be resolved.
    pub(super) fn rules(&self, who: &Identity, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let mut rules = Vec::new();
        let mut missing = Vec::new();
        for grant in self.grants(who, namespace) {
            rules.extend(grant.rules().iter().cloned());
            if grant.role.is_none() {
                missing.push(grant.binding.role.not_found());
            }
        }
        (rules, missing)
    }

    /// The rules of a role that a binding in `namespace` names; `None` if the role does not exist.
    pub(super) fn rules_of(&self, role: &RoleReference, namespace: &str) -> Option<&[Rule]> {
        self.roles.get(&role.key(namespace)).map(|role| role.rules.as_slice())
    }
}
