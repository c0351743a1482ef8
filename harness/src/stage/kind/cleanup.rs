//! Taking away what one run made: first who writes, then what was written, last the namespace.
//!
//! Nothing waits for a controller that is gone: finalizers of ours are taken off. What is touched outside of the namespace
//! is ours by its provider id or its name. What must not live here: the end of a whole cluster (`removal`).

use std::collections::BTreeSet;
use std::time::Duration;

use clock::Clock;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Secret};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::docker::Engine;
use super::pods::{FAKECLOUD, MCM, kill};
use super::world::RUN_LABEL;
use crate::deploy;
use crate::engine::kinds;
use crate::stage::tokens;

/// What a node of ours has in front of its provider id.
const PROVIDER: &str = "fakecloud://";
/// How long a namespace may take to go.
const NAMESPACE_LIMIT: Duration = Duration::from_secs(60);
/// How many times what a run left is looked for: what is deleted may be written once more by a process that was
/// just killed.
const ROUNDS: usize = 3;

/// Takes away everything of a run, and begins to remove its namespace. It may be called again.
///
/// # Errors
/// One line: what is left, and why.
pub(super) async fn tidy(client: &kube::Client, engine: &Engine, namespace: &str) -> Result<(), String> {
    // Nothing is created in a namespace that is on its way out, so no Deployment replaces the pods that are killed.
    delete(
        &Api::<Namespace>::all(client.clone()),
        namespace,
        &DeleteParams::background(),
    )
    .await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let programs = ListParams::default().labels(&format!("app.kubernetes.io/name in ({MCM}, {FAKECLOUD})"));
    let programs = pods.list(&programs).await.map_err(|error| told("pods", &error))?;
    kill(engine, &programs.items).await?;
    for kind in ["Machine", "MachineSet", "MachineDeployment", "MachineClass", "Secret"] {
        release(kinds::find(kind)?.api(client, namespace), kind).await?;
    }
    delete_at_once(&pods).await?;
    let mut nodes = BTreeSet::new();
    for _ in 0..ROUNDS {
        nodes.extend(delete_nodes(client).await?);
    }
    delete_attachments(client, &nodes).await?;
    delete_tokens(client).await?;
    deploy::remove(client, &deploy::rbac(namespace)?, &Clock::wall()).await
}

/// Waits until a namespace is gone.
///
/// # Errors
/// One line with what holds it.
pub(super) async fn namespace_gone(client: &kube::Client, namespace: &str) -> Result<(), String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(found) = namespaces
        .get_opt(namespace)
        .await
        .map_err(|error| told("namespaces", &error))?
    else {
        return Ok(());
    };
    let uid = found.uid().unwrap_or_default();
    let gone = await_condition(namespaces.clone(), namespace, conditions::is_deleted(&uid));
    match tokio::time::timeout(NAMESPACE_LIMIT, gone).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("the namespace {namespace} cannot be watched: {error}")),
        Err(_) => {
            let found = namespaces.get_opt(namespace).await.ok().flatten();
            let held = found.and_then(|found| found.status?.conditions).unwrap_or_default();
            let held: Vec<_> = held
                .into_iter()
                .filter(|held| held.status == "True")
                .filter_map(|held| held.message)
                .collect();
            Err(format!(
                "the namespace {namespace} is not gone after {NAMESPACE_LIMIT:?}: {}",
                held.join("; ")
            ))
        }
    }
}

/// Takes away what sessions left that were killed. Nobody else uses the cluster.
///
/// # Errors
/// One line: what is left, and why.
pub(super) async fn leftovers(client: &kube::Client, engine: &Engine) -> Result<(), String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let left = namespaces.list(&ListParams::default().labels(RUN_LABEL)).await;
    let left: Vec<String> = left
        .map_err(|error| told("namespaces", &error))?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    for namespace in &left {
        tidy(client, engine, namespace).await?;
    }
    for namespace in &left {
        namespace_gone(client, namespace).await?;
    }
    Ok(())
}

/// Takes the finalizers off all objects of a kind.
async fn release(api: Api<DynamicObject>, kind: &str) -> Result<(), String> {
    let listed = match api.list_metadata(&ListParams::default()).await {
        Ok(listed) => listed,
        Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
        Err(error) => return Err(told(kind, &error)),
    };
    let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    for object in listed.iter().filter(|object| !object.finalizers().is_empty()) {
        match api
            .patch_metadata(&object.name_any(), &PatchParams::default(), &none)
            .await
        {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => {
                return Err(format!(
                    "cannot take the finalizers off {kind} {}: {error}",
                    object.name_any()
                ));
            }
        }
    }
    Ok(())
}

/// Deletes all objects of a kind in a namespace without waiting for anybody.
async fn delete_at_once<K>(api: &Api<K>) -> Result<(), String>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let at_once = DeleteParams::default().grace_period(0);
    let deleted = api.delete_collection(&at_once, &ListParams::default()).await;
    deleted.map(drop).map_err(|error| told("pods", &error))
}

/// Deletes the nodes of our cloud and the pods on them, and returns the nodes' names.
async fn delete_nodes(client: &kube::Client) -> Result<Vec<String>, String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let listed = nodes
        .list(&ListParams::default())
        .await
        .map_err(|error| told("nodes", &error))?;
    let mut names = Vec::new();
    for node in listed {
        let provider = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        if !provider.is_some_and(|provider| provider.starts_with(PROVIDER)) {
            continue;
        }
        let name = node.name_any();
        delete(&nodes, &name, &DeleteParams::default()).await?;
        unhold(&nodes, &name).await?;
        let on_it = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let pods = Api::<Pod>::all(client.clone()).list(&on_it).await;
        for pod in pods.map_err(|error| told("pods", &error))? {
            let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
            delete(&api, &pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
        }
        names.push(name);
    }
    Ok(names)
}

/// Deletes attachments of volumes to nodes that were ours.
async fn delete_attachments(client: &kube::Client, nodes: &BTreeSet<String>) -> Result<(), String> {
    let api: Api<VolumeAttachment> = Api::all(client.clone());
    let listed = api
        .list(&ListParams::default())
        .await
        .map_err(|error| told("volumeattachments", &error))?;
    let ours: Vec<_> = listed
        .iter()
        .filter(|attachment| nodes.contains(&attachment.spec.node_name))
        .collect();
    for attachment in ours {
        delete(&api, &attachment.name_any(), &DeleteParams::default()).await?;
        unhold(&api, &attachment.name_any()).await?;
    }
    Ok(())
}

/// Deletes the bootstrap tokens that mcm made.
async fn delete_tokens(client: &kube::Client) -> Result<(), String> {
    let api: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    let tokens = ListParams::default().fields("type=bootstrap.kubernetes.io/token");
    for token in api.list(&tokens).await.map_err(|error| told("secrets", &error))? {
        if tokens::is_of_mcm(&token) {
            delete(&api, &token.name_any(), &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

/// Takes the finalizers off an object that is being deleted; the one who set them is gone.
async fn unhold<K>(api: &Api<K>, name: &str) -> Result<(), String>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    match api.patch(name, &PatchParams::default(), &none).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(format!("cannot take the finalizers off {name}: {error}")),
    }
}

async fn delete<K>(api: &Api<K>, name: &str, parameters: &DeleteParams) -> Result<(), String>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    match api.delete(name, parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => Err(format!("cannot delete {name}: {error}")),
    }
}

fn told(what: &str, error: &kube::Error) -> String {
    format!("cannot tidy up {what}: {error}")
}
