//! Removes the remaining objects of a run, with their finalizers: the controllers that set these have ended. Ignores
//! absent objects.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use runtime::error::brief;
use scenario::kinds::{self, UnknownKind};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::kind_api::KindApi;

/// Namespaced kinds that may have finalizers of mcm.
const KINDS_WITH_FINALIZERS: [&str; 5] = ["Machine", "MachineSet", "MachineDeployment", "MachineClass", "Secret"];

/// Errors of removing the objects of a run.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// Scenarios do not support the kind.
    #[error(transparent)]
    UnknownKind(#[from] UnknownKind),
    /// The API server rejects a read.
    #[error("cannot read {what}: {}", brief(source))]
    Read {
        /// Which objects.
        what: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The API server rejects the deletion of an object, or the removal of its finalizers.
    #[error("cannot remove {object}: {}", brief(source))]
    Left {
        /// Its path.
        object: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

/// Whether a Node has a provider ID of fakecloud.
pub(super) fn is_of_our_cloud(node: &Node) -> bool {
    judge::interest::is_ours(node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()))
}

/// Deletes a Node, the pods on it and the attachments of volumes to it.
pub(super) async fn remove_node(client: &kube::Client, node: &Node) -> Result<(), ObjectError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let name = node.name_any();
    release(&nodes, &name, node.finalizers()).await?;
    remove(&nodes, &name, &DeleteParams::default()).await?;
    let on_it = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let pods = Api::<Pod>::all(client.clone()).list(&on_it).await;
    for pod in pods.map_err(cannot_read("pods"))? {
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        remove(&api, &pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
    }
    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    let listed = attachments.list(&ListParams::default()).await;
    for attachment in listed.map_err(cannot_read("volumeattachments"))? {
        if attachment.spec.node_name == name {
            release(&attachments, &attachment.name_any(), attachment.finalizers()).await?;
            remove(&attachments, &attachment.name_any(), &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

/// Removes the finalizers of all objects of a namespace that may have finalizers of mcm.
pub(super) async fn release_all(client: &kube::Client, namespace: &str) -> Result<(), ObjectError> {
    for kind in KINDS_WITH_FINALIZERS {
        let api = kinds::find(kind)?.api(client, namespace);
        for object in api
            .list_metadata(&ListParams::default())
            .await
            .map_err(cannot_read(kind))?
        {
            release(&api, &object.name_any(), object.finalizers()).await?;
        }
    }
    Ok(())
}

/// Removes the finalizers of an object.
pub(super) async fn release<K>(api: &Api<K>, name: &str, finalizers: &[String]) -> Result<(), ObjectError>
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    if finalizers.is_empty() {
        return Ok(());
    }
    let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let patched = api.patch_metadata(name, &PatchParams::default(), &none).await;
    ignore_absent(patched.map(drop), api, name)
}

/// Deletes the listed objects that `chosen` accepts, without a grace period.
pub(super) async fn remove_all<K>(
    api: &Api<K>,
    which: &ListParams,
    chosen: impl Fn(&K) -> bool,
) -> Result<(), ObjectError>
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    for object in api
        .list(which)
        .await
        .map_err(cannot_read(api.resource_url()))?
        .iter()
        .filter(|object| chosen(object))
    {
        remove(api, &object.name_any(), &DeleteParams::default().grace_period(0)).await?;
    }
    Ok(())
}

/// Deletes an object. Ignores an absent one.
pub(super) async fn remove<K>(api: &Api<K>, name: &str, how: &DeleteParams) -> Result<(), ObjectError>
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    ignore_absent(api.delete(name, how).await.map(drop), api, name)
}

/// Converts an error of reading `what`.
pub(super) fn cannot_read(what: &str) -> impl Fn(kube::Error) -> ObjectError {
    let what = what.to_owned();
    move |source| ObjectError::Read {
        what: what.clone(),
        source: Box::new(source),
    }
}

fn ignore_absent<K: Resource>(result: kube::Result<()>, api: &Api<K>, name: &str) -> Result<(), ObjectError> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        result => result.map_err(|source| ObjectError::Left {
            object: format!("{}/{name}", api.resource_url()),
            source: Box::new(source),
        }),
    }
}
