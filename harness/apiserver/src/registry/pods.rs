//! What only pods have: eviction and binding.

use serde_json::{Value, json};

use super::{DeleteOptions, Entry, Payload, Registry, WriteOptions, Written, metadata, tree, update::Attempt};
use crate::status::{ApiError, FieldError};
use crate::store::Key;

impl Registry {
    /// Evicts a pod: deletes it with the eviction's options. Budgets are not looked at.
    ///
    /// # Errors
    /// 400 for another pod's eviction, else as [`Registry::delete`].
    pub fn evict(&self, entry: &Entry, key: &Key, eviction: &Value, dry_run: bool) -> Result<Written, ApiError> {
        let name = metadata::text(eviction, "name");
        if !name.is_empty() && name != key.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let mut options = match eviction.get("deleteOptions") {
            Some(options) if options.is_object() => DeleteOptions::from_value(options)?,
            _ => DeleteOptions::default(),
        };
        options.dry_run |= dry_run;
        self.delete(entry, key, &options)?;
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        });
        Ok(Written {
            code: 201,
            payload: Payload::Value(status),
            warnings: Vec::new(),
        })
    }

    /// Binds a pod to a node.
    ///
    /// # Errors
    /// 409 when it is bound or being deleted, 422 for a target that is no node.
    pub fn bind(&self, entry: &Entry, key: &Key, binding: &Value, options: &WriteOptions) -> Result<Written, ApiError> {
        let resource = &entry.resource;
        let target = |field: &str| {
            binding
                .get("target")
                .and_then(|target| target.get(field))
                .and_then(Value::as_str)
        };
        let kind = target("kind").unwrap_or_default();
        if !kind.is_empty() && kind != "Node" {
            let error = FieldError::not_supported("target.kind", kind, &["Node", "<empty>"]);
            return Err(ApiError::invalid("", "Binding", &key.name, &[error]));
        }
        let Some(node) = target("name").filter(|node| !node.is_empty()) else {
            let error = FieldError::required("target.name", "");
            return Err(ApiError::invalid("", "Binding", &key.name, &[error]));
        };
        loop {
            let current = self.get(entry, key)?;
            let mut pod = tree(&current)?;
            let bound = pod
                .pointer("/spec/nodeName")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if current.meta.deleting {
                let why = format!("pod {} is being deleted, cannot be assigned to a host", key.name);
                return Err(ApiError::conflict(resource, &key.name, &why));
            }
            if !bound.is_empty() {
                let why = format!("pod {} is already assigned to node {bound:?}", key.name);
                return Err(ApiError::conflict(resource, &key.name, &why));
            }
            metadata::member_object(&mut pod, "spec").insert("nodeName".to_owned(), node.into());
            self.set_scheduled(&mut pod);
            if let Attempt::Done(_) = self.replace(entry, &current, pod, options.dry_run, Vec::new())? {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
                });
                return Ok(Written {
                    code: 201,
                    payload: Payload::Value(status),
                    warnings: Vec::new(),
                });
            }
        }
    }

    fn set_scheduled(&self, pod: &mut Value) {
        let condition = json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": self.now_text() });
        let conditions = metadata::member_object(pod, "status")
            .entry("conditions")
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Some(conditions) = conditions.as_array_mut() {
            conditions.retain(|condition| condition.get("type").and_then(Value::as_str) != Some("PodScheduled"));
            conditions.push(condition);
        }
    }
}
