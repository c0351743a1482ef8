//! Privilege escalation check on writes of roles and bindings.
//!
//! The writer of a role must have all its rules or the permission `escalate`; the writer of a binding must have all
//! rules of its role or the permission `bind`.

use std::sync::Arc;

use serde_json::Value;

use super::index::{Index, RoleReference, Verdict};
use super::rule::{Rule, description, missing, quoted};
use super::{Action, GROUP, ResourceAction};
use crate::guard::Guard;
use crate::identity::Identity;
use crate::resource::Resource;
use crate::status::ApiError;

/// The check for one user.
#[derive(Debug)]
pub(super) struct NoEscalation {
    pub(super) index: Arc<Index>,
    pub(super) writer: Identity,
    pub(super) resource: Arc<Resource>,
    /// Empty for cluster-scoped kinds.
    pub(super) namespace: String,
}

impl Guard for NoEscalation {
    fn check(&self, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        let name = new
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if old.is_some_and(|old| same_but_for_owners(new, old)) {
            return Ok(());
        }
        match self.resource.plural.as_str() {
            "roles" | "clusterroles" => self.check_role(name, new, old),
            _ => self.check_binding(name, new),
        }
    }
}

impl NoEscalation {
    fn check_role(&self, name: &str, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        // A create request has no object name.
        let target = if old.is_some() { name } else { "" };
        if self.may("escalate", &self.resource.plural, target) {
            return Ok(());
        }
        self.check_rules(name, &Rule::of_role(new))?;
        let gathers = |role: &Value| role.get("aggregationRule").is_some_and(|rule| !rule.is_null());
        if gathers(new) || old.is_some_and(gathers) {
            let (owned, _) = self.index.rules(&self.writer, &self.namespace);
            if !missing(&owned, &Rule::everything()).is_empty() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(ApiError::forbidden(&self.resource, name, why));
            }
        }
        Ok(())
    }

    fn check_binding(&self, name: &str, new: &Value) -> Result<(), ApiError> {
        let role = RoleReference::of_binding(new);
        if self.may("bind", role.resource(), &role.name) {
            return Ok(());
        }
        match self.index.rules_of(&role, &self.namespace) {
            Some(rules) => self.check_rules(name, rules),
            // Like upstream, the error contains the resource of the binding.
            None => Err(ApiError::not_found(&self.resource, &role.name)),
        }
    }

    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let action = Action::Resource(ResourceAction {
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        });
        !matches!(self.index.decide(&self.writer, &action, false), Verdict::Denied(_))
    }

    fn check_rules(&self, name: &str, wanted: &[Rule]) -> Result<(), ApiError> {
        let (owned, unknown) = self.index.rules(&self.writer, &self.namespace);
        let missing = missing(&owned, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let mut why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            self.writer.user,
            quoted(&self.writer.groups),
            description(&missing)
        );
        if !unknown.is_empty() {
            why.push_str(&format!("; resolution errors: [{}]", unknown.join(", ")));
        }
        Err(ApiError::forbidden(&self.resource, name, &why))
    }
}

/// The garbage collector must be able to change owners and finalizers of roles that it could not grant.
fn same_but_for_owners(new: &Value, old: &Value) -> bool {
    let stripped = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields"] {
                metadata.remove(field);
            }
        }
        value
    };
    stripped(new) == stripped(old)
}
