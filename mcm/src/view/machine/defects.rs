//! Changes by planted defects to the view of a machine.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use mcm_api::{Machine, NodeName};
use mcm_core::machine::View;

use crate::memory::drains;
use crate::view::cluster_state::TargetState;

/// The Node with the machine's provider id; for a machine without one, any Node without one.
pub(super) fn node_of_same_provider_id(target: &TargetState, machine: &Machine) -> Option<NodeName> {
    let id = |node: &Node| node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    let nodes = target.nodes.all();
    let mut same = nodes
        .iter()
        .filter(|node| id(node).unwrap_or_default() == machine.spec.provider_id);
    same.next().and_then(|node| NodeName::new(node.name_any()))
}

/// Whether the Node's pods are ignored: because of an attachment without a volume name, or a full listener.
pub(super) fn ignores_pods(view: &View, target: &TargetState, node: &str) -> bool {
    let attachments = target.attachments_of(node);
    let mut sources = attachments.iter().map(|attachment| &attachment.spec.source);
    defect!(AttachmentWithoutVolumeBlinds) && sources.any(|source| source.persistent_volume_name.is_none())
        || defect!(DrainListenerFillsUp) && drains::defects::is_full() && !view.volumes.is_empty()
}
