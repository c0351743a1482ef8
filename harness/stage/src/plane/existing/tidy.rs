//! Removes everything that a run created in an existing cluster, whether it ended, failed or was interrupted.
//!
//! The cleanup removes finalizers itself, because the controllers that set them have ended. Outside of the run's
//! namespace it touches only objects that did not exist before the session and that belong to drydock by their provider
//! ID or name.

use std::collections::BTreeSet;

use clock::Clock;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::json;

use super::SessionError;
use crate::deploy::DeployError;
use crate::objects::{ObjectError, cannot_read, is_of_our_cloud, release_all, remove, remove_all, remove_node};
use crate::role::Role;
use crate::{deploy, tokens};

/// The names of objects that existed before the session.
#[derive(Debug)]
pub(super) struct Before {
    nodes: BTreeSet<String>,
    tokens: BTreeSet<String>,
}

impl Before {
    pub(super) async fn read(client: &kube::Client) -> Result<Self, ObjectError> {
        let nodes = Api::<Node>::all(client.clone())
            .list_metadata(&ListParams::default())
            .await;
        let tokens = Api::<Secret>::namespaced(client.clone(), tokens::NAMESPACE);
        let tokens = tokens.list_metadata(&ListParams::default().fields(tokens::TYPE)).await;
        Ok(Self {
            nodes: nodes
                .map_err(cannot_read("nodes"))?
                .iter()
                .map(ResourceExt::name_any)
                .collect(),
            tokens: tokens
                .map_err(cannot_read("secrets"))?
                .iter()
                .map(ResourceExt::name_any)
                .collect(),
        })
    }
}

/// Removes everything that a run created in a cluster of that role.
pub(super) async fn run(
    client: &kube::Client,
    namespace: &str,
    role: Role,
    before: &Before,
    clock: &Clock,
) -> Result<(), SessionError> {
    if role.holds_machines() {
        release_all(client, namespace).await?;
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    remove_all(&pods, &ListParams::default(), |_| true).await?;
    Box::pin(nodes(client, before)).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), tokens::NAMESPACE);
    let is_new = |token: &Secret| !before.tokens.contains(&token.name_any()) && tokens::is_of_mcm(token);
    remove_all(&secrets, &ListParams::default().fields(tokens::TYPE), is_new).await?;
    let mut objects = role.rbac(namespace)?;
    objects.push(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }));
    deploy::remove(client, &objects, clock).await?;
    Ok(())
}

/// Removes the definitions of the machine API.
pub(super) async fn definitions(client: &kube::Client, clock: &Clock) -> Result<(), DeployError> {
    let definitions: Result<Vec<_>, _> = mcm_api::crd::all().into_iter().map(serde_json::to_value).collect();
    let mut definitions = definitions.map_err(|source| DeployError::NoJson { kind: "CRD", source })?;
    for definition in &mut definitions {
        definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
        definition["kind"] = "CustomResourceDefinition".into();
    }
    deploy::remove(client, &definitions, clock).await
}

/// Removes fakecloud's new Nodes with their pods, volume attachments, Leases and Events.
async fn nodes(client: &kube::Client, before: &Before) -> Result<(), ObjectError> {
    let api: Api<Node> = Api::all(client.clone());
    for node in api.list(&ListParams::default()).await.map_err(cannot_read("nodes"))? {
        let name = node.name_any();
        if !is_of_our_cloud(&node) || before.nodes.contains(&name) {
            continue;
        }
        remove_node(client, &node).await?;
        let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
        remove(&leases, &name, &DeleteParams::default()).await?;
        let events: Api<Event> = Api::namespaced(client.clone(), "default");
        let about = ListParams::default().fields(&format!("involvedObject.kind=Node,involvedObject.name={name}"));
        remove_all(&events, &about, |_| true).await?;
    }
    Ok(())
}
