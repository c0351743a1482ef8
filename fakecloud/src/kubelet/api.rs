//! Performs API calls of simulated kubelets; every result is returned as a value.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Error};

use super::calls::{Outcome, Request};
use super::facts::{NodeFacts, PodKey};
use super::objects::Renewal;

/// Timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Performs one call.
pub(super) async fn perform(client: Client, request: &Request) -> Outcome {
    match tokio::time::timeout(TIMEOUT, call(client, request)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a kubelet's call failed");
            Outcome::Failed(error.to_string())
        }
        Err(_) => Outcome::Failed(format!("the API server did not answer within {} s", TIMEOUT.as_secs())),
    }
}

async fn call(client: Client, request: &Request) -> Result<Outcome, Error> {
    match request {
        Request::ReadSecret { name } => {
            let secret = Api::<Secret>::namespaced(client, "kube-system").get_opt(name).await?;
            Ok(Outcome::Secret(secret.map(|secret| secret.data.unwrap_or_default())))
        }
        Request::Register { node } => register(client, node).await,
        Request::DeleteNode { name, uid } => {
            let nodes = Api::<Node>::all(client);
            let deleted = nodes.delete(name, &of_uid(uid, None)).await;
            gone_or_done(deleted.map(drop), &[404, 409])
        }
        Request::RenewLease(renewal) => renew(client, renewal).await,
        Request::NodeStatus { name, patch } => {
            let nodes = Api::<Node>::all(client);
            match nodes
                .patch_status(name, &PatchParams::default(), &Patch::Strategic(patch))
                .await
            {
                Ok(node) => Ok(Outcome::Node(Box::new(NodeFacts::of(&node)))),
                Err(error) if has_code(&error, &[404]) => Ok(Outcome::Gone),
                Err(error) => Err(error),
            }
        }
        Request::ReadVolumes { pod, claims, .. } => volumes(client, &pod.0, claims).await,
        Request::PodStatus { pod, patch, .. } => {
            let patched = pods(client, pod)
                .patch_status(&pod.1, &PatchParams::default(), &Patch::Strategic(patch))
                .await;
            match patched {
                Ok(pod) => Ok(Outcome::Written(version(&pod))),
                Err(error) if has_code(&error, &[404, 409, 422]) => Ok(Outcome::Gone),
                Err(error) => Err(error),
            }
        }
        Request::EndPod { pod, uid, .. } => {
            let deleted = pods(client, pod).delete(&pod.1, &of_uid(uid, Some(0))).await;
            gone_or_done(deleted.map(drop), &[404, 409])
        }
        Request::RenewMirror { pod, uid, .. } => renew_mirror(client, pod, uid).await,
    }
}

/// Creates the Node, or reads the existing one.
async fn register(client: Client, node: &Node) -> Result<Outcome, Error> {
    let nodes = Api::<Node>::all(client);
    let created = match nodes.create(&PostParams::default(), node).await {
        Err(error) if has_code(&error, &[409]) => nodes.get(node.metadata.name.as_deref().unwrap_or_default()).await?,
        created => created?,
    };
    Ok(Outcome::Node(Box::new(NodeFacts::of(&created))))
}

/// Renews the Lease, or creates it.
async fn renew(client: Client, renewal: &Renewal) -> Result<Outcome, Error> {
    let leases = Api::<Lease>::namespaced(client, "kube-node-lease");
    match leases
        .patch(&renewal.node, &PatchParams::default(), &Patch::Merge(renewal.patch()))
        .await
    {
        Ok(_) => Ok(Outcome::Done),
        Err(error) if has_code(&error, &[404]) => {
            let lease = serde_json::from_value(renewal.whole()).map_err(Error::SerdeError)?;
            leases.create(&PostParams::default(), &lease).await?;
            Ok(Outcome::Done)
        }
        Err(error) => Err(error),
    }
}

/// Names of the attachable volumes of claims, in the form of a Node's status.
async fn volumes(client: Client, namespace: &str, claims: &[String]) -> Result<Outcome, Error> {
    let of_claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let volumes = Api::<PersistentVolume>::all(client.clone());
    let drivers = Api::<CSIDriver>::all(client);
    let mut names = BTreeSet::new();
    for claim in claims {
        let claim = of_claims.get_opt(claim).await?;
        let bound = claim.as_ref().and_then(|claim| {
            let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
            let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
            volume.filter(|volume| !volume.is_empty() && phase == Some("Bound"))
        });
        let Some(volume) = bound else {
            return Ok(Outcome::Volumes(None));
        };
        let Some(volume) = volumes.get_opt(volume).await? else {
            return Ok(Outcome::Volumes(None));
        };
        let Some(csi) = volume.spec.and_then(|spec| spec.csi) else {
            continue;
        };
        let driver = drivers.get_opt(&csi.driver).await?;
        if driver.and_then(|driver| driver.spec.attach_required).unwrap_or(true) {
            names.insert(format!("kubernetes.io/csi/{}^{}", csi.driver, csi.volume_handle));
        }
    }
    Ok(Outcome::Volumes(Some(names.into_iter().collect())))
}

/// Deletes the mirror pod and creates it again: the static pod still exists.
async fn renew_mirror(client: Client, key: &PodKey, uid: &str) -> Result<Outcome, Error> {
    let pods = pods(client, key);
    let Some(pod) = pods.get_opt(&key.1).await? else {
        return Ok(Outcome::Gone);
    };
    match pods.delete(&key.1, &of_uid(uid, Some(0))).await {
        Err(error) if has_code(&error, &[404, 409]) => return Ok(Outcome::Gone),
        deleted => drop(deleted?),
    }
    let mut fresh = Pod {
        spec: pod.spec,
        ..Pod::default()
    };
    fresh.metadata.name = pod.metadata.name;
    fresh.metadata.namespace = pod.metadata.namespace;
    fresh.metadata.labels = pod.metadata.labels;
    fresh.metadata.annotations = pod.metadata.annotations;
    fresh.metadata.owner_references = pod.metadata.owner_references;
    let created = pods.create(&PostParams::default(), &fresh).await;
    // Another pod, or a finalizer, occupies the name: nothing more to do.
    gone_or_done(created.map(drop), &[404, 409])
}

fn of_uid(uid: &str, grace_period_seconds: Option<u32>) -> DeleteParams {
    DeleteParams {
        grace_period_seconds,
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

fn version(pod: &Pod) -> u64 {
    let version = pod.metadata.resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn pods(client: Client, (namespace, _): &PodKey) -> Api<Pod> {
    Api::namespaced(client, namespace)
}

/// The codes in `gone` mean that the object does not exist, or is another one of that name.
fn gone_or_done(result: Result<(), Error>, gone: &[u16]) -> Result<Outcome, Error> {
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(error) if has_code(&error, gone) => Ok(Outcome::Gone),
        Err(error) => Err(error),
    }
}

fn has_code(error: &Error, codes: &[u16]) -> bool {
    matches!(error, Error::Api(status) if codes.contains(&status.code))
}
