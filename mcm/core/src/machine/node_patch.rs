//! Changes of a Node's metadata, taints and schedulability, and the patches that write them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use mcm_api::keys;
use serde_json::{Value, json};

use crate::finalizer::finalizer_patch;

/// A patch of a Node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeWrite {
    /// A JSON merge patch of the version that the decision observed: it carries the resourceVersion, so that the API
    /// server rejects it if the Node has changed.
    OfVersion(Value),
    /// A strategic merge patch that claims a Node and only adds to its metadata: it has the same effect on each version,
    /// so it requires only the same Node (`metadata.uid`). A kubelet changes its Node many times while it joins.
    OfAnyVersion(Value),
}

impl NodeWrite {
    /// The patch without its kind.
    pub fn value(&self) -> &Value {
        match self {
            Self::OfVersion(patch) | Self::OfAnyVersion(patch) => patch,
        }
    }

    pub(super) fn of_version(mut patch: Value, node: &Node) -> Self {
        patch["metadata"]["resourceVersion"] = json!(node.metadata.resource_version);
        Self::OfVersion(patch)
    }
}

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

    /// The patch that writes these changes of `node`.
    pub(super) fn write(&self, node: &Node, machine: &str) -> NodeWrite {
        if self.claim && self.only_adds() {
            let identity = json!({ "uid": node.metadata.uid, "finalizers": [keys::NODE_FINALIZER] });
            let mut patch = json!({ "metadata": identity });
            self.add_metadata(&mut patch, machine);
            return NodeWrite::OfAnyVersion(patch);
        }
        let mut patch = if self.claim {
            finalizer_patch(&node.metadata, keys::NODE_FINALIZER, true)
        } else {
            json!({ "metadata": {} })
        };
        self.add_metadata(&mut patch, machine);
        if let Some(taints) = &self.taints {
            patch["spec"] = json!({ "taints": taints });
        }
        if let Some(unschedulable) = self.unschedulable {
            patch["spec"]["unschedulable"] = json!(unschedulable.then_some(true));
        }
        NodeWrite::of_version(patch, node)
    }

    /// Whether the changes neither remove nor replace anything that another client may have changed meanwhile.
    fn only_adds(&self) -> bool {
        let mut values = self.labels.values().chain(self.annotations.values());
        self.taints.is_none() && self.unschedulable.is_none() && values.all(Option::is_some)
    }

    fn add_metadata(&self, patch: &mut Value, machine: &str) {
        let mut labels = self.labels.clone();
        if self.claim {
            labels.insert(keys::MACHINE_NAME_LABEL.to_owned(), Some(machine.to_owned()));
        }
        for (field, values) in [("labels", &labels), ("annotations", &self.annotations)] {
            if !values.is_empty() {
                patch["metadata"][field] = json!(values);
            }
        }
    }
}
