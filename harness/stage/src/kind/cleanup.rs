//! Taking away what one run made: first who writes, then what was written, last the namespace.
//!
//! Nothing waits for a controller that is gone: finalizers of ours are taken off. What is touched outside of the
//! namespace is ours by its provider id or its name.

use std::time::Duration;

use clock::Clock;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::wait::{await_condition, conditions};

use super::error::ClusterError;
use super::{KindError, nodes, pods};
use crate::objects::{cannot_read, release_held, remove_all};
use crate::{deploy, tokens};

/// What holds objects that belong to a run.
pub(super) const RUN_LABEL: &str = "drydock.dev/run";

/// How long a namespace may take to go.
const NAMESPACE_LIMIT: Duration = Duration::from_secs(60);

/// Takes away everything of a run, and begins to remove its namespace. It may be called again.
///
/// # Errors
/// One line: what is left, and why.
pub(super) async fn tidy(client: &kube::Client, namespace: &str) -> Result<(), KindError> {
    end_programs(client, namespace).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    // From here on nobody writes any more.
    release_held(client, namespace).await?;
    remove_all(&pods, &ListParams::default(), |_| true).await?;
    nodes::sweep(client).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), tokens::NAMESPACE);
    remove_all(&secrets, &ListParams::default().fields(tokens::TYPE), tokens::is_of_mcm).await?;
    deploy::remove(client, &deploy::rbac(namespace)?, &Clock::wall()).await?;
    Ok(())
}

/// Ends the programs of a run for good, and waits until the last container has ended.
async fn end_programs(client: &kube::Client, namespace: &str) -> Result<(), KindError> {
    // Nothing is created in a namespace that is on its way out, so no Deployment replaces the pods that are removed.
    begin_removal(client, namespace).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let programs = pods
        .list(&ListParams::default().labels(&pods::of_both()))
        .await
        .map_err(cannot_read("pods"))?;
    pods::remove(&pods, &programs.items).await?;
    Ok(())
}

/// Deletes a namespace without waiting for what is in it. One that is on its way out, or gone, is fine.
async fn begin_removal(client: &kube::Client, namespace: &str) -> Result<(), ClusterError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.delete(namespace, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(source) => Err(ClusterError::DeleteNamespace {
            namespace: namespace.to_owned(),
            source: Box::new(source),
        }),
    }
}

/// Waits until a namespace is gone.
///
/// # Errors
/// When it is not gone in time, with what holds it.
pub(super) async fn namespace_gone(client: &kube::Client, namespace: &str) -> Result<(), KindError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(found) = namespaces.get_opt(namespace).await.map_err(cannot_read("namespaces"))? else {
        return Ok(());
    };
    let uid = found.uid().unwrap_or_default();
    let gone = await_condition(namespaces.clone(), namespace, conditions::is_deleted(&uid));
    match tokio::time::timeout(NAMESPACE_LIMIT, gone).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => Err(ClusterError::WatchNamespace {
            namespace: namespace.to_owned(),
            source: Box::new(source),
        }
        .into()),
        Err(_) => {
            let found = namespaces.get_opt(namespace).await.ok().flatten();
            let held = found.and_then(|found| found.status?.conditions).unwrap_or_default();
            let held: Vec<_> = held
                .into_iter()
                .filter(|held| held.status == "True")
                .filter_map(|held| held.message)
                .collect();
            Err(ClusterError::NamespaceStays {
                namespace: namespace.to_owned(),
                limit: NAMESPACE_LIMIT,
                held_by: held.join("; "),
            }
            .into())
        }
    }
}

/// Takes away what sessions left that were killed, also Nodes whose namespace is gone. Nobody else uses the cluster.
///
/// # Errors
/// One line: what is left, and why.
pub(super) async fn leftovers(client: &kube::Client) -> Result<(), KindError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let left = namespaces.list(&ListParams::default().labels(RUN_LABEL)).await;
    let left: Vec<String> = left
        .map_err(cannot_read("namespaces"))?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    // All of them first: a Node that is deleted is written again while its fakecloud runs.
    for namespace in &left {
        end_programs(client, namespace).await?;
    }
    for namespace in &left {
        tidy(client, namespace).await?;
    }
    for namespace in &left {
        namespace_gone(client, namespace).await?;
    }
    nodes::sweep(client).await
}
