//! Makes the API calls of simulated kubelets; every answer comes back as a value.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Error};
use serde_json::Value;

use super::facts::{NodeFacts, PodKey};
use super::fleet::{Outcome, Request};

/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Makes one call.
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
        Request::RenewLease { name, lease } => renew(client, name, lease).await,
        Request::NodeStatus { name, patch } => {
            let nodes = Api::<Node>::all(client);
            match nodes
                .patch_status(name, &PatchParams::default(), &Patch::Strategic(patch))
                .await
            {
                Ok(node) => Ok(Outcome::Node(NodeFacts::of(&node))),
                Err(error) if has_code(&error, &[404]) => Ok(Outcome::Gone),
                Err(error) => Err(error),
            }
        }
        Request::PodStatus { pod, patch } => {
            let patched = pods(client, pod)
                .patch_status(&pod.1, &PatchParams::default(), &Patch::Strategic(patch))
                .await;
            gone_or_done(patched.map(drop), &[404, 409, 422])
        }
        Request::EndPod { pod, uid } => {
            let parameters = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            gone_or_done(
                pods(client, pod).delete(&pod.1, &parameters).await.map(drop),
                &[404, 409],
            )
        }
    }
}

/// Creates the Node, or reads the one that is there.
async fn register(client: Client, node: &Node) -> Result<Outcome, Error> {
    let nodes = Api::<Node>::all(client);
    let created = match nodes.create(&PostParams::default(), node).await {
        Err(error) if has_code(&error, &[409]) => nodes.get(node.metadata.name.as_deref().unwrap_or_default()).await?,
        created => created?,
    };
    Ok(Outcome::Node(NodeFacts::of(&created)))
}

/// Renews the Lease, or creates it.
async fn renew(client: Client, name: &str, lease: &Value) -> Result<Outcome, Error> {
    let leases = Api::<Lease>::namespaced(client, "kube-node-lease");
    match leases.patch(name, &PatchParams::default(), &Patch::Merge(lease)).await {
        Ok(_) => Ok(Outcome::Done),
        Err(error) if has_code(&error, &[404]) => {
            let lease = serde_json::from_value(lease.clone()).map_err(Error::SerdeError)?;
            leases.create(&PostParams::default(), &lease).await?;
            Ok(Outcome::Done)
        }
        Err(error) => Err(error),
    }
}

fn pods(client: Client, (namespace, _): &PodKey) -> Api<Pod> {
    Api::namespaced(client, namespace)
}

/// The codes in `gone` mean that the object is not there, or is another one of that name.
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
