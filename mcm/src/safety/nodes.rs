//! Marks on Nodes that no machine stands behind.
//!
//! What must not live here: which Nodes those are.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use mcm_api::keys;
use mcm_core::safety::nodes::patch;

use super::Safety;
use crate::cache::Key;
use crate::error::{brief, is_conflict, is_not_found};

impl Safety {
    /// Answers when another pass is needed before the regular one.
    pub(super) async fn mark_nodes(&self) -> Option<Duration> {
        let hands = self.hands();
        let (target, client) = hands.world.target.as_ref().zip(hands.target.clone())?;
        let api: Api<Node> = Api::all(client);
        let limit = self.controllers.settings.creation_timeout;
        let mut wake = None;
        for node in target.nodes.all() {
            let name = node.name_any();
            let Some(patch) = patch(&node, self.machines_behind(&node), limit, self.now()) else {
                continue;
            };
            if !self.may_collect() {
                return Some(self.settings.api.period);
            }
            match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(written) => drop(hands.wrote(&target.nodes, written)),
                Err(error) if is_not_found(&error) => {}
                Err(error) => {
                    let retry = &self.controllers.settings.retry;
                    wake = Some(if is_conflict(&error) { retry.short } else { retry.medium });
                    tracing::info!(node = name, error = brief(&error), "the Node was not marked");
                }
            }
        }
        wake
    }

    /// How many machines name the Node, or are named by it.
    fn machines_behind(&self, node: &Node) -> usize {
        let world = &self.hands().world;
        let naming = world.machines_of_node(&node.name_any());
        let mut names: BTreeSet<String> = naming.iter().map(|machine| machine.name_any()).collect();
        let labelled = node.labels().get(keys::MACHINE_NAME_LABEL);
        if let Some(machine) = labelled
            && world.machines.get(&Key::new(&world.namespace, machine)).is_some()
        {
            names.insert(machine.clone());
        }
        names.len()
    }
}
