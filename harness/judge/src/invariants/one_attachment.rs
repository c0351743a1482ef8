//! I21: mcm never causes a volume with access by one node to be attached to a running VM while a pod on another running VM
//! uses it, be it in the API or unconfirmed.
//!
//! Not judged while the cloud or the API server violates its own contract.

use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use super::unconfirmed::{Key, claims, runs};
use crate::object::{name, text};

#[derive(Debug)]
pub(super) struct OneRunningUser;

impl Check for OneRunningUser {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        let attachment = context
            .applied("VolumeAttachment")
            .filter(|applied| is_attached(applied))?;
        if context.before.is_some_and(is_attached) || !context.rules.byzantine.is_empty() {
            return None;
        }
        let node = text(attachment, "/spec/nodeName");
        context.unconfirmed.running_vm(node)?;
        let volume = text(attachment, "/spec/source/persistentVolumeName");
        let claim = claim_of_one_node(context.world.object("PersistentVolume", volume)?)?;
        let unconfirmed = context
            .unconfirmed
            .iter()
            .find(|pod| pod.node != node && pod.claims.contains(&claim));
        let user = match unconfirmed {
            Some(pod) => pod.to_string(),
            None => user_elsewhere(context, &claim, node)?,
        };
        Some(format!(
            "volume {volume} is attached to node {node}, and it is used: {user}"
        ))
    }
}

/// A pod in the API that runs on the running VM of another node and has the claim.
fn user_elsewhere(context: &CheckContext, claim: &Key, node: &str) -> Option<String> {
    let on_other_vm = |pod: &&Value| {
        let on = text(pod, "/spec/nodeName");
        on != node && context.unconfirmed.running_vm(on).is_some()
    };
    let mut pods = context.world.of_kind("Pod").filter(on_other_vm);
    let pod = pods.find(|pod| runs(pod) && claims(pod).contains(claim))?;
    let on = text(pod, "/spec/nodeName");
    Some(format!("pod {} runs on node {on}, whose VM runs", name(pod)))
}

fn is_attached(attachment: &Value) -> bool {
    attachment["status"]["attached"] == true
}

/// The claim of a volume that only one node may have.
fn claim_of_one_node(volume: &Value) -> Option<Key> {
    let modes = volume.pointer("/spec/accessModes")?.as_array()?;
    let one_node = modes
        .iter()
        .all(|mode| mode == "ReadWriteOnce" || mode == "ReadWriteOncePod");
    let claim = (
        text(volume, "/spec/claimRef/namespace").to_owned(),
        text(volume, "/spec/claimRef/name").to_owned(),
    );
    (one_node && !claim.1.is_empty()).then_some(claim)
}
