//! Limit ranges of a namespace, applied to its pods and claims.

use serde_json::Value;

use super::{Entry, Registry, metadata, tree};
use crate::kinds;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::Scope;

const RANGES: &str = "limitranges";

impl Registry {
    /// Gives a new pod the default resources of its namespace, and checks a new pod or claim.
    ///
    /// # Errors
    /// 403.
    pub(super) fn admit_limits(&self, entry: &Entry, object: &mut Value) -> Result<(), ApiError> {
        if !is_limited(&entry.resource) {
            return Ok(());
        }
        let ranges = self.ranges(metadata::text(object, "namespace"))?;
        if entry.resource.plural == "pods" {
            kinds::default_resources(&ranges, object);
        }
        check(&entry.resource, &ranges, object)
    }

    /// Checks a claim or the new resources of a pod. Objects that are being deleted have no limits.
    ///
    /// # Errors
    /// 403.
    pub(super) fn check_limits(&self, entry: &Entry, object: &Value, old: &Value) -> Result<(), ApiError> {
        let deleting = old.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string);
        if deleting || !is_limited(&entry.resource) {
            return Ok(());
        }
        check(
            &entry.resource,
            &self.ranges(metadata::text(object, "namespace"))?,
            object,
        )
    }

    fn ranges(&self, namespace: &str) -> Result<Vec<Value>, ApiError> {
        let scope = Scope {
            namespace: Some(namespace.to_owned()),
            after: None,
        };
        let listing = self.store.list(RANGES, &scope, None);
        let objects = listing.map(|listing| listing.objects).unwrap_or_default();
        objects.iter().map(|object| tree(object)).collect()
    }
}

fn is_limited(resource: &Resource) -> bool {
    resource.group.is_empty() && matches!(resource.plural.as_str(), "pods" | "persistentvolumeclaims")
}

/// As upstream, the first range that forbids something decides, and names everything that it forbids.
fn check(resource: &Resource, ranges: &[Value], object: &Value) -> Result<(), ApiError> {
    for range in ranges {
        let violations = match resource.plural.as_str() {
            "pods" => kinds::pod_violations(range, object),
            _ => kinds::claim_violations(range, object),
        };
        // Equal texts, such as those of two containers, appear once.
        let mut found: Vec<String> = Vec::new();
        for violation in violations {
            if !found.contains(&violation) {
                found.push(violation);
            }
        }
        let why = match found.as_slice() {
            [] => continue,
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        return Err(ApiError::forbidden(resource, metadata::text(object, "name"), &why));
    }
    Ok(())
}
