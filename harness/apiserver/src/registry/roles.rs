//! Aggregated ClusterRoles: keeps their rules up to date.
//!
//! Upstream has a controller for this; here the server does it in the request that changes a ClusterRole.

use clock::Stream;
use serde_json::Value;

use super::{Registry, tree};
use crate::authorization::aggregate::{Source, aggregate, selectors};
use crate::authorization::seeds;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::Scope;

const GROUP: &str = crate::authorization::GROUP;
const PLURAL: &str = "clusterroles";
/// Acyclic aggregation settles in far fewer rounds; more rounds mean a cycle.
const ROUNDS: usize = 100;

pub(super) fn is_cluster_role(resource: &Resource) -> bool {
    resource.plural == PLURAL && resource.group == GROUP
}

impl Registry {
    /// Updates the rules of all aggregated roles until nothing changes.
    pub(super) fn aggregate_roles(&self) -> Result<(), ApiError> {
        if !self.settings.aggregates_roles {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            if !self.aggregate_one_role()? {
                return Ok(());
            }
        }
        tracing::warn!("the aggregation of cluster roles has a cycle; their rules stay unchanged");
        Ok(())
    }

    /// Creates the initial roles and bindings of a cluster. In a new store they have revisions below the first one, and
    /// uids from `ids`, so that later objects do not depend on them. A restored store gets those that were deleted, as at
    /// each start of kube-apiserver.
    ///
    /// # Errors
    /// 500, which indicates a bug, or a write that the log refuses.
    pub fn seed_roles(&self, ids: &mut Stream, restored: bool) -> Result<(), ApiError> {
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
            if !restored {
                self.store.seed(&entry.table, draft, number);
            } else if self.store.get(&entry.table, draft.key()).is_none() {
                let created = self.store.put(&entry.table, None, draft, None);
                created.map_err(ApiError::internal)?;
            }
        }
        Ok(())
    }

    /// Updates one aggregated role; returns false if all are up to date.
    fn aggregate_one_role(&self) -> Result<bool, ApiError> {
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
            let aggregated = aggregate(&object.key.name, &selectors, &sources);
            if aggregated == rules(value) || object.meta.deleting {
                continue;
            }
            let mut new = value.clone();
            new["rules"] = aggregated.into();
            let draft = self.draft(entry, &mut new)?;
            // After a concurrent write the next round tries again.
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
