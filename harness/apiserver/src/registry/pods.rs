//! Binds pods to nodes.

use serde_json::{Map, Value, json};

use super::{Entry, Payload, Registry, WriteOptions, Written, attempt::Attempt, metadata, tree};
use crate::status::{ApiError, FieldError};
use crate::store::Key;

impl Registry {
    /// Binds a pod to a node.
    ///
    /// # Errors
    /// 409 if the pod is bound or being deleted, 422 for a target that is not a node.
    pub fn bind(&self, entry: &Entry, key: &Key, binding: &Value, options: &WriteOptions) -> Result<Written, ApiError> {
        if metadata::text(binding, "name") != key.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
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
                return Err(conflict(&key.name, &why));
            }
            if !bound.is_empty() {
                let why = format!("pod {} is already assigned to node {bound:?}", key.name);
                return Err(conflict(&key.name, &why));
            }
            let uid = metadata::text(binding, "uid");
            if !uid.is_empty() && uid != metadata::text(&pod, "uid") {
                let found = metadata::text(&pod, "uid");
                let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
                return Err(ApiError::conflict(&entry.resource, &key.name, &why));
            }
            let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
            if gates.is_some_and(|gates| !gates.is_empty()) {
                let why = format!("pod {} has non-empty .spec.schedulingGates", key.name);
                return Err(conflict(&key.name, &why));
            }
            metadata::member_object(&mut pod, "spec").insert("nodeName".to_owned(), node.into());
            metadata::member_object(&mut pod, "status").remove("nominatedNodeName");
            self.set_scheduled(&mut pod);
            for (label, value) in self.topology_of(node)? {
                let labels = metadata::of_mut(&mut pod).entry("labels").or_insert(json!({}));
                if let Some(labels) = labels.as_object_mut() {
                    labels.insert(label.to_owned(), value);
                }
            }
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
        set_condition(metadata::member_object(pod, "status"), condition);
    }
}

fn conflict(name: &str, why: &str) -> ApiError {
    let message = format!("Operation cannot be fulfilled on pods/binding {name:?}: {why}");
    ApiError {
        details: Some(json!({ "name": name, "kind": "pods/binding" })),
        ..ApiError::new(409, "Conflict", message)
    }
}

/// Sets a condition in a status, replacing the one of the same type.
pub(super) fn set_condition(status: &mut Map<String, Value>, condition: Value) {
    let conditions = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|other| other.get("type") != condition.get("type"));
        conditions.push(condition);
    }
}
