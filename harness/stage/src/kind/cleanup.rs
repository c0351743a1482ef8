//! Removes everything that a run created: first its programs, then the objects that they wrote, last the namespace.
//!
//! The cleanup removes finalizers itself, because the controllers that set them have ended. Outside of the namespace it
//! touches only objects that belong to drydock by their provider ID or name.

use std::time::Duration;

use clock::Clock;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::wait::{await_condition, conditions};

use super::error::ClusterError;
use super::limit::within;
use super::{KindError, nodes, pods};
use crate::objects::{cannot_read, release_all, remove_all};
use crate::{deploy, tokens};

/// The label of namespaces that belong to a run.
pub(super) const RUN_LABEL: &str = "drydock.dev/run";

/// How long the deletion of a namespace may take.
const NAMESPACE_LIMIT: Duration = Duration::from_secs(60);

/// Removes everything of a run, and starts the deletion of its namespace. It may be called again.
///
/// # Errors
/// What could not be removed, and why, in one line.
pub(super) async fn tidy(client: &kube::Client, namespace: &str) -> Result<(), KindError> {
    end_programs(client, namespace).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    // No program of the run writes any more.
    release_all(client, namespace).await?;
    remove_all(&pods, &ListParams::default(), |_| true).await?;
    nodes::sweep(client).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), tokens::NAMESPACE);
    remove_all(&secrets, &ListParams::default().fields(tokens::TYPE), tokens::is_of_mcm).await?;
    deploy::remove(client, &deploy::rbac(namespace)?, &Clock::wall()).await?;
    Ok(())
}

/// Stops the programs of a run permanently, and waits until the last container has ended.
async fn end_programs(client: &kube::Client, namespace: &str) -> Result<(), KindError> {
    // The API server rejects creations in a terminating namespace, so no Deployment replaces the removed pods.
    begin_removal(client, namespace).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let programs = pods
        .list(&ListParams::default().labels(&pods::of_all()))
        .await
        .map_err(cannot_read("pods"))?;
    pods::remove(&pods, &programs.items).await?;
    Ok(())
}

/// Starts the deletion of a namespace without waiting. Ignores a terminating or absent namespace.
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

/// Waits until a namespace is deleted.
///
/// # Errors
/// When it is not deleted in time, with the conditions that block the deletion.
pub(super) async fn namespace_gone(client: &kube::Client, namespace: &str) -> Result<(), KindError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(found) = namespaces.get_opt(namespace).await.map_err(cannot_read("namespaces"))? else {
        return Ok(());
    };
    let uid = found.uid().unwrap_or_default();
    let gone = await_condition(namespaces.clone(), namespace, conditions::is_deleted(&uid));
    match within(NAMESPACE_LIMIT, gone).await {
        Some(Ok(_)) => Ok(()),
        Some(Err(source)) => Err(ClusterError::WatchNamespace {
            namespace: namespace.to_owned(),
            source: Box::new(source),
        }
        .into()),
        None => {
            let found = namespaces.get_opt(namespace).await.ok().flatten();
            let conditions = found.and_then(|found| found.status?.conditions).unwrap_or_default();
            let messages: Vec<_> = conditions
                .into_iter()
                .filter(|condition| condition.status == "True")
                .filter_map(|condition| condition.message)
                .collect();
            Err(ClusterError::NamespaceStays {
                namespace: namespace.to_owned(),
                limit: NAMESPACE_LIMIT,
                conditions: messages.join("; "),
            }
            .into())
        }
    }
}

/// Removes the remains of killed sessions, including Nodes whose namespace is deleted. No other session may use the
/// cluster.
///
/// # Errors
/// What could not be removed, and why, in one line.
pub(super) async fn leftovers(client: &kube::Client) -> Result<(), KindError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let left = namespaces.list(&ListParams::default().labels(RUN_LABEL)).await;
    let left: Vec<String> = left
        .map_err(cannot_read("namespaces"))?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    // First stop all programs: a running fakecloud writes its deleted Nodes again.
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
