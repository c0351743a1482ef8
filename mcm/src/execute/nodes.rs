//! Writes to Nodes: marks, conditions and capacity, and their deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use mcm_api::NodeName;
use mcm_core::machine::{Action, NodeView, View};
use serde_json::json;

use super::{ActionExecutor, ended};
use crate::cache::Key;

impl ActionExecutor {
    /// Patches the Node as it was decided on: taints are written as a whole, and a person's word is taken away only where
    /// it was seen. A newer one is a conflict, also where this process wrote its status since and knows it therefore.
    pub(super) async fn patch_decided_node(&self, action: &Action, view: &mut View) -> kube::Result<()> {
        let Some(node) = view.node.present() else {
            return Ok(());
        };
        if let Some(written) = self.patch_node(action, node, &view.machine.name_any()).await? {
            view.node = NodeView::Present(Box::new(Node::clone(&written)));
        }
        Ok(())
    }

    /// Patches that version of the Node; `None`: nothing was to be written.
    pub(super) async fn patch_node(
        &self,
        action: &Action,
        node: &Node,
        machine: &str,
    ) -> kube::Result<Option<Arc<Node>>> {
        let Some(patch) = action.node_patch(node, machine) else {
            return Ok(None);
        };
        let api: Api<Node> = Api::all(self.target()?);
        let name = node.name_any();
        let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        self.learn_node(&api, &name, written).await.map(Some)
    }

    /// What the condition said before stays.
    pub(super) async fn set_terminating(&self, node: &NodeName, reason: &str, message: &str) -> kube::Result<()> {
        let api: Api<Node> = Api::all(self.target()?);
        let known = self.known_node(&api, node).await?;
        let conditions = known.status.as_ref().and_then(|status| status.conditions.as_ref());
        let present = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == "Terminating");
        if present.is_some_and(|condition| condition.status == "True") {
            return Ok(());
        }
        let told = |said: Option<&String>, otherwise: &str| said.cloned().unwrap_or_else(|| otherwise.to_owned());
        let reason = told(present.and_then(|condition| condition.reason.as_ref()), reason);
        let message = told(present.and_then(|condition| condition.message.as_ref()), message);
        self.set_condition(node, "Terminating", &reason, &message).await
    }

    /// Sets a condition, now: each of its reasons is a step with a time of its own. A strategic merge patch:
    /// other writers of conditions are not disturbed.
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
        let api: Api<Node> = Api::all(self.target()?);
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
        self.learn_node(&api, node, written).await.map(drop)
    }

    pub(super) async fn set_capacity(
        &self,
        node: &NodeName,
        capacity: &BTreeMap<String, Option<Quantity>>,
    ) -> kube::Result<()> {
        let api: Api<Node> = Api::all(self.target()?);
        let patch = json!({ "status": { "capacity": capacity } });
        let written = api
            .patch_status(node, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        self.learn_node(&api, node, written).await.map(drop)
    }

    pub(super) async fn delete_node(&self, node: &NodeName) -> kube::Result<()> {
        let api: Api<Node> = Api::all(self.target()?);
        let known = self.known_node(&api, node).await?;
        let preconditions = Preconditions {
            uid: known.uid(),
            resource_version: None,
        };
        let parameters = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let held = api
            .delete(node, &parameters)
            .await?
            .left()
            .filter(|node| !ended(&node.metadata));
        if let Some(target) = &self.state.target {
            match held {
                // Finalizers hold it: the next write of this process has to name this version.
                Some(held) => drop(target.nodes.wrote(held)),
                None => target.nodes.removed(&known),
            }
        }
        Ok(())
    }

    /// The Node as it is known here, else as the server has it.
    pub(super) async fn known_node(&self, api: &Api<Node>, name: &str) -> kube::Result<Arc<Node>> {
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

    async fn learn_node(&self, api: &Api<Node>, name: &str, written: kube::Result<Node>) -> kube::Result<Arc<Node>> {
        match &self.state.target {
            Some(target) => self.learn(api, name, &target.nodes, written).await,
            None => written.map(Arc::new),
        }
    }
}
