//! Changes of a Node's metadata, taints and schedulability.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use mcm_api::keys;
use serde_json::{Value, json};

use crate::finalizer::finalizer_patch;

/// A change of a Node's metadata and taints; `None` as a value removes the key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePatch {
    /// Sets the label with the machine's name, and adds the controller's finalizer.
    pub claim: bool,
    /// Labels.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations.
    pub annotations: BTreeMap<String, Option<String>>,
    /// The complete new list of taints; `None`: unchanged.
    pub taints: Option<Vec<Taint>>,
    /// Cordons (`true`) or uncordons (`false`) the Node; `None` leaves it.
    pub unschedulable: Option<bool>,
}

impl NodePatch {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The JSON merge patch against `node`, without its resourceVersion.
    pub(super) fn json(&self, node: &Node, machine: &str) -> Value {
        let mut patch = if self.claim {
            finalizer_patch(&node.metadata, keys::NODE_FINALIZER, true)
        } else {
            json!({ "metadata": {} })
        };
        let mut labels = self.labels.clone();
        if self.claim {
            labels.insert(keys::MACHINE_NAME_LABEL.to_owned(), Some(machine.to_owned()));
        }
        for (field, values) in [("labels", &labels), ("annotations", &self.annotations)] {
            if !values.is_empty() {
                patch["metadata"][field] = json!(values);
            }
        }
        if let Some(taints) = &self.taints {
            patch["spec"] = json!({ "taints": taints });
        }
        if let Some(unschedulable) = self.unschedulable {
            patch["spec"]["unschedulable"] = json!(unschedulable.then_some(true));
        }
        patch
    }
}
