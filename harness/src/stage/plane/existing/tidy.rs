//! Removes what a run made in a cluster that is somebody else's, whether it ended, failed or was interrupted.
//!
//! Nobody of ours runs any more: finalizers of ours are taken off here. What is outside of the run's namespace is
//! touched only when it was not there before the session and is ours by its provider id or by what it names.

use std::collections::BTreeSet;
use std::fmt::Debug;

use clock::Clock;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Secret};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::deploy;
use crate::engine::kinds;
use crate::invariants::is_ours;
use crate::stage::role::Role;
use crate::stage::tokens;

/// The type of Secrets that are bootstrap tokens.
const TOKENS: &str = "type=bootstrap.kubernetes.io/token";
const TOKEN_NAMESPACE: &str = "kube-system";
/// Kinds of the run's namespace that may have finalizers of ours.
const HELD: [&str; 5] = ["Machine", "MachineSet", "MachineDeployment", "MachineClass", "Secret"];

/// What was there before the session.
#[derive(Debug)]
pub(super) struct Before {
    nodes: BTreeSet<String>,
    tokens: BTreeSet<String>,
}

impl Before {
    pub(super) async fn look(client: &kube::Client) -> Result<Self, String> {
        let nodes = Api::<Node>::all(client.clone())
            .list_metadata(&ListParams::default())
            .await;
        let tokens = Api::<Secret>::namespaced(client.clone(), TOKEN_NAMESPACE);
        let tokens = tokens.list_metadata(&ListParams::default().fields(TOKENS)).await;
        Ok(Self {
            nodes: nodes
                .map_err(told("nodes"))?
                .iter()
                .map(ResourceExt::name_any)
                .collect(),
            tokens: tokens
                .map_err(told("secrets"))?
                .iter()
                .map(ResourceExt::name_any)
                .collect(),
        })
    }
}

/// Removes what a run made in a cluster of that role.
pub(super) async fn run(
    client: &kube::Client,
    namespace: &str,
    role: Role,
    before: &Before,
    clock: &Clock,
) -> Result<(), String> {
    for kind in HELD.iter().filter(|_| role.holds_machines()) {
        let api = kinds::find(kind)?.api(client, namespace);
        for object in api.list_metadata(&ListParams::default()).await.map_err(told(kind))? {
            release(&api, &object.name_any(), object.finalizers()).await?;
        }
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    remove_all(&pods, &ListParams::default(), |_| true).await?;
    Box::pin(nodes(client, before)).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), TOKEN_NAMESPACE);
    let is_new = |token: &Secret| !before.tokens.contains(&token.name_any()) && tokens::is_of_mcm(token);
    remove_all(&secrets, &ListParams::default().fields(TOKENS), is_new).await?;
    let mut objects = role.rbac(namespace)?;
    objects.push(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }));
    deploy::remove(client, &objects, clock).await
}

/// Removes the definitions of the machine API.
pub(super) async fn definitions(client: &kube::Client, clock: &Clock) -> Result<(), String> {
    let definitions: Result<Vec<_>, _> = mcm_api::crd::all().into_iter().map(serde_json::to_value).collect();
    let mut definitions = definitions.map_err(|error| format!("a CRD has no JSON form: {error}"))?;
    for definition in &mut definitions {
        definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
        definition["kind"] = "CustomResourceDefinition".into();
    }
    deploy::remove(client, &definitions, clock).await
}

/// Nodes of our cloud that were not there before, with what is on them and what tells of them.
async fn nodes(client: &kube::Client, before: &Before) -> Result<(), String> {
    let api: Api<Node> = Api::all(client.clone());
    for node in api.list(&ListParams::default()).await.map_err(told("nodes"))? {
        let name = node.name_any();
        if !is_ours(node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref())) || before.nodes.contains(&name) {
            continue;
        }
        release(&api, &name, node.finalizers()).await?;
        remove(&api, &name, &DeleteParams::default()).await?;
        let pods: Api<Pod> = Api::all(client.clone());
        let on_it = ListParams::default().fields(&format!("spec.nodeName={name}"));
        for pod in pods.list(&on_it).await.map_err(told("pods"))? {
            let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
            remove(&api, &pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
        }
        let attachments: Api<VolumeAttachment> = Api::all(client.clone());
        for attachment in attachments
            .list(&ListParams::default())
            .await
            .map_err(told("volumeattachments"))?
        {
            if attachment.spec.node_name == name {
                release(&attachments, &attachment.name_any(), attachment.finalizers()).await?;
                remove(&attachments, &attachment.name_any(), &DeleteParams::default()).await?;
            }
        }
        let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
        remove(&leases, &name, &DeleteParams::default()).await?;
        let events: Api<Event> = Api::namespaced(client.clone(), "default");
        let about = ListParams::default().fields(&format!("involvedObject.kind=Node,involvedObject.name={name}"));
        remove_all(&events, &about, |_| true).await?;
    }
    Ok(())
}

/// Takes the finalizers off an object.
async fn release<K>(api: &Api<K>, name: &str, finalizers: &[String]) -> Result<(), String>
where
    K: Clone + DeserializeOwned + Debug,
{
    if finalizers.is_empty() {
        return Ok(());
    }
    let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let patched = api.patch_metadata(name, &PatchParams::default(), &none).await;
    unless_gone(patched.map(drop), name)
}

async fn remove_all<K>(api: &Api<K>, which: &ListParams, chosen: impl Fn(&K) -> bool) -> Result<(), String>
where
    K: Clone + DeserializeOwned + Debug + kube::Resource,
{
    for object in api
        .list(which)
        .await
        .map_err(told("objects"))?
        .iter()
        .filter(|object| chosen(object))
    {
        remove(api, &object.name_any(), &DeleteParams::default().grace_period(0)).await?;
    }
    Ok(())
}

async fn remove<K>(api: &Api<K>, name: &str, how: &DeleteParams) -> Result<(), String>
where
    K: Clone + DeserializeOwned + Debug,
{
    unless_gone(api.delete(name, how).await.map(drop), name)
}

fn unless_gone(result: kube::Result<()>, name: &str) -> Result<(), String> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        result => result.map_err(|error| format!("{name} is left: {error}")),
    }
}

fn told(what: &str) -> impl Fn(kube::Error) -> String {
    let what = what.to_owned();
    move |error| format!("cannot list {what} to remove them: {error}")
}
