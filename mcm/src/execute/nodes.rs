//! Writes to Nodes: metadata, taints, conditions, capacity and deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use mcm_api::NodeName;
use mcm_core::machine::{Action, NodeView, NodeWrite, View};
use serde_json::json;

use super::{ActionExecutor, is_removed, outdated, refused};
use crate::cache::Key;
use crate::cluster::LeanApi;

impl ActionExecutor {
    /// Patches the Node. If taints are replaced as a whole, or a user's annotation is removed, a newer version than the
    /// one that was decided on is a conflict, even one that this process wrote.
    pub(super) async fn patch_decided_node(&self, action: &Action, view: &mut View) -> kube::Result<()> {
        let Some(node) = view.node.present() else {
            return Ok(());
        };
        if let Some(written) = self.patch_node(action, node, &view.machine.name_any()).await? {
            view.node = NodeView::Present(written);
        }
        Ok(())
    }

    /// Patches this version of the Node; returns `None` if the patch is empty.
    pub(super) async fn patch_node(
        &self,
        action: &Action,
        node: &Node,
        machine: &str,
    ) -> kube::Result<Option<Arc<Node>>> {
        let Some(patch) = action.node_patch(node, machine) else {
            return Ok(None);
        };
        let api: LeanApi<Node> = LeanApi::all(self.target()?);
        let name = node.name_any();
        let patch = match patch {
            NodeWrite::OfVersion(patch) => Patch::Merge(patch),
            NodeWrite::OfAnyVersion(patch) => Patch::Strategic(patch),
        };
        let written = api.patch(&name, &PatchParams::default(), &patch).await;
        self.store_node(&api, &name, written).await.map(Some)
    }

    /// Confirms with the API server that the machine's Node is not Ready, before its VM is stopped: the cache may be late.
    /// Fails with a conflict if the Node is Ready.
    pub(super) async fn confirm_unready(&self, view: &View) -> kube::Result<()> {
        let api: LeanApi<Node> = LeanApi::all(self.target()?);
        let known = view.node.present().ok_or_else(|| refused("the node is unknown"))?;
        let node = api.get(&known.name_any()).await?;
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = |condition: &NodeCondition| condition.type_ == "Ready" && condition.status == "True";
        let is_ready = conditions.into_iter().flatten().any(ready);
        if let Some(target) = &self.state.target {
            target.nodes.read(node);
        }
        if is_ready {
            return Err(outdated("the node is Ready again: its VM is not stopped"));
        }
        // The read may have taken long.
        if !self.may_act() {
            return Err(outdated("another process leads, or an API server does not respond"));
        }
        Ok(())
    }

    /// Sets the condition Terminating; keeps its previous reason and message.
    pub(super) async fn set_terminating(&self, node: &NodeName, reason: &str, message: &str) -> kube::Result<()> {
        let api: LeanApi<Node> = LeanApi::all(self.target()?);
        let known = self.known_node(&api, node).await?;
        let conditions = known.status.as_ref().and_then(|status| status.conditions.as_ref());
        let present = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == "Terminating");
        if present.is_some_and(|condition| condition.status == "True") {
            return Ok(());
        }
        let keep = |previous: Option<&String>, new: &str| previous.cloned().unwrap_or_else(|| new.to_owned());
        let reason = keep(present.and_then(|condition| condition.reason.as_ref()), reason);
        let message = keep(present.and_then(|condition| condition.message.as_ref()), message);
        self.set_condition(node, "Terminating", &reason, &message).await
    }

    /// Sets a condition to True with a strategic merge patch, which does not affect other conditions.
    pub(super) async fn set_condition(
        &self,
        node: &NodeName,
        type_: &str,
        reason: &str,
        message: &str,
    ) -> kube::Result<()> {
        self.put_condition(node, type_, true, reason, message).await
    }

    pub(super) async fn put_condition(
        &self,
        node: &NodeName,
        type_: &str,
        status: bool,
        reason: &str,
        message: &str,
    ) -> kube::Result<()> {
        let api: LeanApi<Node> = LeanApi::all(self.target()?);
        let now = Time(self.clock.now());
        let value = if status { "True" } else { "False" };
        let known = self
            .state
            .target
            .as_ref()
            .and_then(|target| target.nodes.get(&Key::new("", node.as_str())));
        let conditions = known
            .as_ref()
            .and_then(|node| node.status.as_ref()?.conditions.as_ref());
        let same = conditions
            .into_iter()
            .flatten()
            .find(|one| one.type_ == type_ && one.status == value);
        let since = same.and_then(|same| same.last_transition_time.clone());
        let condition = NodeCondition {
            type_: type_.to_owned(),
            status: value.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(now.clone()),
            last_transition_time: Some(since.unwrap_or(now)),
        };
        let patch = json!({ "status": { "conditions": [condition] } });
        let written = api
            .patch_status(node, &PatchParams::default(), &Patch::Strategic(patch))
            .await;
        self.store_node(&api, node, written).await.map(drop)
    }

    pub(super) async fn set_capacity(
        &self,
        node: &NodeName,
        capacity: &BTreeMap<String, Option<Quantity>>,
    ) -> kube::Result<()> {
        let api: LeanApi<Node> = LeanApi::all(self.target()?);
        let patch = json!({ "status": { "capacity": capacity } });
        let written = api
            .patch_status(node, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        self.store_node(&api, node, written).await.map(drop)
    }

    pub(super) async fn delete_node(&self, node: &NodeName) -> kube::Result<()> {
        let api: LeanApi<Node> = LeanApi::all(self.target()?);
        let known = self.known_node(&api, node).await?;
        let preconditions = Preconditions {
            uid: known.uid(),
            resource_version: None,
        };
        let parameters = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let leaving = api
            .delete(node, &parameters)
            .await?
            .filter(|node| !is_removed(&node.metadata));
        if let Some(target) = &self.state.target {
            match leaving {
                // Finalizers keep the Node: the next write of this process must use this version.
                Some(leaving) => drop(target.nodes.wrote(leaving)),
                None => target.nodes.removed(&known),
            }
        }
        Ok(())
    }

    /// The cached Node, or else the Node from the API server.
    pub(super) async fn known_node(&self, api: &LeanApi<Node>, name: &str) -> kube::Result<Arc<Node>> {
        let known = self
            .state
            .target
            .as_ref()
            .and_then(|target| target.nodes.get(&Key::new("", name)));
        match known {
            Some(node) => Ok(node),
            None => api.get(name).await.map(Arc::new),
        }
    }

    async fn store_node(
        &self,
        api: &LeanApi<Node>,
        name: &str,
        written: kube::Result<Node>,
    ) -> kube::Result<Arc<Node>> {
        match &self.state.target {
            Some(target) => self.store_result(api, name, &target.nodes, written).await,
            None => written.map(Arc::new),
        }
    }
}
