//! Marks Nodes without a machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use mcm_api::keys;
use mcm_api::{Machine, ProviderId};
use mcm_core::finalizer::finalizer_patch;
use mcm_core::safety::nodes::{NodeReferences, NodeTimeouts, let_go, patch};
use serde_json::Value;

use super::Safety;
use crate::cache::Key;
use crate::error::{brief, is_conflict, is_not_found};

impl Safety {
    /// Marks Nodes; `listed` are the provider ids of VMs with our tags. Returns when another pass is needed before the
    /// regular one.
    pub(super) async fn mark_nodes(&self, listed: &BTreeSet<ProviderId>) -> Option<Duration> {
        let target = self.executor().state.target.as_ref()?;
        let settings = &self.controllers.settings;
        let timeouts = NodeTimeouts {
            creation: settings.creation_timeout,
            drain: settings.drain_timeout,
        };
        let mut wake = None;
        for node in target.nodes.all() {
            if defect!(EveryNodeGetsFinalizer) {
                let patch = finalizer_patch(&node.metadata, keys::NODE_FINALIZER, true);
                let _ = self.write_node(&node, patch).await;
                continue;
            }
            let references = self.references(&node, listed);
            let Some(patch) = patch(&node, references, &timeouts, self.now()) else {
                continue;
            };
            if defect!(ForeignNodeMarkStays) && references.machines > 0 {
                continue;
            }
            if !self.may_collect() {
                return Some(self.settings.api.period);
            }
            if let Err(again) = self.write_node(&node, patch).await {
                wake = Some(again);
            }
        }
        wake
    }

    /// Marks and releases the Nodes on a VM that is about to be deleted; returns whether all writes succeeded.
    pub(super) async fn release_nodes(&self, provider_id: &ProviderId) -> bool {
        let nodes = self.executor().state.target.as_ref().map(|target| target.nodes.all());
        let on_it = |node: &Arc<Node>| {
            let named = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
            named == Some(provider_id.as_str()) && self.machines_behind(node) == 0
        };
        let mut done = true;
        for node in nodes.into_iter().flatten().filter(on_it) {
            if let Some(patch) = let_go(&node) {
                done &= self.write_node(&node, patch).await.is_ok();
            }
        }
        done
    }

    /// Writes a mark; the error is the wait before a retry.
    async fn write_node(&self, node: &Node, patch: Value) -> Result<(), Duration> {
        let executor = self.executor();
        let retry = &self.controllers.settings.retry;
        let Some((target, client)) = executor.state.target.as_ref().zip(executor.target.clone()) else {
            return Ok(());
        };
        let name = node.name_any();
        let api: Api<Node> = Api::all(client);
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => {
                drop(executor.wrote(&target.nodes, written));
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => {
                tracing::info!(node = name, error = brief(&error), "marking the Node failed");
                Err(if is_conflict(&error) { retry.short } else { retry.medium })
            }
        }
    }

    fn references(&self, node: &Node, listed: &BTreeSet<ProviderId>) -> NodeReferences {
        let named = node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref());
        let vm = named.is_some_and(|provider_id| listed.contains(provider_id.as_str()));
        let vm = vm || defect!(ForeignNodeMarkStays | OlderNodeIsUnclaimed);
        NodeReferences {
            machines: self.machines_behind(node),
            vm,
        }
    }

    /// The number of machines that reference the Node, or that it references.
    fn machines_behind(&self, node: &Node) -> usize {
        let state = &self.executor().state;
        let naming = state.machines_of_node(&node.name_any());
        if defect!(OlderNodeIsUnclaimed) {
            let older = |machine: &&Arc<Machine>| machine.creation_timestamp() <= node.creation_timestamp();
            return naming.iter().filter(older).count();
        }
        let mut names: BTreeSet<String> = naming.iter().map(|machine| machine.name_any()).collect();
        let labelled = node.labels().get(keys::MACHINE_NAME_LABEL);
        if let Some(machine) = labelled
            && state.machines.exists(&Key::new(&state.namespace, machine))
        {
            names.insert(machine.clone());
        }
        names.len()
    }
}
