//! ClusterRoles that gather the rules of others by label, kept up to date.
//!
//! Upstream a controller does it; here the server itself, in the request that changes a ClusterRole.

use clock::Stream;
use serde_json::Value;

use super::{Registry, tree};
use crate::authorization::aggregate::{Source, gather, selectors};
use crate::authorization::seeds;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::Scope;

const GROUP: &str = crate::authorization::GROUP;
const PLURAL: &str = "clusterroles";
/// Roles that gather from each other settle long before; more would be a circle that never does.
const ROUNDS: usize = 100;

pub(super) fn is_cluster_role(resource: &Resource) -> bool {
    resource.plural == PLURAL && resource.group == GROUP
}

impl Registry {
    /// Rewrites the rules of every role that gathers others, until all are what they should be.
    pub(super) fn gather_roles(&self) -> Result<(), ApiError> {
        if !self.settings.gathers_roles {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            if !self.gather_one_role()? {
                return Ok(());
            }
        }
        tracing::warn!("cluster roles gather from each other in a circle; their rules are left as they are");
        Ok(())
    }

    /// Puts the roles and bindings there that every cluster starts with. They take revisions below
    /// the first, and uids from `ids`, so that nothing that comes later depends on them.
    ///
    /// # Errors
    /// 500, which would be a bug.
    pub fn seed_roles(&self, ids: &mut Stream) -> Result<(), ApiError> {
        let catalog = self.catalog();
        let now = self.now_text();
        for (number, mut object) in (1..).zip(seeds()?) {
            let plural = match object["kind"].as_str() {
                Some("ClusterRole") => PLURAL,
                Some("ClusterRoleBinding") => "clusterrolebindings",
                Some("Role") => "roles",
                _ => "rolebindings",
            };
            let Some(entry) = catalog.any_version(GROUP, plural) else {
                continue;
            };
            object["metadata"]["uid"] = ids.uuid().into();
            object["metadata"]["creationTimestamp"] = now.as_str().into();
            let draft = self.draft(entry, &mut object)?;
            self.store.seed(&entry.table, draft, number);
        }
        Ok(())
    }

    /// Whether there was one to rewrite.
    fn gather_one_role(&self) -> Result<bool, ApiError> {
        let catalog = self.catalog();
        let Some(entry) = catalog.any_version(GROUP, PLURAL) else {
            return Ok(false);
        };
        let listing = self.store.list(&entry.table, &Scope::default(), None);
        let objects = listing.map(|listing| listing.objects).unwrap_or_default();
        let values: Vec<Value> = objects.iter().map(|object| tree(object)).collect::<Result<_, _>>()?;
        let sources: Vec<Source<'_>> = objects
            .iter()
            .zip(&values)
            .map(|(object, value)| Source {
                name: &object.key.name,
                labels: &object.meta.labels,
                rules: rules(value),
            })
            .collect();
        for (object, value) in objects.iter().zip(&values) {
            let Some(selectors) = selectors(value)? else { continue };
            let gathered = gather(&object.key.name, &selectors, &sources);
            if gathered == rules(value) || object.meta.deleting {
                continue;
            }
            let mut new = value.clone();
            new["rules"] = gathered.into();
            let draft = self.draft(entry, &mut new)?;
            // Whoever changed it meanwhile is looked at in the next round.
            let _ = self.store.put(&entry.table, Some(object.revision), draft, None);
            return Ok(true);
        }
        Ok(false)
    }
}

fn rules(role: &Value) -> &[Value] {
    let rules = role.get("rules").and_then(Value::as_array);
    rules.map(Vec::as_slice).unwrap_or_default()
}
